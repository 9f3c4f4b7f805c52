"""Plans are walked: steps begin as soon as they can, and what is recorded is never done again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import RunFailed, RunState
from stepfast.workflows.limits import Limits
from stepfast.workflows.plans.plan import (
    Block,
    Case,
    Constant,
    Do,
    Each,
    Emit,
    Fail,
    Handler,
    JoinRule,
    OnFailure,
    Parallel,
    Receive,
    Set,
    Sleep,
    Switch,
    While,
)
from tests.plans.harness import Executors, output, plan_workflow, step, use, value
from tests.support.apps import app_on
from tests.support.virtual_time import timed_app


class Noted:
    """Executors that note their calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.executors = Executors(add=self.add, fail=self.fail, fail_on=self.fail_on, undo=self.undo)

    async def add(self, a: int = 0, b: int = 0) -> int:
        self.calls.append(("add", a, b))
        return a + b

    async def fail(self, why: str = "no") -> int:
        self.calls.append(("fail", why))
        raise ValueError(why)

    async def fail_on(self, item: int, bad: int) -> int:
        self.calls.append(("fail_on", item))
        if item == bad:
            raise ValueError(f"bad {item}")
        return item * 10

    async def undo(self, what: Any) -> None:
        self.calls.append(("undo", what))


@pytest.fixture
def noted() -> Noted:
    return Noted()


async def ended(database: str, workflow: Any, inputs: Any = None) -> tuple[Any, Any, Any]:
    """Run a plan to its end: its state, its result or error, and the run."""
    async with app_on(database, [workflow]) as app:
        run = await app.start(workflow, inputs)
        try:
            result: Any = await run.result(timeout="60s")
        except RunFailed as error:
            result = error
        info = await run.info()
        return info.state, result, [(each.call.address, each.state) for each in await run.steps()]


async def test_a_step_gets_the_outputs_that_it_refers_to(database, noted):
    flow = plan_workflow(
        step("one", use("add", a=1, b=value(lambda scope: scope["inputs"]["n"]))),
        step("two", use("add", a=output("one"), b=10)),
        executors=noted.executors,
    )
    state, result, steps = await ended(database, flow, {"n": 2})
    assert (state, result) == (RunState.COMPLETED, 13)
    assert steps == [("one#1", "completed"), ("two#1", "completed")]


async def test_steps_without_ties_run_side_by_side(database):
    both = asyncio.Barrier(2)

    async def meet() -> str:
        await both.wait()
        return "met"

    flow = plan_workflow(step("a", use("meet")), step("b", use("meet")), executors=Executors(meet=meet))
    state, result, _ = await ended(database, flow)
    assert (state, result) == (RunState.COMPLETED, {"a": "met", "b": "met"})


async def test_a_step_whose_condition_does_not_hold_is_skipped_and_so_is_what_reads_it(database, noted):
    flow = plan_workflow(
        step("gone", use("add"), when=Constant(False)),
        step("reads", use("add", a=output("gone"))),
        step("needs", use("add", a=5), needs=("gone",)),
        step("tells", Set(value(lambda scope: scope["steps"]["gone"]["skipped"], "steps.gone.skipped"))),
        executors=noted.executors,
    )
    state, result, steps = await ended(database, flow)
    assert (state, result) == (RunState.COMPLETED, {"reads": None, "needs": 5, "tells": True})
    assert dict(steps) == {"gone#1": "skipped", "reads#1": "skipped", "needs#1": "completed", "tells#1": "completed"}


async def test_a_failure_fails_the_run_and_names_the_step(database, noted):
    flow = plan_workflow(step("bad", use("fail")), step("after", use("add"), needs=("bad",)), executors=noted.executors)
    state, error, steps = await ended(database, flow)
    assert state is RunState.FAILED
    assert "ValueError: no" in str(error)
    assert steps == [("bad#1", "failed")]


