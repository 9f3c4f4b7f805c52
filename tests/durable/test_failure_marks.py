"""Failures know the call that they came from, so that a retry does only that again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import pytest

from stepfast import Retry, RunFailed, RunState, each, receive, step, workflow
from stepfast.kernel.views import LetterFilter
from stepfast.workflows import failures
from tests.support.apps import QUICK, Bodies, app_on
from tests.support.virtual_time import event_types, timed_app, until_recorded, until_state

ONCE = Retry(attempts=1)


class OrderFailed(Exception):
    pass


@dataclass
class Declined(Exception):
    reason: str


bodies = Bodies()


@pytest.fixture(autouse=True)
def no_bodies_yet():
    bodies.clear()


@step
async def prepare() -> str:
    bodies.ran("prepare")
    return "ready"


@step(retry=ONCE)
async def charge() -> str:
    bodies.ran("charge")
    if bodies["charge"] == 1:
        raise ConnectionError("the bank does not answer")
    return "charged"


@step(retry=ONCE)
async def ship() -> str:
    bodies.ran("ship")
    raise LookupError("no such address")


@workflow
async def plain() -> str:
    await prepare()
    return await charge()


@workflow
async def from_cause() -> str:
    await prepare()
    try:
        return await charge()
    except ConnectionError as error:
        raise OrderFailed("no order") from error


@workflow
async def in_context() -> str:
    await prepare()
    try:
        return await charge()
    except ConnectionError:
        raise OrderFailed("no order")  # noqa: B904 - met while handling the other


@workflow
async def in_group() -> str:
    await prepare()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(charge())
    return call.result()


@workflow
def in_thread() -> str:
    prepare.sync()
    return charge.sync()


ADDRESSES = {
    plain: "charge#1",
    from_cause: "charge#1",
    in_context: "charge#1",
    in_group: "1/charge#1",
    in_thread: "charge#1",
}


@pytest.mark.parametrize("flow", ADDRESSES, ids=lambda flow: flow.workflow.name)
async def test_a_run_that_is_retried_does_the_failed_call_again_and_no_other(database, flow):
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed):
            await run
        (letter,) = await app._open_parts().store.dead_letters(LetterFilter())
        assert letter.step == ADDRESSES[flow]
        await run.retry()
        assert await run == "charged"
        assert (await run.info()).generation == 2
    assert bodies == {"prepare": 1, "charge": 2}


async def test_a_failure_that_was_caught_is_not_what_ended_the_run(database):
    @workflow
    async def flow() -> str:
        try:
            await ship()
        except LookupError:
            return await charge()
        return ""

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="bank"):
            await run
        await run.retry()
        assert await run == "charged"
    assert bodies == {"ship": 1, "charge": 2}


async def test_every_failure_of_a_group_is_named(database):
    @workflow
    async def flow() -> list[str]:
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(fail_once(f"call{number}")) for number in range(3)]
        return [call.result() for call in calls]

    gate = asyncio.Event()

    @step(retry=ONCE)
    async def fail_once(name: str) -> str:
        bodies.ran(name)
        if bodies[name] > 1:
            return name
        if name == "call2":
            gate.set()
        await gate.wait()
        raise ConnectionError(name)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed):
            await run
        await run.retry()
        assert await run == ["call0", "call1", "call2"]


async def test_a_wait_that_the_failure_cut_off_begins_anew(database):
    @workflow
    async def flow() -> list[str]:
        return list(await asyncio.gather(charge_later(), receive("word", str)))

    async def charge_later() -> str:
        await receive("go")
        return await charge()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        await run.signal("go")
        with pytest.raises(RunFailed):
            await run
        await run.retry()
        await until_state(run, RunState.WAITING)
        await run.signal("word", "heard")
        assert await run == ["charged", "heard"]


async def test_the_mark_shows_nowhere_in_the_exception(database):
    seen: list[BaseException] = []

    @step(retry=ONCE)
    async def decline() -> None:
        raise Declined("limit")

    @workflow
    async def flow() -> None:
        try:
            await decline()
        except Declined as error:
            seen.append(error)

    async with app_on(database, [flow]) as app:
        await (await app.start(flow))
    (error,) = seen
    assert error == Declined("limit")
    assert (error.args, str(error), repr(error)) == (("limit",), str(Declined("limit")), repr(Declined("limit")))
    assert failures.describe(error).step == "decline#1"
    assert "__stepfast" not in json.dumps(failures.describe(error).state)
    assert failures.describe(failures.revive(failures.describe(error))).step is None


async def test_a_run_whose_policy_allows_it_is_tried_again_without_its_failures(database):
    @workflow(retry=Retry(attempts=2, base="1m", jitter=0))
    async def flow() -> str:
        await prepare()
        return await charge()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_recorded(run, 2)
        await until_state(run, RunState.PENDING)
        assert (await run.info()).worker_id is None
        await time.advance("59s")
        assert bodies["charge"] == 1
        await time.advance("1s")
        assert await time.result(run) == "charged"
        view, types = await run.info(), await event_types(run)
        steps = [(record.call.name, record.state, record.superseded_by) for record in await run.steps()]
    assert view.generation == 2
    assert bodies == {"prepare": 1, "charge": 2}
    assert steps == [("prepare", "completed", None), ("charge", "failed", 2), ("charge", "completed", None)]
    assert types.count("retry_scheduled") == 1
    assert not {"dlq_pending", "dlq_recorded", "failed"} & set(types)


async def test_a_run_is_tried_no_more_often_than_its_policy_says(database):
    @workflow(retry=Retry(attempts=3, base=0, jitter=0))
    async def flow() -> str:
        await prepare()
        return await ship()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="no such address"):
            await run
        types = await event_types(run)
    assert bodies == {"prepare": 1, "ship": 3}
    assert types.count("retry_scheduled") == 2
    assert types[-3:] == ["dlq_pending", "dlq_recorded", "failed"]


async def test_errors_that_the_policy_leaves_out_fail_the_run_at_once(database):
    @workflow(retry=Retry(attempts=3, base=0, never=(LookupError,)))
    async def flow() -> str:
        return await ship()

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed):
            await (await app.start(flow))
    assert bodies["ship"] == 1


async def test_a_child_is_tried_again_by_its_own_policy_and_its_parent_waits(database):
    @workflow(retry=Retry(attempts=2, base=0, jitter=0))
    async def child() -> str:
        return await charge()

    @workflow
    async def parent() -> str:
        return await child()

    async with app_on(database, [parent, child]) as app:
        assert await (await app.start(parent)) == "charged"
    assert bodies["charge"] == 2


async def test_a_failure_inside_a_child_is_no_call_of_the_parent(database):
    @workflow
    async def child() -> str:
        return await charge()

    @workflow
    async def parent() -> str:
        return await child()

    async with app_on(database, [parent, child]) as app:
        run = await app.start(parent)
        with pytest.raises(RunFailed):
            await run
        (letter,) = await app._open_parts().store.dead_letters(LetterFilter())
        assert letter.step == "child#1"
        await run.retry()
        assert await run == "charged"


async def test_a_run_that_is_tried_again_keeps_its_signals(database):
    @workflow(retry=Retry(attempts=2, base=0, jitter=0))
    async def flow() -> list[str]:
        charged = await charge()
        return [charged, await receive("word", str)]

    async with app_on(database, [flow], QUICK) as app, app_on(database, [flow], worker=False) as client:
        run = await client.start(flow)
        await run.signal("word", "kept")
        assert await app.get(run.id).result() == ["charged", "kept"]


async def test_each_names_the_item_that_failed(database):
    @workflow
    async def flow() -> list[str]:
        return await each(by_number, range(3))

    @step(retry=ONCE)
    async def by_number(number: int) -> str:
        bodies.ran(f"item{number}")
        if number == 1 and bodies["item1"] == 1:
            raise ConnectionError("item 1")
        return str(number)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed):
            await run
        await run.retry()
        assert await run == ["0", "1", "2"]
    assert bodies["item1"] == 2


@step(retry=ONCE)
async def decode() -> str:
    bodies.ran("decode")
    if bodies["decode"] == 1:
        raise ValueError("no text: a\0b")
    return "text"


@workflow
async def decoding() -> str:
    return await decode()


async def test_a_failure_that_speaks_of_bytes_is_told_as_it_is_and_done_again_by_a_retry(database):
    async with app_on(database, [decoding]) as app:
        run = await app.start(decoding)
        with pytest.raises(RunFailed, match="failed with ValueError: no text: a\ufffdb"):
            await run
        await run.retry()
        assert await run == "text"
