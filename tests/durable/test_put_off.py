"""A run that puts itself off for a while: what is over before that is noticed in time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import Later, RunFailed, StepTimeout, WaitTimeout, each, race, receive, sleep, step, timeout, workflow
from stepfast.kernel.views import EventView
from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.stay import Stay
from tests.support.apps import Bodies

BODIES = Bodies()
MINUTE_MS = 60_000


@step
async def ask_the_bank() -> str:
    BODIES.ran("ask_the_bank")
    raise Later("1h")


@step
async def ask_twice() -> str:
    BODIES.ran("ask_twice")
    if BODIES["ask_twice"] < 2:
        raise Later("1h")
    return "answered"


@workflow
async def within_a_limit() -> str:
    try:
        async with timeout("10m"):
            return await ask_the_bank()
    except WaitTimeout:
        return "late"


@workflow
def within_a_limit_of_def() -> str:
    try:
        with timeout("10m"):
            return ask_the_bank.sync()
    except WaitTimeout:
        return "late"


@workflow
async def against_time() -> str:
    name, _ = await race(answer=ask_the_bank(), late=sleep("10m"))
    return name


@workflow
async def beside_an_earlier_wait() -> str:
    waiting = asyncio.ensure_future(receive("word", timeout="10m"))
    await sleep("1m")
    name, _ = await race(answer=ask_the_bank(), word=waiting)
    return name


@workflow
async def of_many() -> str:
    try:
        async with timeout("10m"):
            await each(lambda _: ask_the_bank(), range(3))
    except WaitTimeout:
        return "late"
    return "answered"


ENDS = {
    within_a_limit: "late",
    within_a_limit_of_def: "late",
    against_time: "late",
    beside_an_earlier_wait: WaitTimeout,
    of_many: "late",
}


@pytest.mark.parametrize("flow", ENDS, ids=lambda flow: flow.workflow.name)
async def test_a_time_that_is_over_brings_a_run_back_that_was_put_off_for_longer(database, flow):
    assert await end_of(database, flow) == (ENDS[flow], 10 * MINUTE_MS)


async def test_twin_that_stays_away_notices_it_too_late(database, monkeypatch):
    monkeypatch.setattr(Stay, "rest_ms", lambda stay, delay_ms, now: delay_ms)
    assert await end_of(database, within_a_limit) == ("late", 60 * MINUTE_MS)


async def end_of(database: str, flow: Any) -> tuple[Any, int]:
    """What a run comes to, and how long that takes."""
    async with engine(database=database, workflows=[flow]) as opened:
        begun = opened.clock.now()
        try:
            result: Any = await opened.run(flow)
        except RunFailed as failure:
            result = type(failure.__cause__)
        return result, opened.clock.now() - begun


@step(total_timeout="90m")
async def ask_for_long() -> str:
    BODIES.ran("ask_for_long")
    raise Later("1h")


@workflow
async def with_a_limit_for_all_tries() -> str:
    return await ask_for_long()


async def test_a_step_is_not_put_off_beyond_its_total_timeout(database):
    BODIES.clear()
    assert await end_of(database, with_a_limit_for_all_tries) == (StepTimeout, 60 * MINUTE_MS)
    assert BODIES["ask_for_long"] == 2


@workflow
async def child() -> str:
    await sleep("5m")
    return "of age"


async def not_now(seconds: int = 0) -> str:
    await sleep("1m")
    BODIES.ran("not_now")
    if BODIES["not_now"] < 3:
        raise Later("10s")
    await sleep(seconds)
    return "now"


async def nap() -> str:
    await sleep("2m")
    return "rested"


@workflow
async def in_a_group() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(code) for code in (not_now(), nap(), child(), ask_twice())]
    return [task.result() for task in tasks]


@workflow
async def in_a_race_that_it_loses() -> list[str]:
    return list(await race(now=not_now(3_600), nap=nap()))


async def item(number: int) -> str:
    return await (nap, not_now, child)[number]()


@workflow
async def in_a_list() -> list[str]:
    return await each(item, range(3), at_once=2)


@workflow
async def in_a_list_that_settles() -> list[str | None]:
    return [outcome.value for outcome in await each(item, range(3), join="settled")]


@workflow
def in_a_list_of_def() -> list[str]:
    return each.sync(item, range(3))


LISTED = ["rested", "now", "of age"]
BESIDE = {
    in_a_group: ["now", "rested", "of age", "answered"],
    in_a_race_that_it_loses: ["nap", "rested"],
    in_a_list: LISTED,
    in_a_list_that_settles: LISTED,
    in_a_list_of_def: LISTED,
}


@pytest.mark.parametrize("flow", BESIDE, ids=lambda flow: flow.workflow.name)
async def test_what_is_beside_code_that_puts_its_run_off_goes_on_as_it_is(database, flow):
    BODIES.clear()
    async with engine(database=database, workflows=[flow, child]) as opened:
        run = await opened.start(flow)
        assert await opened.result(run) == BESIDE[flow]
        events = await run.history()
        assert [
            event.step for event in events if event.type == "step_cancelled" and event.at < last_return(events)
        ] == []


def last_return(events: list[EventView]) -> int:
    """When a run that was put off came back for the last time."""
    put_off = max(event.seq for event in events if event.type == "handed_back")
    return next(event.at for event in events if event.seq > put_off and event.type == "claimed")


async def work_and_tidy() -> str:
    try:
        await sleep("2m")
        await tell("work")
    finally:
        await tell("tidy")
    return "done"


async def impatient() -> str:
    await sleep("1m")
    be_impatient()
    return "patient"


@workflow
async def beside_a_finally_in_a_group() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(code) for code in (work_and_tidy(), impatient())]
    return [task.result() for task in tasks]


@workflow
async def beside_a_finally_in_the_block_of_a_group() -> list[str]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work_and_tidy())
        patient = await impatient()
    return [task.result(), patient]


@workflow
async def beside_a_finally_in_a_list() -> list[str]:
    return await each(lambda number: (work_and_tidy, impatient)[number](), range(2))


@workflow
async def beside_a_finally_in_gather() -> list[Any]:
    return [*await asyncio.gather(work_and_tidy(), impatient(), return_exceptions=True)]


@workflow
async def beside_a_finally_that_it_cancels() -> list[str]:
    task = asyncio.create_task(work_and_tidy())
    try:
        patient = await impatient()
    except Later:
        task.cancel()
        raise
    return [await task, patient]


FINALLY = [
    beside_a_finally_in_a_group,
    beside_a_finally_in_the_block_of_a_group,
    beside_a_finally_in_a_list,
    beside_a_finally_in_gather,
    beside_a_finally_that_it_cancels,
]


@pytest.mark.parametrize("flow", FINALLY, ids=lambda flow: flow.workflow.name)
async def test_a_finally_beside_code_that_puts_its_run_off_is_for_the_end_of_its_own_branch(database, flow):
    BODIES.clear()
    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        assert await opened.result(run) == ["done", "patient"]
        told = [event.step or "" for event in await run.history() if event.type == "step_completed"]
    assert [BODIES["work"], BODIES["tidy"]] == [1, 1]
    assert [address[-1] for address in told if "tell" in address] == ["1", "2"]


async def test_twin_that_hears_of_it_with_the_others_tidies_up_early(database, monkeypatch):
    monkeypatch.setattr(RunLoop, "_branch_ended", lambda loop, task: loop.tasks.discard(task))
    BODIES.clear()
    async with engine(database=database, workflows=[beside_a_finally_in_a_group]) as opened:
        await opened.start(beside_a_finally_in_a_group)
        while BODIES["impatient"] < 1:
            opened.clock.advance("1m")
            await opened.run_until_idle()
        assert BODIES["tidy"] == 1


async def test_code_beside_others_that_puts_its_run_off_may_die_anywhere():
    async def scenario(opened: Engine) -> Any:
        BODIES.clear()
        return await opened.run(in_a_group)

    tried = await crash_points(scenario, workflows=[in_a_group, child], every=5)
    assert len(tried.points) > 5


@step
async def tell(word: str) -> None:
    BODIES.ran(word)


def be_impatient() -> None:
    BODIES.ran("impatient")
    if BODIES["impatient"] < 3:
        raise Later("10s")


@workflow
async def with_a_step_in_finally() -> str:
    try:
        be_impatient()
        await tell("work")
    finally:
        await tell("tidy")
    return "done"


@workflow
def with_a_step_in_finally_of_def() -> str:
    try:
        be_impatient()
        tell.sync("work")
    finally:
        tell.sync("tidy")
    return "done"


@workflow
async def with_a_step_in_except() -> str:
    try:
        be_impatient()
        await tell("work")
    except Exception:
        await tell("tidy")
        raise
    await tell("tidy")
    return "done"


OUT = [with_a_step_in_finally, with_a_step_in_finally_of_def, with_a_step_in_except]


@pytest.mark.parametrize("flow", OUT, ids=lambda flow: flow.workflow.name)
async def test_code_that_puts_its_run_off_does_nothing_on_its_way_out(database, flow):
    BODIES.clear()
    async with engine(database=database, workflows=[flow]) as opened:
        assert await opened.run(flow) == "done"
    assert BODIES["work"] == BODIES["tidy"] == 1


AWAY: list[str] = []


@workflow
async def fitful() -> str:
    if AWAY:
        raise Later("1h")
    return await receive("go", str, timeout="10m")


async def test_a_time_that_the_code_does_not_come_to_brings_nothing_back(database):
    AWAY.clear()
    async with engine(database=database, workflows=[fitful]) as opened:
        run = await opened.start(fitful)
        await opened.run_until_idle()
        AWAY.append("the bank")
        await run.pause()
        await run.resume()
        for _ in range(15):
            await opened.run_until_idle()
            opened.clock.advance("1m")
        assert [event.type for event in await run.history()].count("handed_back") == 1


@workflow
async def beside_a_time_that_is_not_over() -> list[Any]:
    return list(await asyncio.gather(ask_twice(), sleep("3h"), sleep("1ms")))


async def test_a_run_that_was_put_off_comes_back_for_each_time_that_is_over_and_no_more(database):
    BODIES.clear()
    async with engine(database=database, workflows=[beside_a_time_that_is_not_over]) as opened:
        run = await opened.start(beside_a_time_that_is_not_over)
        assert (await opened.result(run))[0] == "answered"
        assert BODIES["ask_twice"] == 2
        handed_back = [event for event in await run.history() if event.type == "handed_back"]
        assert len(handed_back) == 1
