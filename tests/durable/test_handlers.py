"""Steps that handle a failure: a run that is retried does them again when it fails again, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import Retry, RunFailed, RunState, emit, receive, step, workflow
from stepfast.testing import engine, record, replay
from stepfast.workflows.functions import AnyWorkflow
from tests.support.apps import Bodies

BODIES = Bodies()
MENDED = Bodies()


@step(retry=Retry(attempts=1))
async def charge() -> str:
    BODIES.ran("charge")
    if not MENDED["charge"]:
        raise ConnectionError("the bank is closed")
    return "receipt"


@step(retry=Retry(attempts=1))
async def refund(times: int = 1) -> None:
    BODIES.ran("refund")


@step
async def reserve() -> str:
    BODIES.ran("reserve")
    return "reserved"


@step
async def release() -> None:
    BODIES.ran("release")


@step
async def report(receipts: list[str]) -> int:
    BODIES.ran(f"report {len(receipts)}")
    return len(receipts)


@workflow
async def in_except() -> str:
    try:
        return await charge()
    except ConnectionError:
        await refund()
        raise


@workflow
def in_except_of_def() -> str:
    try:
        return charge.sync()
    except ConnectionError:
        refund.sync()
        raise


@workflow
async def in_finally() -> str:
    await reserve()
    try:
        return await charge()
    finally:
        await release()


class Reservation:
    async def __aenter__(self) -> None:
        await reserve()

    async def __aexit__(self, *error: object) -> None:
        await release()


@workflow
async def in_async_with() -> str:
    async with Reservation():
        return await charge()


async def give_back() -> None:
    await asyncio.gather(refund(1), refund(2))


@workflow
async def in_tasks_of_a_handler() -> str:
    try:
        return await charge()
    except ConnectionError as error:
        await give_back()
        raise RuntimeError("no receipt") from error


@pytest.fixture(autouse=True)
def start_afresh():
    BODIES.clear()
    MENDED.clear()


async def failed_run(opened: Any, flow: AnyWorkflow) -> Any:
    run = await opened.start(flow)
    with pytest.raises(RunFailed):
        await opened.result(run)
    return run


HANDLED = {
    "except": (in_except, "refund", 1),
    "except in def": (in_except_of_def, "refund", 1),
    "finally": (in_finally, "release", 1),
    "async with": (in_async_with, "release", 1),
    "tasks of a handler": (in_tasks_of_a_handler, "refund", 2),
}


@pytest.mark.parametrize(("flow", "handler", "times"), HANDLED.values(), ids=HANDLED)
async def test_a_retry_that_fails_again_handles_the_failure_again(database, flow, handler, times):
    async with engine(database=database, workflows=[flow]) as opened:
        run = await failed_run(opened, flow)
        await run.retry()
        with pytest.raises(RunFailed):
            await opened.result(run)
        assert (await replay(flow, await record(run))).is_good
    assert (BODIES["charge"], BODIES[handler]) == (2, 2 * times)


@pytest.mark.parametrize(("flow", "handler"), [(in_except, "refund"), (in_except_of_def, "refund")])
async def test_a_retry_that_goes_well_has_nothing_to_handle(database, flow, handler):
    async with engine(database=database, workflows=[flow]) as opened:
        run = await failed_run(opened, flow)
        MENDED.ran("charge")
        await run.retry()
        assert await opened.result(run) == "receipt"
        assert (await replay(flow, await record(run))).is_good
    assert (BODIES["charge"], BODIES[handler]) == (2, 1)


@pytest.mark.parametrize("flow", [in_finally, in_async_with])
async def test_what_comes_finally_is_done_by_each_try_and_what_came_before_is_kept(database, flow):
    async with engine(database=database, workflows=[flow]) as opened:
        run = await failed_run(opened, flow)
        MENDED.ran("charge")
        await run.retry()
        assert await opened.result(run) == "receipt"
        assert (await replay(flow, await record(run))).is_good
    assert BODIES == {"reserve": 1, "charge": 2, "release": 2}


@pytest.mark.parametrize(("flow", "handler", "times"), HANDLED.values(), ids=HANDLED)
async def test_a_retry_from_the_failed_step_on_does_all_that_came_after_it_again(database, flow, handler, times):
    async with engine(database=database, workflows=[flow]) as opened:
        run = await failed_run(opened, flow)
        await run.retry(step="charge")
        with pytest.raises(RunFailed):
            await opened.result(run)
    assert (BODIES["charge"], BODIES[handler]) == (2, 2 * times)


async def test_a_workflows_own_retry_handles_each_failure(database):
    @workflow(retry=Retry(attempts=3, base="1m"))
    async def flow() -> str:
        try:
            return await charge()
        except ConnectionError:
            await refund()
            raise

    async with engine(database=database, workflows=[flow]) as opened:
        await failed_run(opened, flow)
    assert BODIES == {"charge": 3, "refund": 3}


async def test_a_handler_of_a_failure_that_the_code_went_on_from_is_not_done_again(database):
    @workflow
    async def flow() -> str:
        try:
            await charge()
        except ConnectionError:
            await refund()
        await emit("order.refunded")
        if not MENDED["later"]:
            raise ValueError("something else")
        return "done"

    async with engine(database=database, workflows=[flow]) as opened:
        run = await failed_run(opened, flow)
        MENDED.ran("later")
        await run.retry()
        assert await opened.result(run) == "done"
    assert BODIES == {"charge": 1, "refund": 1}


async def test_the_handler_of_a_handler_is_done_again_with_it(database):
    @step(retry=Retry(attempts=1))
    async def call_the_bank() -> None:
        BODIES.ran("call")
        raise TimeoutError("nobody there")

    @workflow
    async def flow() -> str:
        try:
            return await charge()
        except ConnectionError as error:
            try:
                await call_the_bank()
            except TimeoutError:
                await refund()
            raise error

    async with engine(database=database, workflows=[flow]) as opened:
        run = await failed_run(opened, flow)
        await run.retry()
        with pytest.raises(RunFailed):
            await opened.result(run)
    assert BODIES == {"charge": 2, "call": 2, "refund": 2}


async def test_a_handler_that_waits_for_a_person_waits_again(database):
    @workflow
    async def flow() -> str:
        try:
            return await charge()
        except ConnectionError:
            await receive("looked at")
            raise

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.signal(run, "looked at")
        with pytest.raises(RunFailed):
            await opened.result(run)
        await run.retry()
        await opened.run_until_idle()
        assert (await run.info()).state is RunState.WAITING


async def test_a_step_that_was_given_what_the_failure_left_is_done_with_what_the_success_gives(database):
    @workflow
    async def flow() -> int:
        receipts: list[str] = []
        error: Exception | None = None
        try:
            receipts.append(await charge())
        except ConnectionError as caught:
            error = caught
        number = await report(receipts)
        if error is not None:
            raise error
        return number

    async with engine(database=database, workflows=[flow]) as opened:
        run = await failed_run(opened, flow)
        MENDED.ran("charge")
        await run.retry()
        assert await opened.result(run) == 1
        assert (await replay(flow, await record(run))).is_good
    assert BODIES == {"charge": 2, "report 0": 1, "report 1": 1}


async def test_code_that_leaves_out_what_a_retried_run_has_done_does_not_fit_it(database):
    words = ["first"]

    @workflow
    async def flow() -> None:
        await charge()
        await report(words)
        await receive("go")

    async with engine(database=database, workflows=[flow]) as opened:
        run = await failed_run(opened, flow)
        MENDED.ran("charge")
        await run.retry()
        await opened.run_until_idle()
        words.append("second")
        await opened.signal(run, "go")
        await opened.run_until_idle()
        why = str(await run.why())
    assert "report#1 was recorded with other arguments" in why
    assert BODIES == {"charge": 2, "report 1": 1}
