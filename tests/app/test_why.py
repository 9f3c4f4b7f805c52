"""`run.why()` of real runs: what is read from the store, put into words."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from stepfast import Later, NotFound, Retry, RunFailed, RunState, each, receive, sleep, step, workflow
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Claim, Enrolment, QueueRoom
from stepfast.kernel.ids import WorkerId, new_id
from tests.support.apps import app_on
from tests.support.following import state_of, told, until
from tests.support.workflows import say

HOUR_MS = 3_600_000


@workflow
async def patient() -> str:
    return await receive("go", str, timeout="1h")


@workflow
async def sleeper() -> None:
    await sleep("1h")


@workflow
async def parent() -> list[str]:
    return list(await asyncio.gather(patient(), patient()))


@step(retry=Retry(attempts=1))
async def break_down() -> None:
    raise ValueError("no card")


mended: list[str] = []


@step(retry=Retry(attempts=1))
async def count(page: int) -> int:
    if not mended:
        raise ValueError(f"page {page} is torn")
    return page


@workflow
async def gathers() -> None:
    if any(isinstance(end, Exception) for end in await asyncio.gather(count(1), count(2), return_exceptions=True)):
        raise RuntimeError("some failed")


@workflow
async def settles() -> None:
    if not all(end.ok for end in await each(count, [1, 2], join="settled")):
        raise RuntimeError("some failed")


@workflow
async def broken() -> None:
    await break_down()


WORKFLOWS = [say, patient, sleeper, parent, broken]


@pytest.fixture
async def app(database):
    async with app_on(database, WORKFLOWS) as app:
        yield app


@pytest.fixture
async def client(database):
    async with app_on(database, WORKFLOWS, worker=False) as client:
        yield client


@pytest.mark.parametrize(
    ("waiting", "sentence"),
    [
        (patient, "It waits for signal 'go' until "),
        (sleeper, "It sleeps until "),
        (parent, "It waits for 1 of 1 children of patient"),
    ],
)
async def test_a_waiting_run_says_for_what(app, waiting, sentence):
    run = await app.start(waiting)
    await state_of(run, RunState.WAITING)
    assert sentence in str(await run.why())


@step(retry=Retry(attempts=2, base="1h"))
async def decline() -> None:
    raise ValueError("no card")


@workflow
async def declined() -> None:
    await asyncio.gather(decline(), decline())


@workflow(timeout="2h", retry=Retry(attempts=2, base="1h"))
async def declined_whole() -> None:
    raise ValueError("no card")


async def test_a_run_whose_steps_are_tried_again_names_each_with_its_error(database):
    async with app_on(database, [declined]) as app:
        run = await app.start(declined)

        async def of_backoffs() -> list[str] | None:
            texts = [reason.text for reason in (await run.why()).reasons if reason.kind == "backoff"]
            return texts if len(texts) == 2 else None

        texts = await until(of_backoffs)
    assert [text.partition(" is tried again at ")[0] for text in texts] == ["Step 1/decline#1", "Step 2/decline#1"]
    assert all(text.endswith(": attempt 1 failed with ValueError: no card.") for text in texts)


async def test_a_run_that_is_tried_again_whole_says_why_and_when_its_time_is_over(database):
    async with app_on(database, [declined_whole]) as app:
        run = await app.start(declined_whole)
        await told(run, "retry_scheduled")
        await state_of(run, RunState.PENDING)
        again, deadline = (await run.why()).reasons
        assert (again.kind, deadline.kind) == ("backoff", "deadline")
        assert again.text.endswith(": ValueError: no card.")
        assert (deadline.due_at or 0) > (again.due_at or 0) > 0


async def test_a_run_that_nobody_can_take_says_what_is_missing(client):
    run = await client.start(say, "hello", queue="gpu")
    assert [reason.kind for reason in (await run.why()).reasons] == ["worker"]
    async with client.worker(queues=["default"]):
        assert "serves queue gpu" in str(await run.why())


async def test_a_run_of_unknown_code_says_so(client, database):
    run = await client.start(say, "hello")
    async with app_on(database, [sleeper]):
        assert "No live worker has say@1." in str(await run.why())


async def test_a_delayed_run_says_until_when_and_that_nobody_will_take_it(client, database):
    run = await client.start(say, "hello", delay="1h")
    [reason, lack] = (await run.why()).reasons
    assert (reason.kind, reason.due_at) == ("delay", (await run.info()).queued_at + 3_600_000)
    assert (lack.kind, lack.text) == ("worker", "No worker is alive.")
    async with app_on(database, [say]):
        assert [reason.kind for reason in (await run.why()).reasons] == ["delay"]


@pytest.mark.parametrize("flow", [gathers, settles])
async def test_a_run_that_failed_after_it_caught_failures_names_them_and_a_retry_that_does_them_again(database, flow):
    mended.clear()
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="some failed"):
            await run
        [_, caught] = (await run.why()).reasons
        first, second = sorted(record.call.address for record in await run.steps() if record.call.name == "count")
        assert caught.text == f"Its code had caught failures, which a retry keeps: {first}, {second}."
        assert f"`stepfast runs retry {run.id} --step '{first}'` does that step" in caught.moved_by
        mended.append("yes")
        await run.retry(step=first)
        await run
        assert [reason.kind for reason in (await run.why()).reasons] == ["ended"]


async def test_a_run_that_failed_by_the_failure_of_a_step_says_nothing_of_others(app):
    run = await app.start(broken)
    with pytest.raises(RunFailed):
        await run
    assert [reason.kind for reason in (await run.why()).reasons] == ["ended"]


async def test_a_paused_run_says_who_paused_it(client):
    run = await client.start(say, "hello")
    await run.pause(actor="ann", reason="price check")
    await run.resume(actor="bob")
    await run.pause(actor="carl", reason="stock check")
    why = str(await run.why())
    assert ("paused by carl" in why, ": stock check" in why) == (True, True)


async def test_a_paused_run_whose_holder_did_not_live_to_tell_of_it_says_who_paused_it(client):
    store, holder = client._open_parts().store, WorkerId(new_id(Instant(1), 1))
    run = await client.start(say, "hello")
    await store.enrol(Enrolment(holder, "other", "host", 7, ("default",), ("say@1",), HOUR_MS))
    assert (await store.claim(Claim(holder, [QueueRoom("default", 1, "")], ["say@1"], 1, None, None))).runs
    await run.pause(actor="ann", reason="price check")
    await store.retire(holder)
    paused = (await run.why()).reasons[0]
    assert ("was paused by ann at " in paused.text, paused.text.endswith(": price check.")) == (True, True)


async def test_a_paused_run_that_had_failed_and_is_tried_again_still_says_with_what(database):
    async with app_on(database, [declined_whole]) as app:
        run = await app.start(declined_whole)
        await told(run, "retry_scheduled")
        await state_of(run, RunState.PENDING)
        await run.pause(actor="carl", reason="stock check")
        paused, again, _ = (await run.why()).reasons
    assert paused.text.endswith(": stock check.")
    assert "It failed and is tried again at " in again.text
    assert again.text.endswith(": ValueError: no card.")


async def test_a_paused_run_does_not_ask_for_a_signal_that_has_come(app):
    run = await app.start(patient)
    await state_of(run, RunState.WAITING)
    await run.pause(actor="ann")
    assert "`stepfast runs signal" in str(await run.why())
    await run.signal("go", "now")
    paused, come = (await run.why()).reasons
    assert f"`stepfast runs resume {run.id}`" in paused.moved_by
    assert str(come) == "Signal 'go' has come. The run goes on from there when it is resumed."
    await run.resume()
    assert await run.result(timeout="30s") == "now"


async def test_a_run_that_was_handed_back_does_not_ask_for_a_signal_that_has_come(database):
    away: list[str] = []

    @workflow
    async def fitful() -> str:
        if away:
            raise Later("1h")
        return await receive("go", str)

    async with app_on(database, [fitful]) as app:
        run = await app.start(fitful)
        await state_of(run, RunState.WAITING)
        away.append("the bank")
        await run.signal("go", "now")
        await told(run, "handed_back")
        said = str(await run.why())
    assert "Signal 'go' has come. The run goes on from there when it is tried again." in said
    assert "`stepfast runs signal" not in said


@pytest.fixture
async def studio(database):
    """A client whose workflows need queue gpu; they go with the test, as such a step is known wherever it was made."""

    @step(queue="gpu")
    async def paint_on_gpu(number: int = 0) -> str:
        return "painted"

    @workflow
    async def painter() -> str:
        return await paint_on_gpu()

    @workflow
    async def gallery() -> str:
        return await painter()

    @workflow
    async def painters() -> int:
        return len(await each(paint_on_gpu, range(150)))

    async with app_on(database, [painter, gallery, painters], worker=False) as client:
        yield client


async def test_a_run_names_what_keeps_its_step_in_another_queue_from_being_done(studio):
    run = await studio.start("painter")
    async with studio.worker(queues=["default"]):
        await state_of(run, RunState.WAITING)
        waits, stuck = (await run.why()).reasons
        assert (waits.kind, stuck.kind) == ("children", "queue")
        assert "cannot move: No live worker that has executor paint_on_gpu serves queue gpu." in stuck.text
        assert stuck.moved_by == "Start one with `stepfast worker --queues gpu`."
        async with studio.worker(queues=["gpu"]):
            assert await run.result(timeout="30s") == "painted"


async def test_a_run_names_what_keeps_the_step_of_its_child_from_being_done(studio):
    run = await studio.start("gallery")
    async with studio.worker(queues=["default"]):
        await until(partial(names_the_queue, run))


async def names_the_queue(run) -> bool:
    return "serves queue gpu. Start one with" in str(await run.why())


async def test_of_many_children_that_nobody_can_take_one_is_named(studio):
    run = await studio.start("painters")
    async with studio.worker(queues=["default"]):
        await state_of(run, RunState.WAITING)
        (_, stuck) = (await run.why()).reasons
    assert "and at least 99 more like it, cannot move" in stuck.text


async def test_a_failed_run_says_with_what(app):
    run = await app.start(broken)
    with pytest.raises(RunFailed):
        await run.result(timeout="30s")
    assert "with ValueError: no card." in str(await run.why())


async def test_a_cancelled_run_says_by_whom(client):
    run = await client.start(say, "hello")
    await run.cancel(actor="ann", reason="a mistake")
    assert "cancelled by ann" in str(await run.why())


async def test_a_run_under_way_names_its_worker(database):
    begun, may_go = asyncio.Event(), asyncio.Event()

    @step
    async def gate() -> None:
        begun.set()
        await may_go.wait()

    @workflow
    async def gated() -> None:
        await gate()

    async with app_on(database, [gated], worker=False) as client, client.worker(label="web"):
        run = await client.start(gated)
        await begun.wait()
        assert "(web, host " in str(await run.why())
        may_go.set()


async def test_queues_count_what_is_open(client):
    runs = [await client.start(say, "hello", queue="gpu") for _ in range(3)]
    await runs[0].pause()
    queue = await client.queues.get("gpu")
    assert (queue.ready, queue.paused, queue.running) == (2, 1, 0)
    assert [found.queue for found in await client.queues.list()] == ["gpu"]


async def test_a_queue_without_open_runs_is_empty(client):
    assert sum((await client.queues.get("idle"))[1:-1]) == 0


async def test_a_worker_is_found_by_its_id_and_by_its_label(client):
    async with client.worker(label="web") as worker:
        assert (await client.workers.get("web")).worker_id == worker.worker_id
        assert (await client.workers.get(worker.worker_id)).label == "web"


async def test_of_two_workers_with_a_label_the_live_one_is_meant(client):
    async with client.worker(label="web"):
        pass
    async with client.worker(label="web") as worker:
        assert (await client.workers.get("web")).worker_id == worker.worker_id


async def test_a_worker_that_does_not_exist_is_not_found(client):
    with pytest.raises(NotFound, match="'nobody'"):
        await client.workers.get("nobody")


async def test_a_sound_store_has_no_findings(app):
    await (await app.start(say, "hello")).result(timeout="30s")
    run = await app.start(patient)
    await state_of(run, RunState.WAITING)
    assert await app.findings() == []
