"""What a template compiles to."""

from __future__ import annotations

import json

import pytest

from stepfast.kernel.errors import StepTimeout, Transient
from stepfast.kernel.executor_errors import HttpFailed, HttpRefused
from stepfast.kernel.retry import Retry
from stepfast.workflows.limits import Limits
from stepfast.workflows.plans import plan as plans
from stepfast.workflows.templates.loading import load_template
from tests.templates.writing import HEAD, loaded, of_steps, step_of, told


def test_each_verb_becomes_that_of_a_plan():
    steps = of_steps("""
- {id: a, use: x.y, with: {n: "${ 1 + 1 }"}, config: {c: 1}}
- {id: b, run: {workflow: other, version: 2, with: {x: 1}}}
- {id: c, do: [{id: c1, set: 1}]}
- {id: d, parallel: [{id: d1, set: 1}], join: {quorum: 90%}, on_extra: ignore}
- {id: e, switch: [{when: "${ false }", do: [{id: e1, set: 1}]}, {do: [{id: e2, set: 1}]}]}
- {id: f, review: {title: "Look at ${ 1 }", show: [1], role: legal, schema: {type: array}}}
- {id: g, receive: {signal: paid, timeout: 1h}}
- {id: h, sleep: 5m}
- {id: i, emit: {type: done, data: 1}}
- {id: j, set: {x: 1}}
- {id: k, fail: "no ${ 1 }"}
""").plan.block.steps
    use, run, do, parallel, switch, ask, receive, sleep, emit, value, fail = (step.verb for step in steps)
    assert isinstance(use, plans.Use)
    assert (use.executor, use.inputs.evaluate({}), use.config) == ("x.y", {"n": 2}, {"c": 1})
    assert isinstance(run, plans.RunChild)
    assert (run.workflow, run.version, run.inputs.evaluate({})) == ("other", 2, {"x": 1})
    assert isinstance(do, plans.Do)
    assert do.block.is_sequence
    assert isinstance(parallel, plans.Parallel)
    assert parallel.join == plans.JoinRule("quorum", 90, "ignore")
    assert isinstance(switch, plans.Switch)
    assert [case.when is None for case in switch.cases] == [False, True]
    assert isinstance(ask, plans.Ask)
    assert (ask.title.evaluate({}), ask.show.evaluate({}), ask.schema) == ("Look at 1", [1], {"type": "array"})
    assert ask.terms == {"role": "legal"}
    assert isinstance(receive, plans.Receive)
    assert (receive.signal.evaluate({}), receive.timeout and receive.timeout.evaluate({})) == ("paid", "1h")
    assert isinstance(sleep, plans.Sleep)
    assert sleep.duration.evaluate({}) == "5m"
    assert isinstance(emit, plans.Emit)
    assert (emit.event, emit.data.evaluate({})) == ("done", 1)
    assert isinstance(value, plans.Set)
    assert value.value.evaluate({}) == {"x": 1}
    assert isinstance(fail, plans.Fail)
    assert fail.message.evaluate({}) == "no 1"


def test_a_call_is_a_use_of_python_call():
    verb = step_of("- {id: a, call: 'json:dumps', with: {obj: '${ inputs.x }'}}", head=HEAD + "inputs: {x: {}}\n").verb
    assert isinstance(verb, plans.Use)
    assert verb.executor == "python.call"
    assert verb.inputs.evaluate({"inputs": {"x": 5}}) == {"target": "json:dumps", "arguments": {"obj": 5}}
    assert verb.inputs.references == (("inputs", "x"),)


def test_each_wraps_a_verb():
    step = step_of("- {id: a, each: [3, 4], as: n, key: '${ n }', at_once: 2, join: {first: 1}, set: '${ n + 1 }'}")
    each = step.each
    assert each is not None
    assert (each.items.evaluate({}), each.name, each.at_once, each.join) == ([3, 4], "n", 2, plans.JoinRule("first", 1))
    assert each.key is not None
    assert each.key.evaluate({"n": 3}) == 3


def test_a_loop_wraps_a_verb():
    loop = step_of("- {id: a, while: {when: '${ round < 3 }', max: 7}, set: 1}").loop
    assert loop is not None
    assert (loop.condition.evaluate({"round": 1}), loop.most) == (True, 7)


