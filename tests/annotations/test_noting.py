"""Facts that code notes: with what came of an attempt, or once for the run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from stepfast import (
    Invalid,
    Later,
    Outside,
    Pending,
    Retry,
    RunFailed,
    WrongCall,
    annotate,
    sleep,
    step,
    storage,
    workflow,
)
from stepfast.kernel.annotations import MAX_OF_ATTEMPT, MAX_VALUE
from stepfast.kernel.decisions import Decision
from stepfast.kernel.errors import Unstorable
from stepfast.kernel.events import Event
from stepfast.testing import Engine, crash_points, engine, run_step
from stepfast.workflows.bodies import current_step
from stepfast.workflows.step_calls import StepCall
from tests.support.apps import app_on


def facts(noted) -> list[tuple[Any, ...]]:
    return [(each.name, json.loads(each.value), each.step, each.attempt) for each in noted]


async def test_a_fact_that_a_step_notes_is_saved_before_the_event_of_its_end(database):
    @step
    async def rate() -> str:
        annotate("quality", 0.9, scope="page 1")
        await annotate("model", {"name": "small", "tokens": 12})
        return "good"

    @workflow
    async def flow() -> str:
        return await rate()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow, actor="ann")
        await opened.run_until_idle()
        types = [event.type for event in await run.history()]
        noted = await run.annotations()
    assert types[-4:] == ["annotated", "annotated", "step_completed", "completed"]
    assert facts(noted) == [
        ("quality", 0.9, "rate#1", 1),
        ("model", {"name": "small", "tokens": 12}, "rate#1", 1),
    ]
    assert [(each.scope, each.actor, each.generation) for each in noted] == [("page 1", "ann", 1), (None, "ann", 1)]


async def test_a_def_step_notes_from_its_thread(database):
    @step
    def rate() -> None:
        annotate("quality", "good")

    @workflow
    def flow() -> None:
        rate()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        assert facts(await run.annotations()) == [("quality", "good", "rate#1", 1)]


async def test_a_failed_attempt_keeps_its_facts_with_its_own_number(database):
    tries = []

    @step(retry=Retry(attempts=2, base="1ms"))
    async def rate() -> None:
        tries.append(1)
        annotate("try", len(tries))
        if len(tries) == 1:
            raise ValueError("not yet")

    @workflow
    async def flow() -> None:
        await rate()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.result(run)
        types = [event.type for event in await run.history()]
        assert facts(await run.annotations("try")) == [("try", 1, "rate#1", 1), ("try", 2, "rate#1", 2)]
    first = types.index("annotated")
    assert types[first : first + 3] == ["annotated", "step_failed", "retry_scheduled"]


async def test_the_last_failed_attempt_keeps_its_facts_too(database):
    @step(retry=Retry(attempts=1))
    async def rate() -> None:
        annotate("seen", True)
        raise ValueError("no")

    @workflow
    async def flow() -> None:
        await rate()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        assert facts(await run.annotations()) == [("seen", True, "rate#1", 1)]


async def test_what_an_attempt_noted_that_was_put_off_is_not_kept(database):
    tries = []

    @step
    async def rate() -> None:
        tries.append(1)
        annotate("try", len(tries))
        if len(tries) == 1:
            raise Later("10ms")

    @workflow
    async def flow() -> None:
        await rate()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.result(run)
        assert facts(await run.annotations()) == [("try", 2, "rate#1", 1)]


async def test_of_a_process_that_dies_before_its_step_is_saved_nothing_is_noted(database):
    lives = []

    @step
    async def rate() -> None:
        lives.append(1)
        annotate("life", len(lives))
        if len(lives) == 1:
            await opened.crash()

    @workflow
    async def flow() -> None:
        await rate()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        assert facts(await run.annotations()) == [("life", 2, "rate#1", 1)]


@step
async def rate(n: int) -> int:
    annotate("rated", n)
    # So that there is a call of the store between the fact and the end of the step.
    await storage.save("draft", n)
    return n


@workflow
async def rating() -> None:
    await rate(1)
    await annotate("between", None)
    await rate(2)


async def rated(opened: Engine) -> list[tuple[Any, ...]]:
    """What was noted of a run, whatever became of the processes meanwhile."""
    run = await opened.start(rating, key="one")
    await opened.run_until_idle()
    return facts(await opened.insist(run.annotations))


async def test_a_fact_is_noted_once_wherever_the_process_dies(databases, request):
    # Every point on SQLite, a spread of them on PostgreSQL, whose databases take longer to make.
    every = 5 if "postgres" in request.node.name else 1
    await crash_points(rated, databases=databases, every=every, workflows=[rating])


async def test_the_broken_twin_that_notes_at_once_keeps_facts_of_attempts_that_came_to_nothing(databases, monkeypatch):
    invoke = StepCall._invoke

    def noting_at_once(call, asked, begun=None):
        class Told(list[Event]):
            def append(self, event):
                run = asked.context.run
                told = Decision(run.fence, run.tenant, run.generation, events=(event,))
                asked.context.save(told, lambda refused: None)

        work = invoke(call, asked, begun)
        current_step.set(current_step.get()._replace(notes=Told()))
        return work

    monkeypatch.setattr(StepCall, "_invoke", noting_at_once)
    with pytest.raises(AssertionError, match="changed the result"):
        await crash_points(rated, databases=databases, workflows=[rating])


async def test_workflow_code_notes_once_however_often_it_is_replayed(database):
    @workflow
    async def flow() -> None:
        await annotate("phase", "first")
        await sleep("1h")
        await annotate("phase", "second", scope="evening")

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow, actor="ann")
        await opened.result(run)
        noted = await run.annotations("phase")
    assert facts(noted) == [("phase", "first", None, None), ("phase", "second", None, None)]
    assert [(each.scope, each.actor) for each in noted] == [(None, "ann"), ("evening", "ann")]


async def test_a_def_workflow_notes_too(database):
    @workflow
    def flow() -> None:
        annotate("phase", 1)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        assert facts(await run.annotations()) == [("phase", 1, None, None)]


async def test_a_question_after_outside_work_keeps_its_facts_when_it_ends_the_work(database):
    asked = []

    @step
    async def look(handle: str) -> Any:
        asked.append(handle)
        annotate("question", len(asked))
        return Pending() if len(asked) < 3 else "done"

    @step
    async def send() -> Any:
        annotate("sent", "to the printer")
        return Outside("job-1", poll=look, every="1s")

    @workflow
    async def flow() -> Any:
        return await send()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.result(run)
        noted = facts(await run.annotations())
    assert noted == [("sent", "to the printer", "send#1", 1), ("question", 3, "send#1", 1)]


BAD = {
    "an object": ({"a": [1, object()]}, r"at \.a\[1\] is an object"),
    "a NUL": ({"a": ["x", "b\0"]}, r"at \.a\[1\] .* holds a NUL character"),
    "a NUL in a key": ({"a\0b": 1}, "holds a NUL character"),
    "a lone surrogate": (["\ud800"], r"at \[0\] .* lone surrogate"),
    "too much": ("x" * MAX_VALUE, "the limit is 65,536"),
    "not a number": (float("nan"), "JSON has no form for"),
}


@pytest.mark.parametrize(("value", "told"), BAD.values(), ids=BAD)
async def test_a_value_that_cannot_be_stored_fails_that_call_naming_the_culprit(value, told):
    @step
    async def rate() -> None:
        annotate("quality", value)

    with pytest.raises(Unstorable, match=told) as refused:
        await run_step(rate)
    assert "The value of annotation 'quality'" in str(refused.value)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0", "\udfff", 7], ids=["empty", "long", "NUL", "surrogate", "int"])
async def test_a_name_that_cannot_be_found_by_is_refused(name):
    @step
    async def rate() -> None:
        annotate(name, 1)

    with pytest.raises(Invalid, match="The annotation's name"):
        await run_step(rate)


async def test_text_that_only_looks_like_an_escaped_nul_is_kept(database):
    @step
    async def rate() -> None:
        annotate("text", "a \\u0000 b")

    @workflow
    async def flow() -> None:
        await rate()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        assert facts(await run.annotations()) == [("text", "a \\u0000 b", "rate#1", 1)]


async def test_an_attempt_notes_no_more_than_so_many_facts(database):
    @step(retry=Retry(attempts=1))
    async def rate() -> None:
        for n in range(MAX_OF_ATTEMPT + 1):
            annotate("n", n)

    @workflow
    async def flow() -> None:
        await rate()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        with pytest.raises(RunFailed, match="has noted 200 facts in attempt 1"):
            await run.result()
        assert len(await run.annotations()) == MAX_OF_ATTEMPT


def test_outside_a_run_the_way_from_outside_is_named():
    with pytest.raises(WrongCall, match=r"run\.annotate"):
        annotate("quality", 1)


async def test_a_value_of_a_class_is_kept_as_its_json(database):
    @dataclass
    class Rating:
        stars: int

    @step
    async def rate() -> None:
        annotate("rating", Rating(4))

    @workflow
    async def flow() -> None:
        await rate()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        assert facts(await run.annotations()) == [("rating", {"stars": 4}, "rate#1", 1)]


async def test_the_deploy_check_replays_what_was_noted(database):
    @workflow
    async def flow() -> None:
        await annotate("phase", "first")
        await sleep("1h")

    async with engine(database=database, workflows=[flow]) as opened:
        await opened.start(flow)
        await opened.run_until_idle()
        report = await opened.app.check()
    assert (report.checked, report.breaking) == (1, 0)
