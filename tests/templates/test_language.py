"""The shape of the language: every key, every short form, and what is told of what does not fit."""

from __future__ import annotations

from typing import get_args

import pytest

from stepfast.kernel.reviews import REVIEW_KINDS, ItemKind, Verdict
from stepfast.workflows.plans.plan import OnFailure
from stepfast.workflows.templates import models, passes
from tests.templates.writing import HEAD, loaded, of_steps, told, told_of_steps


def test_the_words_of_the_language_are_those_of_the_engine():
    assert set(get_args(models.OnFailureForm)) == set(OnFailure)
    assert set(get_args(models.VerdictForm)) == set(Verdict)
    # A step is blocked by what it requires, not by a gate.
    assert set(get_args(models.ReasonForm)) == set(REVIEW_KINDS) - {ItemKind.BLOCKED}


def test_a_template_is_a_map():
    assert told("- a\n") == [
        '1:1: /: a template is a map, and this is ["a"] (It begins with `stepfast: 1` and `workflow: NAME`)'
    ]


def test_what_every_template_needs_is_missed_where_it_should_stand():
    assert told("name: x\n") == [
        "1:1: /: `stepfast` is missing",
        "1:1: /: `workflow` is missing",
        "1:1: /: `steps` is missing",
    ]


SHAPES = {
    "another language": (
        "stepfast: 2\nworkflow: a\nsteps: [{id: a, set: 1}]",
        "1:11: /stepfast: it is 2; allowed are 1",
    ),
    "a language in quotes": (
        "stepfast: '1'\nworkflow: a\nsteps: [{id: a, set: 1}]",
        "1:11: /stepfast: it is '1'; allowed are 1 (Leave out the quotes)",
    ),
    "a name with a blank": ("stepfast: 1\nworkflow: a b\nsteps: [{id: a, set: 1}]", "2:11: /workflow: it is 'a b'"),
    "a version in quotes": (
        HEAD + "version: '1'\nsteps: [{id: a, set: 1}]",
        "3:10: /version: it is '1'; it must be a wh",
    ),
    "a version below 1": (HEAD + "version: 0\nsteps: [{id: a, set: 1}]", "3:10: /version: it is 0; it should be gr"),
    "no steps": (HEAD + "steps: []", "3:8: /steps: it is empty"),
    "steps that are a map": (HEAD + "steps: {a: 1}", '3:8: /steps: it is {"a": 1}; it must be a list'),
    "a step that is none": (HEAD + "steps: [a]", "3:9: /steps/0: it is 'a'; it must be a map"),
    "a step that is nothing": (HEAD + "steps: [~]", "3:9: /steps/0: it is null; it must be a map"),
    "an id that is true": (HEAD + "steps: [{id: true, set: 1}]", "3:14: /steps/0/id: it is true; it must be text"),
    "an id without a value": (HEAD + "steps: [{id: , set: 1}]", "3:10: /steps/0/id: `id` has no value (Give it one)"),
    "a step without an id": (HEAD + "steps: [{set: 1}]", "3:9: /steps/0: `id` is missing"),
    "a bad id": (HEAD + "steps: [{id: a.b, set: 1}]", "3:14: /steps/0/id: it is 'a.b'; an id is up to 100 letters"),
    "an id that is a number": (HEAD + "steps: [{id: 5, set: 1}]", "3:14: /steps/0/id: it is 5; it must be text"),
    "an unknown key": (
        HEAD + "stepz: 1\nsteps: [{id: a, set: 1}]",
        "3:1: /stepz: there is no key 'stepz' here (Did you",
    ),
    "an empty key": (HEAD + "steps: [{id: a, use: }]", "3:17: /steps/0/use: `use` has no value"),
    "an input without a name of its own": (HEAD + "inputs: {a-b: {}}\nsteps: [{id: a, set: 1}]", "3:10: /inputs"),
}


@pytest.mark.parametrize(("text", "line"), SHAPES.values(), ids=SHAPES)
def test_what_does_not_fit_is_told_with_its_place(text, line):
    found = told(text)
    assert len(found) == 1
    assert found[0].startswith(line)


