"""The rules of the language, each seen in a run: order, skips, joins, verbs and what is done with failures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from stepfast import RunFailed, Stepfast
from stepfast.kernel.errors import JoinFailed
from stepfast.kernel.states import RunState
from stepfast.workflows.executors.domains import Domain
from tests.support.apps import QUICK
from tests.support.virtual_time import timed_app

DONE: list[str] = []

shop = Domain("shop")


@shop.step("do")
async def do(what: str) -> dict[str, str]:
    DONE.append(what)
    return {"ticket": what}


@shop.step("refuse")
async def refuse(what: str = "") -> None:
    raise PermissionError(f"not {what}")


@shop.step("choose")
async def choose(what: str) -> str:
    if what == "bad":
        raise PermissionError("not this one")
    return what


@pytest.fixture(autouse=True)
def nothing_done():
    DONE.clear()


@pytest.fixture
def app(database: str) -> Stepfast:
    return Stepfast(database, workflows=[], worker=QUICK, executors=[shop])


def written(steps: str, output: str = "", name: str = "flow") -> str:
    tail = f'output: "{output}"\n' if output else ""
    return f"stepfast: 1\nworkflow: {name}\nsteps:\n{steps.strip()}\n{tail}"


async def ended(app: Stepfast, text: str) -> tuple[RunState, Any]:
    """How a run ends, with its result or its error."""
    async with app:
        await app.register(text)
        run = await app.start("flow")
        try:
            result = await run.result(timeout="60s")
        except RunFailed as failed:
            return RunState.FAILED, str(failed)
        return (await run.info()).state, result


async def result_of(app: Stepfast, steps: str, output: str = "") -> Any:
    state, result = await ended(app, written(steps, output))
    assert state is RunState.COMPLETED, result
    return result


async def test_a_skip_spreads_along_references_and_not_along_needs(app):
    steps = """
- {id: a, when: false, set: 1}
- {id: reads, set: "${ steps.a.output }"}
- {id: reads-on, set: "${ steps.reads.output }"}
- {id: follows, needs: [a, reads-on], set: went on}
- {id: asks, set: "${ [steps.a.skipped, steps['reads-on'].skipped, steps.follows.skipped] }"}
"""
    found = await result_of(app, steps, "${ [steps.asks.output, steps.follows.output] }")
    assert found == [[True, True, False], "went on"]


async def test_what_asks_whether_a_step_was_skipped_goes_on_without_its_output(app):
    steps = """
- {id: a, when: false, set: 1}
- {id: b, when: true, set: 2}
- {id: else, set: "${ [steps.a.skipped ? 0 : steps.a.output, steps.b.skipped ? 0 : steps.b.output] }"}
"""
    assert await result_of(app, steps, "${ steps['else'].output }") == [0, 2]


async def test_the_result_has_null_where_a_step_was_skipped(app):
    steps = """
- {id: a, when: false, set: 1}
- {id: b, set: 2}
"""
    assert await result_of(app, steps, "${ [steps.a.output, steps.b.output] }") == [None, 2]


async def test_the_steps_of_do_come_one_after_the_other_and_give_the_last_output(app):
    steps = """
- id: all
  do:
    - {id: one, use: shop.do, with: {what: one}}
    - {id: two, use: shop.do, with: {what: two}}
    - {id: three, use: shop.do, with: {what: three}}
"""
    assert await result_of(app, steps, "${ steps.all.output.ticket }") == "three"
    assert DONE == ["one", "two", "three"]


@pytest.mark.parametrize("join", ["all", "settled", "{quorum: 90%}"])
async def test_a_join_over_nothing_that_asks_for_nobody_gives_nothing(app, join):
    steps = f"- {{id: a, each: [], join: {join}, set: 1}}"
    assert await result_of(app, steps, "${ steps.a.output }") == {"results": [], "failed": [], "cancelled": []}


@pytest.mark.parametrize("join", ["any", "{first: 2}"])
async def test_a_join_over_nothing_that_asks_for_somebody_fails_with_a_code(app, join):
    async with app:
        await app.register(written(f"- {{id: a, each: [], join: {join}, set: 1}}"))
        run = await app.start("flow")
        with pytest.raises(RunFailed, match="of 0"):
            await run.result(timeout="60s")
        error = (await run.info()).error
        assert error is not None
        assert json.loads(error)["code"] == JoinFailed.code


@pytest.mark.parametrize(
    ("join", "meant"),
    [
        ("settled", {"results": ["a", "b"], "failed": ["bad"]}),
        ("{quorum: 60%}", {"results": ["a", "b"], "failed": ["bad"]}),
        ("60%", {"results": ["a", "b"], "failed": ["bad"]}),
    ],
)
async def test_results_and_failures_stand_in_the_order_of_the_items(app, join, meant):
    steps = f"""
