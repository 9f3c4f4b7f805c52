"""Rows that nobody in their right mind would write: each hurts its own run only."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import Retry, RunState, receive, step, workflow
from stepfast.kernel.errors import StoreUnusable
from stepfast.kernel.states import ENDED
from stepfast.kernel.views import Finding
from stepfast.worker import execute as execution
from stepfast.worker.worker import Worker
from tests.support.apps import app_on
from tests.support.following import until
from tests.support.sql import execute, tamper
from tests.support.virtual_time import until_state

begun: asyncio.Event
is_held: list[bool] = []


@step
async def echo(word: str) -> str:
    return word


@step
async def hold() -> str:
    begun.set()
    if is_held:
        await asyncio.Event().wait()
    return "!"


@workflow
async def flow(word: str) -> str:
    return await echo(word) + await hold()


@workflow
async def waiting() -> None:
    await receive("go")


@pytest.fixture(autouse=True)
def fresh_gate():
    global begun
    begun = asyncio.Event()
    is_held.clear()


def on_run(run, change: str, table: str = "run") -> str:
    return f"update stepfast.{table} set {change} where run_id = '{run.id}'"


async def two_pending(database: str):
    async with app_on(database, [flow], worker=False) as client:
        return await client.start(flow, "bad"), await client.start(flow, "good")


async def two_begun(database: str):
    """Two runs that have recorded their first step, and were handed back by a worker that left."""
    is_held.append(True)
    async with app_on(database, [flow]) as app:
        runs = []
        for word in ("bad", "good"):
            begun.clear()
            runs.append(await app.start(flow, word))
            await begun.wait()
    is_held.clear()
    return runs


async def the_good_one_completes(database: str, good) -> None:
    async with app_on(database, [flow]) as app:
        assert await app.get(good.id).result(timeout="30s") == "good!"


async def after_being_taken_twice(run) -> RunState:
    """How a run stands that has ended, or that was handed back and taken once more."""
    view = await run.info()
    enough = view.token + 3
    while view.state not in ENDED and view.token < enough:
        view = await run.info()
    return RunState(view.state)


INPUTS = {
    "no JSON": "{not json",
    "for other parameters": '{"args": [1, 2, 3], "kwargs": {"nose": 1}}',
}


@pytest.mark.parametrize("text", INPUTS.values(), ids=INPUTS)
async def test_an_input_that_does_not_fit_hurts_its_own_run_only(database, text):
    bad, good = await two_pending(database)
    await execute(database, on_run(bad, f"input = '{text}'"))
    await the_good_one_completes(database, good)
    async with app_on(database, [flow]) as app:
        await until_state(app.get(bad.id), RunState.WAITING)
        assert "The stored input does not fit the code" in str(await app.get(bad.id).why())


async def test_a_workflow_that_nobody_knows_leaves_its_own_run_pending(database):
    bad, good = await two_pending(database)
    await execute(database, on_run(bad, "workflow = 'ghost', code = 'ghost@1'"))
    await execute(database, on_run(bad, "code = 'ghost@1'", table="task"))
    await the_good_one_completes(database, good)
    async with app_on(database, [flow], worker=False) as client:
        assert (await client.get(bad.id).info()).state is RunState.PENDING


async def test_a_task_that_lies_about_its_workflow_hurts_its_own_run_only(database):
    bad, good = await two_pending(database)
    await execute(database, on_run(bad, "workflow = 'ghost'"))
    await the_good_one_completes(database, good)
    async with app_on(database, [flow], worker=False) as client:
        # It is put off, or waits for code by now: no worker is kept busy by it.
        assert (await client.get(bad.id).info()).state in (RunState.PENDING, RunState.WAITING)


def greatest(database: str) -> int:
    """The greatest number that a column can hold."""
    return 2**63 - 1 if database.startswith("sqlite") else 2**31 - 1


GREATEST = {
    "its token": "update stepfast.task set token = {greatest} where run_id = '{run}'",
    "its last event": "update stepfast.event set seq = {greatest} where run_id = '{run}'",
}


@pytest.mark.parametrize("change", GREATEST.values(), ids=GREATEST)
async def test_a_run_with_the_greatest_number_is_set_aside_and_says_so(database, change):
    bad, good = await two_pending(database)
    await tamper(database, change.format(greatest=greatest(database), run=bad.id))
    await the_good_one_completes(database, good)
    async with app_on(database, [flow], worker=False) as client:
        run = client.get(bad.id)
        assert (await run.info()).state is RunState.WAITING
        assert "It was set aside: somebody has changed its rows" in str(await run.why())
        assert [finding.run_id for finding in await client.findings()] == [bad.id]


async def test_a_record_with_the_greatest_number_hurts_its_own_run_only(database):
    bad, good = await two_begun(database)
    await execute(database, on_run(bad, f"seq = {greatest(database)}", table="step"))
    await the_good_one_completes(database, good)


RECORDS = {
    "a value that is no JSON": "value = '{garbage'",
    "a value of another type": "value = '[1]'",
    "an input that is no JSON": "input = '{garbage', digest = 'x'",
    "a state that does not exist": "state = 'exploded'",
    "an error that is none": "state = 'failed', value = null, error = '[1, 2'",
}


@pytest.mark.parametrize("change", RECORDS.values(), ids=RECORDS)
async def test_a_record_that_cannot_be_read_hurts_its_own_run_only(database, change):
    bad, good = await two_begun(database)
    await execute(database, on_run(bad, change, table="step"))
    await the_good_one_completes(database, good)
    async with app_on(database, [flow], worker=False) as client:
        assert (await client.get(bad.id).info()).state is not RunState.COMPLETED


async def test_the_broken_twin_that_reads_all_or_nothing_leaves_the_good_run_too(database, monkeypatch):
    async def read_all_or_nothing(self, runs):
        return await self._store.histories([run.run_id for run in runs])

    monkeypatch.setattr(Worker, "_histories", read_all_or_nothing)
    bad, good = await two_begun(database)
    await execute(database, on_run(bad, RECORDS["a state that does not exist"], table="step"))
    async with app_on(database, [flow]) as app:
        assert await after_being_taken_twice(app.get(good.id)) is not RunState.COMPLETED


async def test_an_event_with_a_null_character_is_shown_and_stops_nobody(database):
    bad, good = await two_begun(database)
    null = "'a' || char(0) || 'b'" if database.startswith("sqlite") else r"""'"a\u0000b"'"""
    await tamper(database, on_run(bad, f"data = {null}", table="event"))
    await the_good_one_completes(database, good)
    async with app_on(database, [flow]) as app:
        handle = app.get(bad.id)
        assert await handle.result(timeout="30s") == "bad!"
        assert len(await handle.history()) > 5


NO_TEXT = {
    "its input": ("run", "input"),
    "what it was started with": ("run", "metadata"),
    "the result of a step": ("step", "value"),
}


@pytest.fixture
def sqlite(tmp_path) -> str:
    """Only SQLite takes text that is none; PostgreSQL checks what it is given."""
    return f"sqlite:///{tmp_path}/app.db"


async def damaged(sqlite: str, table: str, column: str):
    bad, good = await two_begun(sqlite)
    await execute(sqlite, on_run(bad, f"{column} = cast(x'ff41' as text)", table))
    return bad, good


@pytest.mark.parametrize(("table", "column"), NO_TEXT.values(), ids=NO_TEXT)
async def test_a_run_whose_text_is_none_is_put_off_ever_longer_and_named(sqlite, table, column, monkeypatch):
    monkeypatch.setattr(execution, "PATIENCE", Retry(base="10ms", factor=2, cap="1h", jitter=0))
    bad, good = await damaged(sqlite, table, column)
    async with app_on(sqlite, [flow]) as app:
        assert await app.get(good.id).result(timeout="30s") == "good!"

        async def named() -> list[Finding] | None:
            return list(await app.findings()) or None

        findings = await until(named)
        assert [(finding.run_id, "no UTF-8" in finding.detail) for finding in findings] == [(bad.id, True)]

        async def explained() -> bool | None:
            # While it is due, or is held for a try, that is what moves it.
            return "no UTF-8" in str(await app.get(bad.id).why()) or None

        assert await until(explained)


@pytest.mark.parametrize(("table", "column"), NO_TEXT.values(), ids=NO_TEXT)
async def test_a_run_whose_text_is_none_is_listed_and_can_be_cancelled(sqlite, table, column):
    bad, good = await damaged(sqlite, table, column)
    async with app_on(sqlite, [flow], worker=False) as client:
        assert {view.run_id for view in await client.runs()} == {bad.id, good.id}
        answer = await client.change_many("cancel", {})
        assert set(answer.changed) == {bad.id, good.id}


@pytest.mark.parametrize("tenant", ["x'61ff'", "x'ff61'"], ids=["before the others", "behind the others"])
async def test_a_run_whose_place_in_line_is_of_no_text_keeps_nobody_else_from_theirs(sqlite, tenant):
    bad, good = await two_pending(sqlite)
    await execute(sqlite, on_run(bad, f"tenant = cast({tenant} as text)", table="task"))
    await the_good_one_completes(sqlite, good)
    async with app_on(sqlite, [flow], worker=False) as client:
        assert (await client.get(bad.id).cancel()).state is RunState.CANCELLED


async def test_what_a_run_waits_for_may_be_no_text_and_why_says_so(sqlite):
    async with app_on(sqlite, [waiting], worker=False) as client:
        run = await client.start(waiting)
        await run.execute()
        await execute(sqlite, on_run(run, "name = cast(x'ff41' as text)", table="wait"))
        assert "What it waits for cannot be read." in str(await run.why())
        assert (await run.cancel()).state is RunState.CANCELLED


async def test_a_wait_of_a_kind_that_does_not_exist_is_told_of_and_can_be_cancelled(database):
    async with app_on(database, [waiting], worker=False) as client:
        run = await client.start(waiting)
        await run.execute()
        await execute(database, on_run(run, "kind = 'exploded'", table="wait"))
        why = await run.why()
        assert [reason.kind for reason in why.reasons] == ["damaged"]
        assert "'exploded'" in str(why)
        assert (await run.cancel()).state is RunState.CANCELLED


async def test_steps_with_a_state_that_does_not_exist_are_refused_by_the_record_that_has_it(database):
    async with app_on(database, [waiting], worker=False) as client:
        run = await client.start(waiting)
        await run.execute()
        await execute(database, on_run(run, "state = 'exploded'", table="step"))
        with pytest.raises(StoreUnusable, match="says 'exploded' for its state") as refused:
            await run.steps()
        assert refused.value.code == "E-STORE-003"