STEPS = {
    "no verb": ("- id: a", "4:3: /steps/0: the step does nothing"),
    "two verbs": (
        "- {id: a, set: 1, use: b.c}",
        "/steps/0/set: the step has `use` and `set`, and a step does one thing",
    ),
    "a key that is near": (
        "- {id: a, set: 1, wehn: true}",
        "/steps/0/wehn: there is no key 'wehn' here (Did you mean 'when'",
    ),
    "limits": (
        "- {id: a, use: b, limit: {pool: x}}",
        "/steps/0/limit: there is no key 'limit' here (It comes with quotas",
    ),
    "retry beside set": (
        "- {id: a, set: 1, retry: 3}",
        "`retry` means nothing beside `set` (It goes with `use`, `call`)",
    ),
    "with beside sleep": ("- {id: a, sleep: 1s, with: {}}", "`with` means nothing beside `sleep`"),
    "as without each": ("- {id: a, set: 1, as: b}", "`as` means nothing without `each`"),
    "join without several": ("- {id: a, set: 1, join: any}", "`join` means nothing without `each` or `parallel`"),
    "a duration in words": ("- {id: a, sleep: 5 minutes}", "it is '5 minutes'; write seconds, or text like"),
    "a timeout of nothing": ("- {id: a, use: b, timeout: 0}", "it is 0, which nothing can keep"),
    "a condition that is text": ("- {id: a, set: 1, when: yes}", "it is 'yes'; it must be an expression"),
    "each over text": ("- {id: a, set: 1, each: abc}", "it is 'abc'; it must be an expression"),
    "a join of nobody": (
        "- {id: a, set: 1, each: [1], join: {first: 0}}",
        "first is 0; it must be a whole number from 1",
    ),
    "a share above all": ("- {id: a, set: 1, each: [1], join: 101%}", "quorum is '101%'; it must be a share"),
    "an unknown join": ("- {id: a, set: 1, each: [1], join: most}", "it is 'most'; allowed are all, any, settled"),
    "an unknown failure": (
        "- {id: a, set: 1, on_failure: ignore}",
        "it is 'ignore'; allowed are fail, continue, skip_de",
    ),
    "attempts below 1": ("- {id: a, use: b, retry: 0}", "it is 0; it should be greater than or equal to 1"),
    "a retry of words": ("- {id: a, use: b, retry: {on: transient}}", "it is 'transient'; it must be a list"),
    "a target that is none": ("- {id: a, call: json.dumps}", "a function is named like module:function"),
    "no rounds": ("- {id: a, set: 1, while: {when: true, max: 0}}", "/while/max: it is 0"),
    "an empty do": ("- {id: a, do: []}", "/steps/0/do: it is empty"),
    "an unknown verdict": (
        "- {id: a, review: {title: x, verdicts: [yes]}}",
        "it is 'yes'; allowed are continue, reject",
    ),
    "expiry without a time": (
        "- {id: a, review: {title: x, on_expiry: reject}}",
        "there is no time after which it expires",
    ),
    "escalation to nobody": (
        "- {id: a, review: {title: x, expires: 1h, on_expiry: escalate}}",
        "there is nobody to turn to",
    ),
    "an end that is not allowed": (
        "- {id: a, review: {title: x, expires: 1h, on_expiry: retry, verdicts: [continue]}}",
        "`retry` is none of the allowed answers",
    ),
    "no answer that ends it": (
        "- {id: a, review: {title: x, verdicts: [escalate]}}",
        "none of these answers ends the rev",
    ),
    "a role by expression": ("- {id: a, review: {title: x, role: '${ 1 }'}}", "`role` has no expressions"),
    "a config by expression": ("- {id: a, use: b, config: {c: '${ 1 }'}}", "a config is the same in every run"),
    "inputs of a child twice": (
        "- {id: a, run: {workflow: b, with: {}}, with: {}}",
        "the child's inputs are given twice",
    ),
    "an unknown key deep inside": ("- {id: a, do: [{id: b, gate: {befor: {}}, set: 1}]}", "Did you mean 'before'?"),
}


@pytest.mark.parametrize(("steps", "part"), STEPS.values(), ids=STEPS)
def test_what_is_wrong_with_a_step_is_told_once(steps, part):
    found = told_of_steps(steps)
    assert len(found) == 1
    assert part in found[0]


GOOD = {
    "every verb": """
- {id: a, use: docs.parse, with: {x: 1}, config: {y: 2}, retry: 3, timeout: 5m, queue: q, priority: 5}
- {id: b, call: "json:dumps", with: [1, 2]}
- {id: c, run: {workflow: other, version: 2, with: {x: 1}}}
- {id: d, do: [{id: d1, set: 1}, {id: d2, set: 2}]}
- {id: e, parallel: [{id: e1, set: 1}, {id: e2, set: 2}], join: any, on_extra: ignore}
- {id: f, switch: [{when: "${ true }", do: [{id: f1, set: 1}]}, {do: [{id: f2, set: 1}]}]}
- {id: g, review: {title: Look, show: {x: 1}, role: legal, expires: 24h, on_expiry: reject, quorum: 2, schema: {}}}
- {id: h, receive: {signal: paid, timeout: 1h, schema: {type: object}}}
- {id: i, sleep: 5m}
- {id: j, emit: {type: done, data: {x: 1}}}
- {id: k, set: [1, {a: null}]}
- {id: l, fail: {message: no}}
""",
    "every short form": """
- {id: a, run: other, with: {x: 1}}
- {id: b, review: Is it good?}
- {id: c, receive: paid}
- {id: d, emit: done}
- {id: e, fail: It is not}
- {id: f, use: x, retry: false}
- {id: g, set: 1, each: [1, 2], join: 2}
- {id: h, set: 1, each: [1, 2], join: 90%}
- {id: i, sleep: 1.5}
- {id: j, set: null}
""",
    "every common key": """
- {id: z, set: 1}
- id: a
  needs: [z]
  when: "${ steps.z.output > 0 }"
  require: true
  use: x.y
  each: "${ [1, 2] }"
  as: thing
  key: "${ thing }"
  at_once: 2
  join: {quorum: 50%}
  gate:
    before: {role: boss}
    after: {when: "${ output.risk > 1 }", reason: low_confidence, title: "Look at ${ thing }", role: boss}
  undo: {use: x.undo, with: {it: "${ output }"}}
  catch: [{errors: [ValueError, E-STEP-002], do: [{id: b, set: "${ error.message }"}]}]
  on_failure: skip_dependents
  reads: {asset: a}
  writes: [{asset: b, type: text/plain, content: "${ output }"}]
  mock: {any: thing}
  description: words
  metadata: {x: 1}
- {id: c, set: "${ round }", while: {when: "${ output == null || output < 3 }", max: 5}}
""",
    "comments in the data": "- {id: a, set: 1, x-note: {anything: [goes]}}\n",
    "names of other scripts": "- {id: größe, set: 1}\n- {id: 大小, set: \"${ steps['größe'].output }\"}\n",
}


