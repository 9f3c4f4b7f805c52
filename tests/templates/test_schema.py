"""The JSON Schema of the language: shipped as it is made, and of one mind with the loader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from jsonschema.validators import Draft202012Validator

from stepfast.workflows.templates.profile import read_text
from stepfast.workflows.templates.schema import composed_schema, language_schema, schema_text, shipped_schema
from tests.templates.test_language import GOOD, SHAPES, STEPS
from tests.templates.writing import HEAD, executors

# What only the loader can see, as it looks at more than one key at a time, or into texts.
BEYOND = {
    "a share above all",
    "a timeout of nothing",
    "a name with a blank",
    "expiry without a time",
    "escalation to nobody",
    "an end that is not allowed",
    "no answer that ends it",
    "a role by expression",
    "a config by expression",
    "inputs of a child twice",
    "join without several",
}


def misfits(schema: dict[str, Any], text: str) -> list[str]:
    document, _ = read_text(text, "file")
    return [error.message for error in Draft202012Validator(schema).iter_errors(document.root.plain())]


def test_the_schema_that_is_shipped_is_the_one_that_is_made():
    assert shipped_schema() == language_schema(), "Run `make docs`."


def test_it_is_a_json_schema():
    Draft202012Validator.check_schema(shipped_schema())


@pytest.mark.parametrize("steps", GOOD.values(), ids=GOOD)
def test_what_is_good_fits_it(steps):
    assert misfits(shipped_schema(), f"{HEAD}steps:\n{steps}") == []


@pytest.mark.parametrize("name", [name for name in STEPS if name not in BEYOND])
def test_what_is_wrong_with_a_step_does_not_fit_it(name):
    assert misfits(shipped_schema(), f"{HEAD}steps:\n{STEPS[name][0]}")


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_wrong_with_the_whole_does_not_fit_it(name):
    assert misfits(shipped_schema(), SHAPES[name][0]) or name in BEYOND


@dataclass
class Clause:
    text: str


@dataclass
class Settings:
    temperature: float = 0.5


async def score(clauses: list[Clause], depth: int = 1, config: Settings = Settings()) -> float:  # noqa: B008
    """Score some clauses."""
    return 1.0


COMPOSED = composed_schema(executors(ai_score=score).values())


def test_a_composed_schema_is_one_too():
    Draft202012Validator.check_schema(COMPOSED)


@pytest.mark.parametrize(
    "step",
    [
        "use: ai.score, with: {clauses: [{text: a}]}",
        "use: ai.score, with: {clauses: '${ inputs.x }', depth: '${ 1 }'}, config: {temperature: 1}",
        "use: ai.score, with: '${ inputs.x }'",
        "set: 1",
    ],
)
def test_what_executors_take_fits_the_composed_schema(step):
    assert misfits(COMPOSED, f"{HEAD}steps: [{{id: a, {step}}}]") == []


@pytest.mark.parametrize(
    "step",
    [
        "use: ai.other",
        "use: ai.score, with: {clauses: [{text: 5}]}",
        "use: ai.score, with: {depth: 1}",
        "use: ai.score, with: {clauses: [], width: 1}",
        "use: ai.score, with: {clauses: []}, config: {temperature: hot}",
    ],
)
def test_what_executors_do_not_take_does_not_fit_the_composed_schema(step):
    assert misfits(COMPOSED, f"{HEAD}steps: [{{id: a, {step}}}]")


def test_every_key_says_what_it_is_for():
    schema = shipped_schema()
    for name, part in {**schema["$defs"], "": schema}.items():
        for key, described in part.get("properties", {}).items():
            assert described.get("description"), f"{name}.{key}"


def test_it_is_written_with_a_line_for_each_part():
    assert schema_text({"a": 1}) == '{\n  "a": 1\n}\n'
