"""Commands to one run: cancel, pause, resume, retry, rerun, execute."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from stepfast import (
    IllegalMove,
    Invalid,
    NotFound,
    Retry,
    Run,
    RunCancelled,
    RunFailed,
    RunState,
    continue_as,
    receive,
    step,
    workflow,
)
from stepfast.kernel.errors import KeyReused, NothingBefore, StepNotFound, WorkflowNotFound
from stepfast.workflows.functions import AsyncWorkflow
from tests.support.apps import Bodies, app_on
from tests.support.following import looks_of, state_of, told
from tests.support.workflows import say

NOWHERE = "01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22"


@workflow
async def patient() -> str:
    return await receive("go", str)


class Line:
    """A workflow of three steps whose middle one waits, fails or passes, as the test says."""

    def __init__(self) -> None:
        self.bodies = Bodies()
        self.begun = asyncio.Event()
        self.may_go = asyncio.Event()
        self.may_go.set()
        self.is_broken = False
        self.was_cut = asyncio.Event()

        @step
        async def first() -> str:
            self.bodies.ran("first")
            return "1"

        @step(retry=Retry(attempts=1))
        async def middle() -> str:
            self.bodies.ran("middle")
            self.begun.set()
            try:
                await self.may_go.wait()
            except asyncio.CancelledError:
                self.was_cut.set()
                raise
            if self.is_broken:
                raise ValueError("broken")
            return "2"

        @step
        async def last() -> str:
            self.bodies.ran("last")
            return "3"

        @workflow
        async def line() -> str:
            return await first() + await middle() + await last()

        self.workflow = line


@pytest.fixture
def line():
    return Line()


@pytest.fixture
async def app(database, line):
    async with app_on(database, [line.workflow, patient, say]) as app:
        yield app


@pytest.fixture
async def client(database, line):
    async with app_on(database, [line.workflow, patient, say], worker=False) as client:
        yield client


async def failed_run(app, line):
    line.is_broken = True
    run = await app.start(line.workflow)
    with pytest.raises(RunFailed):
        await run.result(timeout="30s")
    line.is_broken = False
    return run


async def test_a_cancelled_run_has_no_result(app):
    run = await app.start(patient)
    await state_of(run, RunState.WAITING)
    changed = await run.cancel(reason="nobody needs it", actor="ann")
    assert (changed.state, (await run.info()).state) == (RunState.CANCELLED, RunState.CANCELLED)
    with pytest.raises(RunCancelled, match="nobody needs it"):
        await run.result(timeout="30s")


async def test_who_cancelled_and_why_is_in_the_history(client):
    run = await client.start(patient)
    await run.cancel(reason="a mistake", actor="ann")
    event = (await run.history())[-1]
    assert (event.type, event.actor, event.data) == ("cancelled", "ann", '{"reason": "a mistake"}')


async def test_cancelling_cuts_a_step_short_and_tells_whoever_waits(app, line):
    line.may_go.clear()
    run = await app.start(line.workflow)
    await line.begun.wait()
    waiting = asyncio.create_task(run.result(timeout="30s"))
    await run.cancel()
    with pytest.raises(RunCancelled):
        await waiting
    await told(run, "cancelled")
    await line.was_cut.wait()
    assert line.bodies["last"] == 0


async def test_a_waiting_caller_in_another_process_hears_of_a_cancel(app, client):
    run = await app.start(patient)
    waiting = asyncio.create_task(client.get(run.id).result(timeout="30s"))
    await run.cancel()
    with pytest.raises(RunCancelled):
        await waiting


async def test_a_parent_hears_that_its_child_was_cancelled(database):
    @workflow
    async def parent() -> str:
        try:
            return await patient()
        except RunCancelled:
            return "went on without"

    async with app_on(database, [parent, patient]) as app:
        run = await app.start(parent)
        await state_of(run, RunState.WAITING)
        [child] = await app.runs("patient")
        await app.get(child.run_id).cancel()
        assert await run.result(timeout="30s") == "went on without"


async def test_an_ended_run_cannot_be_cancelled(app):
    run = await app.start(say, "hello")
    await run.result(timeout="30s")
    with pytest.raises(IllegalMove, match="is completed, so it cannot be cancelled"):
        await run.cancel()


@pytest.mark.parametrize("command", ["cancel", "pause", "resume", "retry", "rerun", "execute", "why"])
async def test_a_run_that_does_not_exist_is_not_found(client, command):
    with pytest.raises(NotFound, match=NOWHERE):
        await getattr(client.get(NOWHERE), command)()


@pytest.mark.parametrize("command", ["info", "cancel", "pause", "why"])
async def test_a_tenant_finds_its_own_runs_only(client, command):
    run = await client.start(patient, tenant="acme")
    with pytest.raises(NotFound):
        await getattr(client.get(run.id, tenant="globex"), command)()
    await getattr(client.get(run.id, tenant="acme"), command)()


async def test_a_command_that_is_sent_again_with_its_key_counts_once(client):
    run = await client.start(patient)
    first = await run.pause(key="pause-1")
    again = await run.pause(key="pause-1")
    assert (first.repeated, again.repeated, again.state) == (False, True, RunState.PAUSED)
    assert [event.type for event in await run.history()].count("paused") == 1


async def test_a_key_of_another_command_is_refused(client):
    one, other = await client.start(patient), await client.start(patient)
    await one.pause(key="pause-1")
    with pytest.raises(KeyReused):
        await other.pause(key="pause-1")


@pytest.mark.parametrize("key", ["s1", "it's", 'say "s1"', "back\\slash\nand ü"])
async def test_a_key_that_is_refused_is_shown_in_one_form_whatever_it_was_for(client, key):
    run = await client.start(patient, key=key)
    await run.signal("go", "first", key=key)
    with pytest.raises(KeyReused) as started:
        await client.start(say, "other", key=key)
    with pytest.raises(KeyReused) as signalled:
        await run.signal("go", "second", key=key)
    for refused in (started, signalled):
        assert str(refused.value).startswith(f"Key {key!r} of tenant 'default' ")


async def test_each_kind_of_command_has_keys_of_its_own(client):
    run = await client.start(patient)
    answers = [await run.pause(key="once"), await run.resume(key="once"), await run.cancel(key="once")]
    assert [answer.repeated for answer in answers] == [False, False, False]


async def test_a_paused_run_is_taken_by_nobody_until_it_is_resumed(client):
    run = await client.start(say, "hello")
    await run.pause()
    async with client.worker(poll="50ms") as worker:
        await asyncio.wait_for(worker.drained.wait(), 30)
        assert ((await run.info()).state, worker.stats().runs_processed) == (RunState.PAUSED, 0)
        await run.resume()
        assert await run.result(timeout="30s") == "hello"


async def test_a_pause_lets_steps_under_way_finish_and_begins_no_other(app, line, monkeypatch):
    looked = looks_of(app, monkeypatch)
    line.may_go.clear()
    run = await app.start(line.workflow)
    await line.begun.wait()
    assert (await run.pause(actor="ann")).state is RunState.RUNNING
    await looked.wait()
    line.may_go.set()
    await state_of(run, RunState.PAUSED)
    assert line.bodies == {"first": 1, "middle": 1}
    await run.resume()
    assert await run.result(timeout="30s") == "123"
    assert line.bodies == {"first": 1, "middle": 1, "last": 1}


async def test_what_comes_for_a_paused_run_is_kept(app):
    run = await app.start(patient)
    await state_of(run, RunState.WAITING)
    await run.pause()
    await run.signal("go", "now")
    assert (await run.info()).state is RunState.PAUSED
    await run.resume()
    assert await run.result(timeout="30s") == "now"


async def test_a_run_that_is_not_paused_cannot_be_resumed(client):
    run = await client.start(patient)
    with pytest.raises(IllegalMove):
        await run.resume()


async def test_a_retried_run_goes_on_where_it_failed(app, line):
    run = await failed_run(app, line)
    changed = await run.retry()
    assert (changed.state, changed.generation) == (RunState.PENDING, 2)
    assert await run.result(timeout="30s") == "123"
    assert line.bodies == {"first": 1, "middle": 2, "last": 1}


async def test_a_retried_run_that_fails_again_has_the_newer_error(app, line):
    run = await failed_run(app, line)
    line.is_broken = True
    await run.retry()
    with pytest.raises(RunFailed, match="broken"):
        await run.result(timeout="30s")
    assert (await run.info()).generation == 2


async def test_another_handle_waits_for_the_new_generation_too(app, line):
    run = await failed_run(app, line)
    other = app.get(run.id)
    await run.retry()
    assert await other.result(timeout="30s") == "123"


async def test_a_handle_that_knows_the_old_end_hears_of_a_retry_in_another_process(app, client, line):
    run = await failed_run(app, line)
    line.may_go.clear()
    await client.get(run.id).retry()
    line.may_go.set()
    assert await run.result(timeout="30s") == "123"


async def test_a_run_that_did_not_fail_cannot_be_retried(app):
    run = await app.start(say, "hello")
    await run.result(timeout="30s")
    with pytest.raises(IllegalMove, match="cannot be retried"):
        await run.retry()


async def test_who_retries_the_first_step_that_has_finished_is_told_to_rerun_the_whole_run(app, line):
    run = await failed_run(app, line)
    with pytest.raises(IllegalMove, match=f"Run all of it again with `stepfast runs rerun {run.id}`"):
        await run.retry(step="first")
    await run.rerun()
    assert await run.result(timeout="30s") == "123"


async def test_a_rerun_starts_from_the_beginning(app, line):
    run = await app.start(line.workflow)
    await run.result(timeout="30s")
    await run.rerun()
    assert await run.result(timeout="30s") == "123"
    assert line.bodies == {"first": 2, "middle": 2, "last": 2}


@pytest.mark.parametrize("from_step", ["middle", "middle#1", 2, "2"])
async def test_a_rerun_from_a_step_keeps_what_came_before(app, line, from_step):
    run = await app.start(line.workflow)
    await run.result(timeout="30s")
    await run.rerun(from_step=from_step)
    assert await run.result(timeout="30s") == "123"
    assert line.bodies == {"first": 1, "middle": 2, "last": 2}


async def test_a_rerun_from_a_step_that_does_not_exist_changes_nothing(app, line):
    run = await app.start(line.workflow)
    await run.result(timeout="30s")
    with pytest.raises(StepNotFound):
        await run.rerun(from_step="nowhere")
    assert (await run.info()).generation == 1


async def test_a_rerun_from_the_first_step_is_refused(app, line):
    run = await app.start(line.workflow)
    await run.result(timeout="30s")
    with pytest.raises(NothingBefore):
        await run.rerun(from_step="first")


async def test_a_cancelled_run_can_be_rerun(app):
    run = await app.start(patient)
    await run.cancel()
    await run.rerun()
    await run.signal("go", "again")
    assert await run.result(timeout="30s") == "again"


async def test_a_rerun_may_go_to_another_version(database):
    @workflow(name="priced", version=1)
    async def old() -> int:
        return 1

    @workflow(name="priced", version=2)
    async def new() -> dict[str, int]:
        return {"price": 2}

    async with app_on(database, [old, new]) as app:
        run: Run[Any] = await app.start(old)
        assert await run.result(timeout="30s") == 1
        await run.rerun(version=2)
        assert await run.result(timeout="30s") == {"price": 2}
        assert (await run.info()).version == 2


def priced(version: int) -> AsyncWorkflow[[], int]:
    @workflow(name="priced", version=version)
    async def price() -> int:
        return version

    return price


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_version_that_neither_the_app_nor_a_worker_has_is_refused(database, dry_run):
    async with app_on(database, [priced(1)]) as app:
        run = await app.start("priced")
        await run.result(timeout="30s")
        with pytest.raises(WorkflowNotFound, match=r"'priced' has no version 9 .* there is priced@1\."):
            await run.rerun(version=9, dry_run=dry_run)
        assert ((await run.info()).state, (await run.info()).version) == (RunState.COMPLETED, 1)


async def test_a_version_that_only_a_worker_elsewhere_has_is_taken(database):
    async with app_on(database, [priced(1)]) as app, app_on(database, [priced(2)]):
        run = await app.start("priced")
        await run.result(timeout="30s")
        await run.rerun(version=2)
        assert await run.result(timeout="30s") == 2


async def test_a_version_is_taken_where_nobody_has_the_workflow_and_why_names_it(database):
    async with app_on(database, [priced(1)]) as app:
        run = await app.start("priced")
        await run.result(timeout="30s")
    async with app_on(database, [], worker=False) as stranger:
        late = stranger.get(run.id)
        await late.rerun(version=9)
        assert "No worker is alive. Start one that has priced@9" in str(await late.why())
        async with app_on(database, [priced(1)]):
            assert "No live worker has priced@9. There is priced@1." in str(await late.why())


async def test_a_rerun_that_is_sent_again_is_answered_although_its_version_is_gone(database):
    async with app_on(database, [priced(1)]) as app:
        run = await app.start("priced")
        async with app_on(database, [priced(2)]):
            await run.result(timeout="30s")
            first = await run.rerun(version=2, key="up")
            await run.result(timeout="30s")
        assert (await run.rerun(version=2, key="up")).generation == first.generation


async def test_a_run_may_be_rerun_in_its_own_version_where_nobody_has_it(database):
    async with app_on(database, [priced(1)]) as app:
        run = await app.start("priced")
        await run.result(timeout="30s")
    async with app_on(database, [priced(2)], worker=False) as other:
        assert (await other.get(run.id).rerun(version=1)).generation == 2


@pytest.mark.parametrize("version", [0, -1, True, "2", 2**31])
async def test_a_version_that_cannot_be_is_refused(client, version):
    run = await client.start(patient)
    with pytest.raises(Invalid, match="version is"):
        await run.rerun(version=version)


async def test_a_run_is_executed_here_and_now(client, line):
    run = await client.start(line.workflow)
    assert await run.execute() is RunState.COMPLETED
    assert await run.result() == "123"
    assert all(worker.dead_at is not None for worker in await client.workers.list())


async def test_executing_a_run_stops_where_it_waits(client):
    run = await client.start(patient)
    assert await run.execute() is RunState.WAITING
    await run.signal("go", "on")
    assert await run.execute() is RunState.COMPLETED


async def test_executing_goes_on_through_the_generations_of_a_run(database):
    @workflow
    async def countdown(left: int) -> str:
        if left:
            continue_as(left - 1)
        return "done"

    async with app_on(database, [countdown], worker=False) as client:
        run = await client.start(countdown, 2)
        assert await run.execute() is RunState.COMPLETED


@pytest.mark.parametrize("state", ["paused", "waiting", "completed"])
async def test_a_run_that_is_not_ready_cannot_be_executed(client, state):
    run = await client.start(say, "hello") if state == "completed" else await client.start(patient)
    await (run.pause() if state == "paused" else run.execute())
    with pytest.raises(IllegalMove, match=f"is {state}"):
        await run.execute()


async def test_a_run_of_code_that_is_not_here_cannot_be_executed(client, database):
    run = await client.start(say, "hello")
    async with app_on(database, [patient], worker=False) as stranger:
        with pytest.raises(Invalid, match="say@1, which this app does not have"):
            await stranger.get(run.id).execute()


async def test_a_run_that_is_put_off_cannot_be_executed_yet(client):
    run = await client.start(say, "hello", delay="1h")
    with pytest.raises(IllegalMove, match="put off until"):
        await run.execute()


async def test_runs_are_listed_by_the_workflow_itself_and_since_a_moment(database):
    async with app_on(database, [patient, say], worker=False) as app:
        run, _ = await app.start(patient), await app.start(say, "a")
        past, future = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
        assert [view.run_id for view in await app.runs(patient, queued_after=past)] == [run.id]
        assert await app.runs(patient, updated_after=future) == []