async def test_a_failure_that_is_borne_ends_the_run_in_part(database, noted):
    flow = plan_workflow(
        step("bad", use("fail"), on_failure=OnFailure.CONTINUE),
        step("needs", use("add", a=1), needs=("bad",)),
        step("reads", use("add", a=output("bad"))),
        executors=noted.executors,
    )
    state, result, steps = await ended(database, flow)
    assert (state, result) == (RunState.PARTIAL, {"needs": 1, "reads": None})
    assert dict(steps)["reads#1"] == "skipped"


async def test_dependents_are_skipped_where_that_is_asked_for_and_theirs_too(database, noted):
    flow = plan_workflow(
        step("bad", use("fail"), on_failure=OnFailure.SKIP_DEPENDENTS),
        step("needs", use("add"), needs=("bad",)),
        step("after", use("add"), needs=("needs",)),
        step("other", use("add", a=3)),
        executors=noted.executors,
    )
    state, _, steps = await ended(database, flow)
    assert state is RunState.PARTIAL
    assert {name: each for name, each in steps if each != "failed"} == {
        "other#1": "completed",
        "bad.borne#1": "completed",
        "needs#1": "skipped",
        "after#1": "skipped",
    }


async def test_compensation_undoes_what_has_ended_the_last_first(database, noted):
    def undone(what: str):
        return use("undo", what=value(lambda scope: [what, scope["output"]]))

    flow = plan_workflow(
        step("one", use("add", a=1), undo=undone("one")),
        step("two", use("add", a=2), needs=("one",), undo=undone("two")),
        step("bad", use("fail"), needs=("two",), on_failure=OnFailure.COMPENSATE),
        executors=noted.executors,
    )
    state, _, steps = await ended(database, flow)
    assert state is RunState.FAILED
    assert [call for call in noted.calls if call[0] == "undo"] == [("undo", ["two", 2]), ("undo", ["one", 1])]
    assert [name for name, _ in steps][-2:] == ["two.undo#1", "one.undo#1"]


async def test_a_group_that_compensates_undoes_its_own_steps_alone(database, noted):
    def undone(what: str):
        return use("undo", what=what)

    inner = Block(
        (step("in", use("add"), undo=undone("in")), step("bad", use("fail"))),
        is_sequence=True,
    )
    flow = plan_workflow(
        step("out", use("add"), undo=undone("out")),
        step("group", Do(inner), needs=("out",), on_failure=OnFailure.COMPENSATE),
        executors=noted.executors,
    )
    await ended(database, flow)
    assert [call for call in noted.calls if call[0] == "undo"] == [("undo", "in")]


async def test_an_undo_that_fails_fails_the_run_with_both_errors(database, noted):
    flow = plan_workflow(
        step("one", use("add"), undo=use("fail", why="cannot undo")),
        step("bad", use("fail", why="first"), needs=("one",), on_failure=OnFailure.COMPENSATE),
        executors=noted.executors,
    )
    state, error, _ = await ended(database, flow)
    assert state is RunState.FAILED
    assert "first" in str(error)
    assert "cannot undo" in str(error)


async def test_what_is_caught_is_handled_by_other_steps(database, noted):
    handler = Handler(Block((step("instead", Set(value(lambda scope: scope["error"]["message"]))),)), ("ValueError",))
    flow = plan_workflow(step("bad", use("fail", why="told"), catch=(handler,)), executors=noted.executors)
    assert (await ended(database, flow))[:2] == (RunState.COMPLETED, "told")


async def test_an_error_that_no_handler_names_is_not_caught(database, noted):
    handler = Handler(Block((step("instead", Set(Constant(1))),)), ("KeyError",))
    flow = plan_workflow(step("bad", use("fail"), catch=(handler,)), executors=noted.executors)
    assert (await ended(database, flow))[0] is RunState.FAILED


def fan(join: JoinRule, items: Any = (1, 2, 3), bad: int = 2, **options: Any):
    each = Each(Constant(list(items)), join=join, **options)
    verb = use("fail_on", item=value(lambda scope: scope["item"]), bad=bad)
    return step("fan", verb, each=each)


