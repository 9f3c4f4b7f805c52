"""Expressions of a template: where their faults are, and which types they may have."""

from __future__ import annotations

import pytest

from tests.templates.writing import HEAD, of_steps, told_of_steps, value_of

INPUTS = HEAD + (
    "inputs: {n: {schema: {type: integer}}, s: {schema: {type: string}}, free: {},"
    " o: {schema: {type: object, properties: {x: {type: boolean}}, additionalProperties: false}}}\n"
)

WRONG = {
    "a sum of number and text": ("- {id: a, set: '${ inputs.n + inputs.s }'}", "'+' does not take int and string"),
    "a field that the schema does not have": ("- {id: a, set: '${ inputs.o.y }'}", "has no 'y' here"),
    "a condition that is a number": (
        "- {id: a, set: 1, when: '${ inputs.n }'}",
        "it gives int, and true or false is needed here",
    ),
    "a requirement that is text": ("- {id: a, set: 1, require: '${ inputs.s }'}", "it gives string, and true or false"),
    "a loop over a number": ("- {id: a, set: 1, while: {when: '${ inputs.n }'}}", "/while/when: it gives int"),
    "a gate over text": (
        "- {id: a, set: 1, gate: {after: {when: '${ inputs.s }'}}}",
        "/gate/after/when: it gives string",
    ),
    "a case over a number": (
        "- {id: a, switch: [{when: '${ 1 }', do: [{id: b, set: 1}]}]}",
        "/switch/0/when: it gives int",
    ),
    "items that are text": ("- {id: a, set: 1, each: '${ inputs.s }'}", "it gives string, and a list is needed here"),
    "a pause that is a list": ("- {id: a, sleep: '${ [1] }'}", "it gives list(int), and a duration is needed here"),
    "a limit that is a boolean": ("- {id: a, receive: {signal: x, timeout: '${ true }'}}", "a duration is needed here"),
    "a signal that is a number": ("- {id: a, receive: '${ 1 }'}", "it gives int, and text is needed here"),
    "arguments that are a list": (
        "- {id: a, use: b, with: '${ [1] }'}",
        "it gives list(int), and a map of names to values",
    ),
    "a list inside text": ("- {id: a, set: 'x ${ [1] }'}", "cannot be put into a text"),
    "what a step computes": (
        "- {id: a, set: {x: 1}}\n- {id: b, set: '${ steps.a.output.y }'}",
        "has no 'y' here",
    ),
    "what a sequence gives": (
        "- {id: a, do: [{id: b, set: 1}, {id: c, set: text}]}\n- {id: d, set: '${ steps.a.output + 1 }'}",
        "'+' does not take string and int",
    ),
    "what branches give": (
        "- {id: a, parallel: [{id: b, set: 1}]}\n- {id: c, set: '${ steps.a.output.results.d }'}",
        "has no 'd' here",
    ),
    "what items give": (
        "- {id: a, each: [1], set: 1}\n- {id: b, set: '${ steps.a.output.values }'}",
        "has no 'values' here",
    ),
    "the output at a gate": (
        "- {id: a, set: {risk: 1}, gate: {after: {when: '${ output.rsk > 1 }'}}}",
        "Did you mean 'risk'?",
    ),
    "an error's field": (
        "- {id: a, set: 1, catch: [{do: [{id: b, set: '${ error.message + 1 }'}]}]}",
        "'+' does not take",
    ),
}


@pytest.mark.parametrize(("steps", "line"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_evaluated_is_told_once(steps, line):
    found = told_of_steps(steps, head=INPUTS)
    assert len(found) == 1
    assert line in found[0]


@pytest.mark.parametrize(
    "steps",
    [
        "- {id: a, set: '${ inputs.free.any.thing + 1 }'}",
        "- {id: a, set: 1, when: '${ inputs.o.x && inputs.n > 3 }'}",
        "- {id: a, sleep: '${ inputs.n }'}",
        "- {id: a, sleep: '${ inputs.s }'}",
        "- {id: a, set: 'n is ${ inputs.n }, and $${ this is none }'}",
        "- {id: a, run: child}\n- {id: b, set: '${ steps.a.output.what.ever }'}",
        "- {id: a, set: 1, catch: [{do: [{id: b, set: text}]}]}\n- {id: c, set: '${ steps.a.output + \"x\" }'}",
    ],
)
def test_what_is_not_known_is_no_fault(steps):
    of_steps(steps, head=INPUTS)


PLACES = {
    "in a line": ("- id: a\n  set: 'x ${ 1 + } y'", "5:18"),
    "in a block": ("- id: a\n  set: |\n    first\n    second ${ nothing } third\n", "7:15"),
    "in a folded block": ("- id: a\n  set: >\n    first\n    second ${ nothing } third\n", "7:15"),
    "behind escapes": ('- id: a\n  set: "\\u00e4\\t ${ nothing }"', "5:21"),
    "in a map": ("- id: a\n  set:\n    x:\n      - 1\n      - ${ nothing }", "8:12"),
}


@pytest.mark.parametrize(("steps", "place"), PLACES.values(), ids=PLACES)
def test_a_fault_is_where_it_stands_inside_the_text(steps, place):
    (line,) = told_of_steps(steps)
    assert line.startswith(f"{place}: /steps/0/set")


def test_all_faults_of_one_value_are_told():
    found = told_of_steps("- {id: a, set: ['${ a }', '${ b }', '${ 1 + }']}")
    assert [line.split(": ")[1] for line in found] == ["/steps/0/set/0", "/steps/0/set/1", "/steps/0/set/2"]


def test_an_expression_may_end_with_the_line_of_its_block():
    assert value_of(of_steps("- id: a\n  set: |\n    ${ [1] }\n")) == [1]


def test_a_ring_of_steps_does_not_send_the_types_round_for_ever():
    assert len(told_of_steps("- {id: a, set: '${ steps.b.output }'}\n- {id: b, set: '${ steps.a.output }'}")) == 1