@pytest.mark.parametrize("steps", GOOD.values(), ids=GOOD)
def test_what_the_language_has_is_good(steps):
    of_steps(steps)


def test_the_head_has_all_that_is_said_of_a_workflow():
    template = loaded("""
stepfast: 1
workflow: evaluation
version: 7
name: The evaluation
description: What it does
metadata: {owner: legal}
at_once: 10
x-team: red
inputs:
  a: {kind: asset, type: application/pdf, description: the contract}
  b: {kind: payload, schema: {type: string}, default: standard}
  c: {kind: query, from: assets, where: "${ item.tags.exists(t, t == 'clause') }"}
  d: {kind: collection, of: contracts}
  e: {kind: event, type: com.acme.uploaded}
  f: {}
defaults:
  retry: {attempts: 4, base: 2s, factor: 2, cap: 1m, jitter: 0.2, on: [transient, timeout], never: [Invalid]}
  retry_by: {"ai.*": 5}
  config_by: {"ai.*": {temperature: 0}}
  timeout: 5m
  total_timeout: 1h
  on_failure: continue
policies:
  - {id: p, check: policy.check, on: [s], conflict: review, with: {text: "${ output }"}, config: {}}
steps:
  - {id: s, set: 1}
output: {a: "${ steps.s.output }"}
""")
    plan = template.plan
    assert (plan.name, plan.version, plan.description, plan.at_once) == ("evaluation", 7, "What it does", 10)
    assert plan.metadata == {"name": "The evaluation", "owner": "legal"}
    assert {name: each.kind for name, each in template.inputs.items()} == {
        "a": "asset",
        "b": "payload",
        "c": "query",
        "d": "collection",
        "e": "event",
        "f": "payload",
    }


def test_faults_of_all_passes_are_told_at_once_in_the_order_of_their_places():
    found = told(
        "stepfast: 1\nworkflow: w\na: &x 1\nsteps:\n- {id: a, needs: [b], set: 1}\n- {id: c, set: '${ 1 + }'}\n"
        "- {id: d, set: \"${ 1 + 'a' }\"}\n- {id: e, sleep: soon}\n"
    )
    assert [line.partition(": ")[0] for line in found] == ["3:1", "3:4", "5:19", "6:24", "7:20", "8:18"]


def test_a_fault_in_one_step_does_not_make_those_that_name_it_faulty():
    found = told_of_steps("- {id: a, sleep: soon}\n- {id: b, set: '${ steps.a.output.x }', needs: [a]}\n")
    assert len(found) == 1


def test_a_fault_in_an_input_does_not_make_those_that_name_it_faulty():
    found = told(HEAD + "inputs: {a: {kind: nothing}, b: 5}\nsteps: [{id: s, set: '${ inputs.a + inputs.b }'}]")
    assert [line.partition(":")[0] for line in found] == ["3", "3"]
    assert len(found) == 2


def test_too_many_expressions_are_refused_before_they_are_read(monkeypatch):
    monkeypatch.setattr(passes, "MAX_EXPRESSIONS", 3)
    monkeypatch.setattr(passes, "Compiler", None)
    steps = "[{id: a, set: '${ 1 } ${ 2 } ${ 3 } ${ }'}]"
    assert told(f"{HEAD}steps: {steps}")[0].startswith("1:1: /: the template has 4 expressions; allowed are 3 (")


def test_too_many_steps_are_refused_before_they_are_looked_at(monkeypatch):
    monkeypatch.setattr(passes, "MAX_STEPS", 3)
    monkeypatch.setattr(passes, "shape", None)
    steps = "[{id: a, do: [{id: b, set: 1}, {id: c, set: 1}]}, {nothing: good}]"
    assert told(f"{HEAD}steps: {steps}")[0].startswith("3:39: /steps/0/do/1: the template has more than 3 steps")
