"""A run that is tried again: what it has done is kept, whatever way the code takes from the mended step on."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Retry, RunFailed, WaitTimeout, step, timeout, workflow
from stepfast.testing import engine, record, replay
from stepfast.workflows.functions import AnyWorkflow
from tests.support.apps import Bodies

BODIES = Bodies()
MENDED = Bodies()


@step(retry=Retry(attempts=1))
async def parse(page: int) -> int:
    BODIES.ran(f"parse {page}")
    if page == 2 and not MENDED["parse"]:
        raise ValueError("page 2 is torn")
    return page


@step(retry=Retry(attempts=3, base="1h"))
async def ask(office: str) -> str:
    BODIES.ran(f"ask {office}")
    if office == "far":
        raise ConnectionError(f"{office} is away")
    return office


@step
async def apologise() -> None:
    BODIES.ran("apologise")


@workflow
async def parse_all() -> list[int]:
    """Goes on after a failure, and tells of all of them in the end."""
    pages: list[int] = []
    failed: list[Exception] = []
    for page in (1, 2, 3):
        try:
            pages.append(await parse(page))
        except ValueError as error:
            failed.append(error)
    if failed:
        raise ExceptionGroup("torn pages", failed)
    return pages


@workflow
async def parse_or_apologise() -> int:
    try:
        return await parse(2)
    except ValueError:
        await apologise()
        raise


@workflow
async def ask_then_parse() -> tuple[str, int]:
    try:
        async with timeout("1s"):
            await ask("far")
    except WaitTimeout:
        pass
    return await ask("near"), await parse(2)


@pytest.fixture(autouse=True)
def start_afresh():
    BODIES.clear()
    MENDED.clear()


async def mended(database: str, flow: AnyWorkflow) -> Any:
    """What a run returns when it is retried after its fault was mended; its records must still fit its code."""
    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        with pytest.raises(RunFailed):
            await opened.result(run)
        MENDED.ran("parse")
        await run.retry()
        result = await opened.result(run)
        assert (await replay(flow, await record(run))).is_good
    return result


async def test_a_retry_does_again_only_what_failed_of_a_loop_that_went_on(database):
    assert await mended(database, parse_all) == [1, 2, 3]
    assert BODIES == {"parse 1": 1, "parse 2": 2, "parse 3": 1}


async def test_a_retry_that_goes_well_need_not_come_by_the_steps_that_handled_the_failure(database):
    assert await mended(database, parse_or_apologise) == 2
    assert BODIES == {"parse 2": 2, "apologise": 1}


async def test_a_call_that_was_called_off_before_the_failure_is_called_off_again(database):
    assert await mended(database, ask_then_parse) == ("near", 2)
    assert BODIES == {"ask far": 1, "ask near": 1, "parse 2": 2}


async def test_a_workflows_own_retry_takes_another_way_too(database):
    @workflow(retry=Retry(attempts=2, base="1m"))
    async def flow() -> int:
        try:
            return await parse(2)
        except ValueError:
            await apologise()
            MENDED.ran("parse")
            raise

    async with engine(database=database, workflows=[flow]) as opened:
        assert await opened.run(flow) == 2
    assert BODIES == {"parse 2": 2, "apologise": 1}
