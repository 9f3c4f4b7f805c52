"""What executors take and give as JSON Schema, and what is wrong with a config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field

from stepfast import Executor, Invalid
from stepfast.kernel.errors import InvalidDefinition


class ScoreConfig(BaseModel):
    temperature: float = Field(default=0, ge=0, le=2)
    model: str


@dataclass
class Clause:
    text: str
    weight: int = 1


async def score(clause: Clause, rubric: str = "standard", *, config: ScoreConfig) -> list[float]:
    return [config.temperature]


class Scorer:
    async def execute(self, text: str, config: ScoreConfig) -> float:
        return config.temperature

    def validate_config(self, config: ScoreConfig) -> list[str]:
        if config.model == "broken":
            raise LookupError("no such model")
        return ["model: it is too old"] if config.model == "old" else []


def test_the_inputs_are_the_parameters_without_the_config():
    schema = Executor.of(score).inputs
    assert set(schema["properties"]) == {"clause", "rubric"}
    assert (schema["required"], schema["additionalProperties"]) == (["clause"], False)
    assert schema["properties"]["rubric"]["default"] == "standard"
    assert schema["$defs"]["Clause"]["required"] == ["text"]


def test_the_output_is_what_the_hint_says():
    assert Executor.of(score).output == {"items": {"type": "number"}, "type": "array"}


def test_without_a_hint_nothing_is_known_of_the_output():
    assert Executor.of(lambda: 1, "unhinted").output is None


def test_further_keywords_are_open():
    def anything(**more: int) -> None: ...

    assert Executor.of(anything).inputs == {"type": "object", "properties": {}, "additionalProperties": True}


def test_a_parameter_that_no_schema_describes_costs_the_others_nothing():
    def odd(name: str, act: Callable[[], int] | None = None) -> None: ...

    schema = Executor.of(odd).inputs
    assert (schema["properties"]["name"]["type"], schema["required"]) == ("string", ["name"])


def test_the_config_is_described_by_the_parameter_of_that_name():
    schema = Executor.of(score).config
    assert schema is not None
    assert (schema["required"], set(schema["properties"])) == (["model"], {"temperature", "model"})


def test_a_class_may_declare_the_type_of_its_config():
    class Loose:
        config = ScoreConfig

        def execute(self, config) -> None: ...

    executor = Executor.of(Loose)
    assert executor.config == Executor.of(score).config
    assert executor.validate_config({}) == ["model: Field required"]


def test_a_class_that_declares_a_config_must_take_it():
    class Deaf:
        config = ScoreConfig

        def execute(self) -> None: ...

    with pytest.raises(InvalidDefinition, match="`config: ScoreConfig`"):
        Executor.of(Deaf)


def test_a_config_that_fits_has_no_problems():
    assert Executor.of(score).validate_config({"model": "new", "temperature": 1}) == []


def test_all_that_does_not_fit_is_told_at_once():
    problems = Executor.of(score).validate_config({"temperature": 3, "modle": "new"})
    assert [problem.partition(":")[0] for problem in problems] == ["modle", "temperature", "model"]
    assert problems[0] == "modle: there is no such field. Did you mean 'model'?"


def test_a_config_for_one_that_takes_none_is_a_problem():
    executor = Executor.of(len, "count")
    assert executor.validate_config({"a": 1}) == ["config: executor count takes none."]
    assert executor.validate_config({}) == []


@pytest.mark.parametrize("given", [[1], "text", None, {1: 2}], ids=str)
def test_a_config_that_is_no_map_of_names_is_a_problem(given: Any):
    (problem,) = Executor.of(score).validate_config(given)
    assert problem.startswith("config: ")


def test_an_empty_config_gives_way_to_the_default():
    def relaxed(config: ScoreConfig | None = None) -> None: ...

    executor = Executor.of(relaxed)
    assert (executor.validate_config({}), executor.arguments_of({}).arguments) == ([], {})


def test_the_classes_own_check_comes_after_the_schema():
    executor = Executor.of(Scorer)
    assert executor.validate_config({"model": "old"}) == ["model: it is too old"]
    assert executor.validate_config({"model": "old", "temperature": 9})[0].startswith("temperature: ")


def test_a_check_that_raises_is_a_problem_and_no_more():
    assert Executor.of(Scorer).validate_config({"model": "broken"}) == ["config: LookupError: no such model"]


def test_a_value_that_is_no_json_is_a_problem():
    (problem, *_) = Executor.of(score).validate_config({"model": object()})
    assert "cannot be stored" in problem


def test_plain_json_becomes_the_typed_arguments_of_the_body():
    bound = Executor.of(score).arguments_of({"clause": {"text": "a"}}, {"model": "new"})
    assert bound.arguments == {"clause": Clause("a"), "config": ScoreConfig(model="new")}


def test_a_config_among_the_inputs_is_refused():
    with pytest.raises(Invalid, match="among its inputs"):
        Executor.of(score).arguments_of({"clause": {"text": "a"}, "config": {"model": "new"}})


def test_arguments_with_a_config_that_does_not_fit_are_refused():
    with pytest.raises(Invalid, match="temperature: "):
        Executor.of(score).arguments_of({"clause": {"text": "a"}}, {"model": "new", "temperature": -1})