@pytest.mark.parametrize(
    ("join", "bad", "results"),
    [
        (JoinRule("all"), 9, [10, 20, 30]),
        (JoinRule("settled"), 2, [10, 30]),
        (JoinRule("quorum", 60), 2, [10, 30]),
        (JoinRule("first", 2), 3, [10, 20]),
        (JoinRule("any"), 3, [10]),
    ],
    ids=["all", "settled", "quorum", "first", "any"],
)
async def test_each_gives_the_results_that_its_join_asks_for(database, noted, join, bad, results):
    flow = plan_workflow(fan(join, bad=bad, at_once=1), executors=noted.executors)
    state, result, _ = await ended(database, flow)
    assert state is RunState.COMPLETED
    assert result["results"] == results


async def test_a_join_that_can_no_longer_be_met_fails_at_once(database, noted):
    flow = plan_workflow(fan(JoinRule("all"), bad=1, at_once=1), executors=noted.executors)
    state, error, _ = await ended(database, flow)
    assert state is RunState.FAILED
    assert "bad 1" in str(error)
    assert noted.calls == [("fail_on", 1)]


async def test_each_over_nothing_gives_nothing_and_a_join_of_one_fails(database, noted):
    flow = plan_workflow(fan(JoinRule("all"), items=()), executors=noted.executors)
    assert (await ended(database, flow))[1] == {"results": [], "failed": [], "cancelled": []}
    flow = plan_workflow(fan(JoinRule("any"), items=()), executors=noted.executors, name="none")
    state, error, _ = await ended(database, flow)
    assert state is RunState.FAILED
    assert "needs 1 of 0" in str(error)


async def test_each_over_something_that_is_no_list_is_refused(database, noted):
    flow = plan_workflow(step("fan", use("add"), each=Each(Constant({"a": 1}))), executors=noted.executors)
    state, error, _ = await ended(database, flow)
    assert state is RunState.FAILED
    assert "must be a list" in str(error)


async def test_a_key_that_repeats_is_refused(database, noted):
    flow = plan_workflow(fan(JoinRule(), key=Constant("same")), executors=noted.executors)
    state, error, _ = await ended(database, flow)
    assert state is RunState.FAILED
    assert "'same' for two items" in str(error)


async def test_branches_in_parallel_give_their_outputs_by_name(database, noted):
    branches = (step("left", use("add", a=1)), step("right", use("fail")))
    flow = plan_workflow(step("both", Parallel(branches, JoinRule("settled"))), executors=noted.executors)
    state, result, _ = await ended(database, flow)
    assert state is RunState.COMPLETED
    assert result["results"] == {"left": 1}
    assert [each["key"] for each in result["failed"]] == ["right"]


async def test_a_switch_takes_the_first_case_that_holds(database, noted):
    cases = (
        Case(value(lambda scope: scope["inputs"] > 10), Block((step("high", Set(Constant("high"))),))),
        Case(value(lambda scope: scope["inputs"] > 5), Block((step("middle", Set(Constant("middle"))),))),
    )
    flow = plan_workflow(step("choose", Switch(cases)), executors=noted.executors)
    assert (await ended(database, flow, 7))[1] == "middle"
    state, result, steps = await ended(database, flow, 1)
    assert (state, result, steps) == (RunState.COMPLETED, None, [("choose#1", "skipped")])


async def test_a_loop_goes_on_while_its_condition_holds(database, noted):
    loop = While(value(lambda scope: (scope["output"] or 0) < 3), 10)
    flow = plan_workflow(
        step("count", use("add", a=value(lambda scope: scope["output"] or 0), b=1), loop=loop),
        executors=noted.executors,
    )
    state, result, steps = await ended(database, flow)
    assert (state, result) == (RunState.COMPLETED, 3)
    assert [name for name, _ in steps] == ["count#1", "count#2", "count#3"]