def test_gates_undo_handlers_and_policies_are_attached():
    template = loaded(f"""{HEAD}
policies:
  - {{id: p, check: policy.check, on: [a], conflict: review}}
  - {{id: q, check: policy.other, on: [a, b], with: {{text: "${{ output.text }}"}}, config: {{strict: true}}}}
steps:
  - id: a
    use: x
    gate:
      before: {{role: boss}}
      after: {{when: "${{ output.risk > 1 }}", reason: low_confidence, title: "Risk ${{ output.risk }}", expires: 1h}}
    undo: {{use: undo.x, with: {{it: "${{ output.id }}"}}, config: {{fast: true}}}}
    catch: [{{errors: [ValueError], do: [{{id: c, set: "${{ error.message }}"}}]}}]
    mock: null
  - {{id: b, set: 1}}
""")
    a, b = template.plan.block.steps
    assert a.before is not None
    assert a.before.terms == {"role": "boss"}
    assert a.after is not None
    assert a.after.when is not None
    assert a.after.title is not None
    scope = {"output": {"risk": 2, "id": 7, "text": "t"}}
    assert (a.after.when.evaluate(scope), a.after.title.evaluate(scope)) == (True, "Risk 2")
    assert (a.after.reason, a.after.terms) == ("low_confidence", {"expires": "1h"})
    assert a.undo is not None
    assert (a.undo.executor, a.undo.inputs.evaluate(scope), a.undo.config) == ("undo.x", {"it": 7}, {"fast": True})
    assert [handler.errors for handler in a.catch] == [("ValueError",)]
    assert [(policy.id, policy.conflict) for policy in a.policies] == [("p", "review"), ("q", "fail")]
    assert [policy.id for policy in b.policies] == ["q"]
    assert a.policies[0].check.inputs.evaluate(scope) == {"output": scope["output"]}
    assert a.policies[1].check.inputs.evaluate(scope) == {"text": "t"}
    assert a.policies[1].check.config == {"strict": True}
    assert (a.has_mock, a.mock, b.has_mock) == (True, None, False)


def test_assets_that_are_read_and_written_are_kept():
    step = step_of("- {id: a, set: 1, reads: {asset: x}, writes: [{asset: 'y-${ output }', type: text/plain}]}")
    assert [used.asset.evaluate({}) for used in step.reads] == ["x"]
    (written,) = step.writes
    assert (written.asset.evaluate({"output": 1}), written.media_type, written.content) == ("y-1", "text/plain", None)


def test_types_are_compared_in_small_letters_however_they_are_written():
    head = HEAD + "inputs: {p: {kind: asset, type: Application/PDF}, e: {kind: event, type: Some.Type}}\n"
    steps = "- {id: a, set: 1, reads: {asset: x, type: Image/*}, writes: {asset: y, type: Text/Plain}}"
    template = of_steps(steps, head=head)
    [step] = template.plan.block.steps
    assert (step.reads[0].media_type, step.writes[0].media_type) == ("image/*", "text/plain")
    assert [each.spec.type for each in template.inputs.values()] == ["application/pdf", "Some.Type"]


def test_types_that_nothing_could_fit_are_refused_where_they_are_written():
    steps = "steps: [{id: a, set: 1, reads: {asset: x, type: '*/pdf'}, writes: {asset: y, type: 'text/*'}}]"
    found = told(HEAD + "inputs: {p: {kind: collection, type: pdf}}\n" + steps)
    places = ["/inputs/p/type", "/steps/0/reads/type", "/steps/0/writes/type"]
    assert [next(place for place in places if f" {place}: it is '" in line) for line in found] == places


def test_who_is_asked_anew_is_who_was_asked_first_unless_somebody_else_is_named():
    terms = "title: x, expires: 1h, on_expiry: escalate"
    named = {"role: a": {"escalate_role": "a"}, "assignee: b": {"escalate_to": "b"}}
    for given, wanted in {**named, "role: a, escalate_to: c": {"escalate_to": "c"}}.items():
        verb = step_of(f"- {{id: a, review: {{{terms}, {given}}}}}").verb
        assert isinstance(verb, plans.Ask)
        assert {name: value for name, value in verb.terms.items() if name.startswith("escalate")} == wanted


