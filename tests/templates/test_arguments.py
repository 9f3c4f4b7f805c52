"""What a run of a template is given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepfast.kernel.errors import Invalid
from stepfast.workflows.templates.arguments import TemplateArguments
from tests.templates.writing import HEAD, loaded

INPUTS = """
inputs:
  rubric: {schema: {type: string, minLength: 3}, default: standard}
  clauses: {schema: {type: array, items: {type: object, required: [id]}}}
  extra: {default: null}
steps: [{id: a, set: 1}]
"""


def arguments(inputs: str) -> TemplateArguments:
    return loaded(HEAD + inputs).arguments


def refusal(codec: TemplateArguments, *args: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(Invalid) as raised:
        codec.bind(args, kwargs)
    return str(raised.value).splitlines()


def test_defaults_stand_in_for_what_is_not_given():
    bound = arguments(INPUTS).bind((), {"clauses": [{"id": 1}]})
    assert bound == {"inputs": {"rubric": "standard", "clauses": [{"id": 1}], "extra": None}, "config": {}}


def test_all_that_does_not_fit_is_told_at_once():
    assert refusal(arguments(INPUTS), rubric="x", clauses=[{"id": 1}, {}], rubrik=1) == [
        "The inputs of workflow 'test' do not fit:",
        "rubrik: there is no such input. Did you mean 'rubric'?",
        "rubric: 'x' is too short",
        "clauses: 1: 'id' is a required property",
    ]


def test_what_has_no_default_must_be_given():
    assert refusal(arguments(INPUTS)) == [
        "The inputs of workflow 'test' do not fit:",
        "clauses: nothing is given, and it has no default",
    ]


def test_an_only_input_may_be_given_without_its_name():
    codec = arguments("inputs: {n: {}}\nsteps: [{id: a, set: 1}]")
    assert codec.bind(({"any": "thing"},), {})["inputs"] == {"n": {"any": "thing"}}


@pytest.mark.parametrize("args", [(1, 2), (1,)])
def test_several_inputs_are_given_by_name(args):
    assert refusal(arguments(INPUTS), *args) == [
        f"workflow 'test' takes its inputs by name: rubric, clauses, extra. {len(args)} came without one."
    ]


def test_the_config_of_steps_goes_along():
    assert arguments(INPUTS).bind((), {"clauses": [], "config": {"a": {"x": 1}}})["config"] == {"a": {"x": 1}}


def test_what_is_stored_is_read_back():
    codec = arguments(INPUTS)
    bound = codec.bind((), {"clauses": [{"id": 1}]})
    text, restored = codec.restore(bound)
    assert codec.decode(text) == restored == bound == json.loads(text)


def test_what_comes_as_json_can_be_bound():
    codec = arguments(INPUTS)
    given = codec.from_json((), {"clauses": []})
    assert codec.bind(given.args, given.kwargs) == codec.bind((), {"clauses": []})


def test_what_is_missing_is_known_by_name():
    assert arguments(INPUTS).missing(0, {"rubric"}) == ["clauses"]


def test_an_event_is_held_to_its_schema_by_its_data():
    codec = arguments("inputs: {e: {kind: event, schema: {required: [id]}}}\nsteps: [{id: a, set: 1}]")
    codec.bind((), {"e": {"type": "x", "data": {"id": 1}}})
    assert refusal(codec, e={"type": "x", "data": {}})[1:] == ["e: 'id' is a required property"]
    assert refusal(codec, e=5)[1:] == ["e: it is 5; give an event, an object with `type` and `data`"]


@pytest.mark.parametrize("kind", ["kind: asset", "kind: collection, of: x", "kind: query, from: assets"])
def test_assets_that_were_not_looked_up_are_refused(kind):
    codec = arguments(f"inputs: {{a: {{{kind}}}}}\nsteps: [{{id: a, set: 1}}]")
    assert "which was not looked up" in refusal(codec, a="some-id")[1]