async def test_a_loop_that_does_not_end_fails(database, noted):
    flow = plan_workflow(step("on", use("add"), loop=While(Constant(True), 2)), executors=noted.executors)
    state, error, _ = await ended(database, flow)
    assert state is RunState.FAILED
    assert "repeated 2 times" in str(error)


async def test_a_loop_of_several_steps_does_them_anew_each_round(database, noted):
    inner = Block((step("a", use("add", a=1)), step("b", use("add", a=output("a"), b=1))), is_sequence=True)
    loop = While(value(lambda scope: scope["round"] <= 2), 5)
    flow = plan_workflow(step("twice", Do(inner), loop=loop), executors=noted.executors)
    state, result, steps = await ended(database, flow)
    assert (state, result) == (RunState.COMPLETED, 2)
    assert [name for name, _ in steps] == ["twice[1]/a#1", "twice[1]/b#1", "twice[2]/a#1", "twice[2]/b#1"]


async def test_a_step_may_fail_sleep_emit_and_receive(database):
    flow = plan_workflow(
        step("nap", Sleep(Constant("10ms"))),
        step("tell", Emit("it.happened", Constant({"n": 1})), needs=("nap",)),
        step("hear", Receive(Constant("go")), needs=("tell",)),
        step("end", Fail(value(lambda scope: f"heard {scope['steps']['hear']['output']}", "hear"))),
    )
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await run.signal("go", 7)
        with pytest.raises(RunFailed, match="heard 7"):
            await time.result(run)
        assert "it.happened" in [event.type for event in await run.history()]


async def test_items_are_undone_too(database, noted):
    undone = use("undo", what=value(lambda scope: [scope["item"], scope["output"]]))
    flow = plan_workflow(
        step(
            "fan", use("add", a=value(lambda scope: scope["item"])), each=Each(Constant([1, 2]), at_once=1), undo=undone
        ),
        step("bad", use("fail"), needs=("fan",), on_failure=OnFailure.COMPENSATE),
        executors=noted.executors,
    )
    await ended(database, flow)
    assert [call for call in noted.calls if call[0] == "undo"] == [("undo", [2, 2]), ("undo", [1, 1])]


async def test_a_group_that_takes_too_long_is_called_off(database):
    block = Block((step("hear", Receive(Constant("never"))),))
    flow = plan_workflow(
        step("short", Do(block), limits=Limits(total_ms=20), on_failure=OnFailure.CONTINUE),
        step("after", Set(Constant("went on")), needs=("short",)),
    )
    state, result, steps = await ended(database, flow)
    assert (state, result) == (RunState.PARTIAL, "went on")
    assert dict(steps)["hear#1"] == "cancelled"


async def test_a_run_that_is_retried_does_again_what_was_undone(database):
    calls: list[str] = []
    trouble = [ValueError("not yet")]

    async def work(name: str) -> str:
        calls.append(name)
        return name

    async def shaky() -> str:
        if trouble:
            raise trouble.pop()
        return "done"

    block = Block(
        (step("one", use("work", name="one"), undo=use("work", name="undo")), step("two", use("shaky"))), True
    )
    flow = plan_workflow(
        step("other", use("work", name="other")),
        step("group", Do(block), needs=("other",), on_failure=OnFailure.COMPENSATE),
        executors=Executors(work=work, shaky=shaky),
    )
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="not yet"):
            await run.result(timeout="60s")
        await run.retry()
        assert await run.result(timeout="60s") == "done"
    assert calls == ["other", "one", "undo", "one"]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"properties": {"n": {"type": "integer"}}}, r"\['n'\]: 'x' is not of type 'integer'"),
        ({"$ref": "http://127.0.0.1:1/schema"}, "cannot be held against its schema"),
    ],
    ids=["another shape", "a schema from elsewhere, which is not fetched"],
)
async def test_a_signal_that_does_not_fit_its_schema_fails_the_step(database, schema, told):
    flow = plan_workflow(step("hear", Receive(Constant("go"), schema=schema)))
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run.signal("go", {"n": "x"})
        with pytest.raises(RunFailed, match=told):
            await run.result(timeout="60s")