- id: a
  each: [a, bad, b]
  key: "${{ item }}"
  at_once: 1
  join: {join}
  use: shop.choose
  with: {{what: "${{ item }}"}}
  retry: false
- id: seen
  set: {{results: "${{ steps.a.output.results }}", failed: "${{ steps.a.output.failed.map(f, f.key) }}"}}
"""
    assert await result_of(app, steps, "${ steps.seen.output }") == meant


async def test_a_join_that_can_no_longer_be_met_fails_the_run(app):
    steps = """
- {id: a, each: [bad, bad2], join: all, use: shop.refuse, with: {what: "${ item }"}, retry: false}
"""
    state, error = await ended(app, written(steps))
    assert state is RunState.FAILED
    assert "not bad" in error


async def test_another_template_runs_as_a_child(app):
    child = "stepfast: 1\nworkflow: child\ninputs: {x: {schema: {type: integer}}}\nsteps: [{id: a, set: 1}]\n"
    async with app:
        await app.register(child + 'output: "${ inputs.x * 2 }"\n')
        await app.register(written("- {id: a, run: {workflow: child, with: {x: 21}}}", "${ steps.a.output }"))
        assert await (await app.start("flow")).result(timeout="60s") == 42


async def test_a_template_may_run_itself_as_often_as_its_condition_says(app):
    again = """
stepfast: 1
workflow: flow
inputs: {n: {schema: {type: integer}, default: 3}}
steps:
  - {id: again, each: "${ inputs.n > 1 ? [inputs.n - 1] : [] }", run: flow, with: {n: "${ item }"}}
output: "${ inputs.n + steps.again.output.results.sum() }"
"""
    assert await ended(app, again) == (RunState.COMPLETED, 6)


async def test_a_run_sleeps_receives_emits_and_fails_in_the_words_of_its_template(database):
    steps = """
- {id: nap, sleep: "${ '1' + '0ms' }"}
- {id: hear, needs: [nap], receive: {signal: go, schema: {type: integer}}}
- {id: tell, emit: {type: it.happened, data: "${ steps.hear.output }"}}
- {id: end, needs: [tell], fail: "heard ${ steps.hear.output } of ${ run.workflow } in ${ tenant }"}
"""
    async with timed_app(database) as (app, time):
        await app.register(written(steps))
        run = await app.start("flow")
        await run.signal("go", 7)
        with pytest.raises(RunFailed, match="heard 7 of flow in "):
            await time.result(run)
        assert "it.happened" in [event.type for event in await run.history()]


async def test_what_was_done_is_undone_with_its_output_the_last_first(app):
    steps = """
- id: publish
  do:
    - {id: one, use: shop.do, with: {what: one}, undo: {use: shop.do, with: {what: "undo ${ output.ticket }"}}}
    - {id: two, use: shop.do, with: {what: two}, undo: {use: shop.do, with: {what: "undo ${ output.ticket }"}}}
    - {id: three, use: shop.refuse, with: {what: three}, retry: false}
  on_failure: compensate
"""
    state, _ = await ended(app, written(steps))
    assert state is RunState.FAILED
    assert DONE == ["one", "two", "undo two", "undo one"]


ON_FAILURE: Mapping[str, tuple[RunState, list[bool]]] = {
    "continue": (RunState.PARTIAL, [True, False]),
    "skip_dependents": (RunState.PARTIAL, [True, True]),
}


@pytest.mark.parametrize("word", ON_FAILURE)
async def test_a_failure_means_what_the_step_says(app, word):
    steps = f"""
- {{id: a, use: shop.refuse, retry: false, on_failure: {word}}}
- {{id: b, needs: [a], set: 1}}
- {{id: c, set: "${{ [steps.a.failed, steps.b.skipped] }}"}}
"""
    assert await ended(app, written(steps, "${ steps.c.output }")) == ON_FAILURE[word]


async def test_what_is_caught_is_known_by_its_type_message_and_code(app):
    steps = """
- id: a
  use: shop.refuse
  with: {what: you}
  retry: false
  catch:
    - {errors: [ValueError], do: [{id: no, set: wrong}]}
    - {errors: [PermissionError], do: [{id: yes, set: "${ [error.type, error.message] }"}]}
"""
    assert await result_of(app, steps, "${ steps.a.output }") == ["PermissionError", "not you"]