DEFAULTS = (
    HEAD
    + """
defaults:
  retry: {attempts: 2, base: 5s}
  retry_by: {"ai.*": {attempts: 3, cap: 9s}, "ai.sc*": {attempts: 4}, ai.score: {attempts: 5}, "*": {factor: 3}}
  config_by: {"ai.*": {model: small, temperature: 0}, ai.score: {model: large}}
  timeout: 5m
  on_failure: continue
"""
)


@pytest.mark.parametrize(
    ("step", "retry"),
    [
        ("use: docs.parse", Retry(attempts=2, base="5s", factor=3)),
        ("use: ai.embed", Retry(attempts=3, base="5s", cap="9s")),
        ("use: ai.score", Retry(attempts=5, base="5s")),
        ("use: ai.scale", Retry(attempts=4, base="5s")),
        ("use: ai.score, retry: {jitter: 0}", Retry(attempts=5, base="5s", jitter=0)),
        ("use: ai.score, retry: 9", Retry(attempts=9, base="5s")),
        ("use: ai.score, retry: false", Retry(attempts=1, base="5s")),
    ],
)
def test_a_retry_is_the_steps_own_over_the_most_specific_over_the_default(step, retry):
    assert step_of(f"- {{id: a, {step}}}", head=DEFAULTS).retry == retry


def test_a_step_without_any_word_on_retries_leaves_it_to_its_executor():
    assert step_of("- {id: a, use: b}").retry is None


def test_a_config_is_the_steps_own_over_those_by_executor_field_by_field():
    verb = step_of("- {id: a, use: ai.score, config: {temperature: 1}}", head=DEFAULTS).verb
    assert isinstance(verb, plans.Use)
    assert verb.config == {"model": "large", "temperature": 1}


def test_defaults_hold_for_every_step_that_does_not_say_otherwise():
    own = step_of("- {id: a, use: b, timeout: 1s, total_timeout: 1m, on_failure: fail}", head=DEFAULTS)
    other = step_of("- {id: a, use: b}", head=DEFAULTS)
    simple = step_of("- {id: a, set: 1}", head=DEFAULTS)
    limited = step_of("- {id: a, timeout: 1h, do: [{id: b, set: 1}]}", head=DEFAULTS)
    assert (own.limits, own.on_failure) == (Limits(1_000, 60_000), plans.OnFailure.FAIL)
    assert (other.limits, other.on_failure) == (Limits(300_000), plans.OnFailure.CONTINUE)
    assert limited.limits == Limits(3_600_000)
    assert (simple.limits, simple.retry, simple.on_failure) == (Limits(), None, plans.OnFailure.CONTINUE)


class Busy(Exception):
    transient = True


def test_errors_are_tried_again_by_name():
    retry = step_of("- {id: a, use: b, retry: {attempts: 5, on: [transient, timeout, KeyError], never: [Busy]}}").retry
    assert retry is not None
    tried = (ConnectionResetError(), TimeoutError(), StepTimeout(), Transient("x"), HttpFailed("x"), KeyError())
    assert [retry.allows(1, error) for error in tried] == [True] * 6
    left = (ValueError(), FileNotFoundError(), PermissionError(), HttpRefused("x"), Busy())
    assert [retry.allows(1, error) for error in left] == [False] * 5


def test_equal_templates_have_equal_digests_however_they_are_written():
    text = f"{HEAD}steps:\n  # a comment\n  - id: a\n    set: {{x: 1, y: [no]}}\n"
    data = {"steps": [{"set": {"y": ["no"], "x": 1}, "id": "a"}], "workflow": "test", "stepfast": 1}
    digests = {load_template(given).digest for given in (text, data, json.dumps(data), json.dumps(data, indent=3))}
    assert len(digests) == 1
    assert digests != {load_template({**data, "version": 2}).digest}


def test_what_is_registered_compiles_to_the_same_again():
    template = of_steps("- {id: a, set: 'ä ${ 1 } 😀'}")
    again = load_template(json.loads(template.content))
    assert (again.digest, again.content) == (template.digest, template.content)
    assert template.plan.digest == template.digest


def test_formulas_show_themselves_as_they_were_written():
    from stepfast.workflows.plans.describing import describe

    template = of_steps("- {id: a, use: x, with: {n: '${ 1 + 1 }'}, when: '${ true }'}")
    (step,) = describe(template.plan)["steps"]
    assert (step["with"], step["when"]) == ({"n": "${ 1 + 1 }"}, "${ true }")
