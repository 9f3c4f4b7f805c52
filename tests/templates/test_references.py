"""What a template names must be there, and must be nameable from where it is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import pytest

from tests.templates.writing import HEAD, executors, of_steps, problems, told, told_of_steps


class Parsed(TypedDict):
    clauses: list[str]
    pages: int


@dataclass
class Settings:
    temperature: float = 0.5
    model: str = "small"


async def parse(uri: str, depth: int = 1) -> Parsed:
    """Read a document."""
    return {"clauses": [], "pages": 1}


async def score(text: str, config: Settings) -> float:
    return 1.0


async def log(**words: str) -> None: ...


async def judge(output: object, config: Settings) -> dict[str, bool]:
    return {"ok": True}


KNOWN = executors(docs_parse=parse, ai_score=score, policy_ai=judge, log=log)

WRONG = {
    "a step that is not there": (
        "- {id: build, set: 1}\n- {id: test, needs: [biuld], set: 1}",
        "5:22: /steps/1/needs/0: step 'test' needs 'biuld', which does not exist (Did you mean 'build'?)",
    ),
    "an output that is not there": (
        "- {id: build, set: 1}\n- {id: test, set: 'a ${ steps.biuld.output }'}",
        "5:25: /steps/1/set: there is no step 'biuld' (Did you mean 'build'?)",
    ),
    "an output by index": (
        "- {id: a, set: 1}\n- {id: b, set: \"${ steps['c'].output }\"}",
        "5:20: /steps/1/set: there is no step 'c'",
    ),
    "an id with a minus": (
        "- {id: a-b, set: 1}\n- {id: b, set: '${ steps.a - 1 }'}",
        "5:20: /steps/1/set: there is no step 'a' (An id with a '-' is written steps['a-b'])",
    ),
    "a run of itself": (
        "- {id: again, run: test}",
        "4:20: /steps/0/run: step 'again' runs the same workflow again, without a condition, and so without end",
    ),
    "a run of its own version": ("- {id: a, run: {workflow: test, version: 1}}", "without end (Give it a `when`)"),
    "an input that is not there": ("- {id: a, set: '${ inputs.x }'}", "there is no input 'x' (Add it to `inputs`)"),
    "two of one id": ("- {id: a, set: 1}\n- {id: a, set: 1}", "5:8: /steps/1/id: two steps have the id 'a'"),
    "two of one id, one inside": (
        "- {id: a, set: 1}\n- {id: b, do: [{id: a, set: 1}]}",
        "/steps/1/do/0/id: two steps have the id 'a'",
    ),
    "a ring": (
        "- {id: a, needs: [c], set: 1}\n- {id: b, needs: [a], set: 1}\n- {id: c, set: '${ steps.b.output }'}",
        "4:8: /steps/0/id: steps wait for each other: a -> c -> b -> a",
    ),
    "a ring with what is inside": (
        "- {id: a, do: [{id: b, set: '${ steps.c.output }'}]}\n- {id: c, needs: [a], set: 1}",
        "steps wait for each other: a -> c -> a",
    ),
    "a sequence backwards": (
        "- {id: a, do: [{id: b, set: '${ steps.c.output }'}, {id: c, set: 1}]}",
        "steps wait for each other: b -> c -> b",
    ),
    "branches that wait for each other": (
        "- {id: a, parallel: [{id: b, set: 1}, {id: c, needs: [b], set: 1}]}",
        "step 'c' waits for 'b', and both are in one parallel group",
    ),
    "what it stands in": (
        "- {id: a, do: [{id: b, needs: [a], set: 1}]}",
        "step 'b' waits for 'a', and is a part of it",
    ),
    "itself": ("- {id: a, set: '${ steps.a.output }'}", "step 'a' refers to itself"),
    "a field that no step has": (
        "- {id: a, set: 1}\n- {id: b, set: '${ steps.a.outptu }'}",
        "a step has no 'outptu' (Did you mean 'output'?)",
    ),
    "all steps": ("- {id: a, set: '${ steps }'}", "`steps` is no value by itself"),
    "a name that is not there": (
        "- {id: a, set: '${ input.x }'}",
        "nothing is called 'input' here (Did you mean 'inputs'?)",
    ),
    "an output outside its place": ("- {id: a, set: '${ output }'}", "`output` is not known here (It is known in"),
    "an error outside its place": ("- {id: a, set: '${ error.message }'}", "`error` is not known here"),
    "an item outside its place": (
        "- {id: a, when: '${ item > 1 }', each: [1], set: 1}",
        "nothing is called 'item' here",
    ),
    "an item of another step": (
        "- {id: a, each: [1], as: thing, set: 1}\n- {id: b, set: '${ thing }'}",
        "nothing is called 'thing' here",
    ),
    "a step inside each": (
        "- {id: a, each: [1], do: [{id: b, set: 1}]}\n- {id: c, set: '${ steps.b.output }'}",
        "step 'b' is done many times inside 'a', and can be named only there (Name 'a', whose output has all of them)",
    ),
    "a need inside each": (
        "- {id: a, each: [1], do: [{id: b, set: 1}]}\n- {id: c, needs: [b], set: 1}",
        "5:19: /steps/1/needs/0: step 'b' is done many times inside 'a'",
    ),
    "a step inside a loop": (
        "- {id: a, while: {when: false}, do: [{id: b, set: 1}]}\n- {id: c, set: '${ steps.b.output }'}",
        "step 'b' is done many times inside 'a'",
    ),
    "an item called like something else": (
        "- {id: a, each: [1], as: steps, set: 1}",
        "an item cannot be called 'steps'",
    ),
    "an item called like no variable": ("- {id: a, each: [1], as: größe, set: 1}", "an item cannot be called 'größe'"),
    "a case that hides another": (
        "- {id: a, switch: [{do: [{id: b, set: 1}]}, {when: true, do: [{id: c, set: 1}]}]}",
        "/steps/0/switch/0: this case is always taken, and those after it never",
    ),
    "a schema of a signal": ("- {id: a, receive: {signal: x, schema: {type: txt}}}", "this is no JSON Schema"),
    "a schema that leads nowhere": (
        "- {id: a, receive: {signal: x, schema: {$ref: '#/$defs/x'}}}",
        "'#/$defs/x' leads to nothing in it",
    ),
}


@pytest.mark.parametrize(("steps", "line"), WRONG.values(), ids=WRONG)
def test_what_is_not_there_is_told_once_with_its_place(steps, line):
    found = told_of_steps(steps)
    assert len(found) == 1
    assert line in found[0]


RIGHT = {
    "a step inside do": "- {id: a, do: [{id: b, set: 1}]}\n- {id: c, set: '${ steps.b.output }', needs: [b]}",
    "steps inside the same item": (
        "- {id: a, each: [1], do: [{id: b, set: '${ item }'}, {id: c, set: '${ steps.b.output }', needs: [b]}]}"
    ),
    "what is outside the item": "- {id: z, set: 1}\n- {id: a, each: [1], do: [{id: b, set: '${ steps.z.output }'}]}",
    "items inside items": ("- {id: a, each: [[1]], as: x, do: [{id: b, each: '${ x }', as: y, set: '${ [x, y] }'}]}"),
    "how a step ended": "- {id: a, set: 1}\n- {id: b, set: '${ steps.a.skipped || steps.a.failed }'}",
    "the error of a step": "- {id: a, set: 1, catch: [{do: [{id: b, set: '${ error.type }'}]}]}",
    "the round of a loop": "- {id: a, while: {when: '${ round < 3 }'}, set: '${ output == null ? 1 : round }'}",
    "a run of itself on a condition": "- {id: a, run: test, when: '${ run.generation < 3 }'}",
    "a run of itself for what is left": "- {id: a, each: [], run: test}",
    "a run of itself that somebody allowed": "- {id: a, review: Again?}\n- {id: b, needs: [a], run: test}",
    "a run of what came before": "- {id: a, run: test, with: {x: '${ steps.b.output }'}}\n- {id: b, set: 1}",
    "another version of itself": "- {id: a, run: {workflow: test, version: 2}}",
    "a run of itself where something failed": "- {id: a, set: 1, catch: [{do: [{id: b, run: test}]}]}",
    "a run and its tenant": "- {id: a, set: '${ run.id + tenant }'}",
}


@pytest.mark.parametrize("steps", RIGHT.values(), ids=RIGHT)
def test_what_is_there_can_be_named(steps):
    of_steps(steps)


EXECUTORS = {
    "one that is not there": (
        "- {id: a, use: docs.prase, with: {uri: x}}",
        "there is no executor 'docs.prase' (Did you mean 'docs.parse'?)",
    ),
    "one to undo": ("- {id: a, set: 1, undo: {use: docs.undo}}", "/steps/0/undo/use: there is no executor 'docs.undo'"),
    "a function, where none can be called": (
        "- {id: a, call: 'json:dumps'}",
        "/steps/0/call: there is no executor 'python.call'",
    ),
    "an argument that it does not take": (
        "- {id: a, use: docs.parse, with: {uri: x, dpeth: 2}}",
        "/steps/0/with/dpeth: docs.parse takes no 'dpeth' (Did you mean 'depth'?)",
    ),
    "an argument that it needs": ("- {id: a, use: docs.parse}", "docs.parse needs 'uri', which is not given"),
    "an argument of another type": (
        "- {id: a, use: docs.parse, with: {uri: x, depth: deep}}",
        "/steps/0/with/depth: it does not fit",
    ),
    "an expression of another type": (
        "- {id: a, use: docs.parse, with: {uri: '${ [1] }'}}",
        "/steps/0/with/uri: it gives list(int), and string is needed",
    ),
    "a config that it does not take": ("- {id: a, use: log, config: {x: 1}}", "log takes no config"),
    "a field that its config does not have": (
        "- {id: a, use: ai.score, with: {text: x}, config: {temprature: 1}}",
        "temprature: there is no such field",
    ),
    "a config of another type": (
        "- {id: a, use: ai.score, with: {text: x}, config: {temperature: hot}}",
        "4:65: /steps/0/config/temperature: ai.score: temperature:",
    ),
    "a field that its output does not have": (
        "- {id: a, use: docs.parse, with: {uri: x}}\n- {id: b, set: '${ steps.a.output.clauzes }'}",
        "Did you mean 'clauses'?",
    ),
    "a list that is none": (
        "- {id: a, use: docs.parse, with: {uri: x}}\n- {id: b, each: '${ steps.a.output.pages }', set: 1}",
        "it gives int, and a list is needed here",
    ),
    "an item of another type": (
        "- {id: a, use: docs.parse, with: {uri: x}}\n- {id: b, each: '${ steps.a.output.clauses }', set: '${item+1}'}",
        "'+' does not take string and int",
    ),
}


@pytest.mark.parametrize(("steps", "line"), EXECUTORS.values(), ids=EXECUTORS)
def test_what_executors_do_not_have_is_told_once(steps, line):
    found = told_of_steps(steps, KNOWN)
    assert len(found) == 1
    assert line in found[0]


def test_an_executor_that_is_not_there_has_a_code_of_its_own():
    assert [each.code for each in problems(HEAD + "steps: [{id: a, use: b}]", KNOWN)] == ["E-STEP-004"]


def test_what_executors_have_can_be_used():
    of_steps(
        "- {id: a, use: docs.parse, with: {uri: '${ run.id }', depth: '${ 1 + 1 }'}}\n"
        "- {id: b, each: '${ steps.a.output.clauses }', as: c, use: ai.score, with: {text: '${ c }'},"
        " config: {model: x}}\n"
        "- {id: c, use: log, with: {any: thing}}\n"
        "- {id: d, set: '${ steps.b.output.results.map(r, r > 0.5) }'}",
        KNOWN,
    )


def test_without_executors_nothing_is_said_of_them():
    of_steps("- {id: a, use: any.thing, with: {x: 1}, config: {y: 2}}")


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("policies: [{id: p, check: log, on: [b]}]", "policy 'p' guards 'b', which does not exist"),
        ("policies: [{id: p, check: nobody, on: [a]}]", "/policies/0/check: there is no executor 'nobody'"),
        (
            "policies: [{id: p, check: log, on: [a]}, {id: p, check: log, on: [a]}]",
            "/policies/1/id: two policies have the id 'p'",
        ),
        (
            "inputs: {n: {schema: {type: integer}, default: x}}",
            "/inputs/n/default: the default does not fit the schema",
        ),
        ("inputs: {n: {schema: {type: nothing}}}", "/inputs/n/schema/type: this is no JSON Schema"),
        (
            "inputs: {n: {kind: asset, of: x}}",
            "`of` means nothing for an input of kind asset (It goes with collection)",
        ),
        ("inputs: {config: {}}", "no input can be called `config`"),
        (
            "inputs: {n: {kind: query, from: assets, where: '${ item.tag }'}}",
            "/inputs/n/where: a map has no 'tag' here",
        ),
        ("output: '${ steps.b.output }'", "/output: there is no step 'b'"),
        (
            "defaults: {config_by: {'pol*': {temprature: 1}}}\npolicies: [{id: p, check: policy.ai, on: [a]}]",
            "3:45: /defaults/config_by/pol*/temprature: policy.ai: temprature: there is no such",
        ),
        (
            "defaults: {config_by: {'lo*': {x: 1}}}\npolicies: [{id: p, check: log, on: [a]}]",
            "3:24: /defaults/config_by/lo*: log takes no config",
        ),
    ],
)
def test_the_head_is_looked_at_too(head, line):
    found = told(f"{HEAD}{head}\nsteps: [{{id: a, set: 1}}]", KNOWN)
    assert len(found) == 1
    assert line in found[0]
