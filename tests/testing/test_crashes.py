"""A process that dies where the test wants it to: nothing more of it counts, and another takes over."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from stepfast import Invalid, sleep, step, workflow
from stepfast.kernel.ports import Store
from stepfast.testing import CrashPoint, crash_after, crash_points, engine
from stepfast.testing.crashes import MortalStore
from tests.support.apps import Bodies
from tests.support.turns import until_idle
from tests.support.workflows import say


def chain(bodies: Bodies):
    @step
    async def first() -> int:
        bodies.ran("first")
        return 1

    @step
    async def second(number: int) -> int:
        bodies.ran("second")
        return number + 1

    @workflow
    async def both() -> int:
        return await second(await first())

    return both


async def test_a_step_that_was_recorded_before_the_crash_does_not_run_again(database):
    bodies = Bodies()
    both = chain(bodies)
    async with crash_after("first", database=database, workflows=[both]) as opened:
        assert await opened.run(both) == 2
        assert opened.died == "after the record of step 'first' (save)"
    assert bodies == {"first": 1, "second": 1}


async def test_engines_that_die_one_after_the_other_may_share_a_database(database):
    for word in ("hello", "goodbye", "hello"):
        async with crash_after("echo", database=database, workflows=[say]) as opened:
            assert (await opened.run(say, word), opened.crashes) == (word, 1)


async def test_a_step_whose_record_was_never_sent_runs_again(database):
    bodies = Bodies()
    both = chain(bodies)
    async with engine(database=database, workflows=[both]) as opened:
        run = await opened.start(both)
        opened.crash_after(CrashPoint(4, answered=False))
        assert await opened.result(run) == 2
        assert opened.died == "before store call 4 (save)"
    assert bodies == {"first": 2, "second": 1}


async def test_after_a_crash_the_run_stays_leased_until_the_lease_is_over(database):
    async with crash_after("echo", database=database, workflows=[say], lease="5m") as opened:
        run = await opened.start(say, "held")
        begun = opened.clock.now()
        await opened.run_until_idle()
        assert opened.clock.now() - begun == 5 * 60_000 + 1
        assert [event.type for event in await opened.events(run)].count("reaped") == 1
        assert await run.result() == "held"


async def test_bodies_of_a_dead_process_do_not_go_on(database):
    bodies = Bodies()
    gate, second = asyncio.Event(), asyncio.Event()

    @step
    async def wait_for_the_gate() -> int:
        bodies.ran("begun")
        if bodies["begun"] == 2:
            second.set()
        await gate.wait()
        bodies.ran("ended")
        return bodies["begun"]

    @step
    async def other() -> None:
        bodies.ran("other")

    @workflow
    async def both() -> int:
        number, _ = await asyncio.gather(wait_for_the_gate(), other())
        return int(number)

    async with crash_after("other", database=database, workflows=[both]) as opened:
        run = await opened.start(both)
        driving = asyncio.create_task(opened.run_until_idle())
        await second.wait()
        gate.set()
        await driving
        assert await run.result() == 2
    assert bodies == {"begun": 2, "ended": 1, "other": 1}


async def test_a_start_whose_answer_was_lost_is_one_run(database):
    async with engine(database=database, workflows=[say]) as opened:
        opened.crash_after(1)
        run = await opened.start(say, "held")
        assert opened.died == "after store call 1 (start)"
        assert await opened.result(run) == "held"
        assert len(await opened.app.runs()) == 1


async def test_a_crash_that_never_came_is_an_error():
    with pytest.raises(AssertionError, match="after the record of step 'nobody' never came"):
        async with crash_after("nobody", workflows=[say]) as opened:
            await opened.run(say, "held")


@pytest.mark.parametrize("point", [None, True, 0, -1, "", 1.5])
async def test_what_is_no_point_to_crash_at_is_refused_at_once(point):
    with pytest.raises(Invalid, match="is no point to crash at"):
        crash_after(point, workflows=[say])
    async with engine(workflows=[say]) as opened:
        with pytest.raises(Invalid, match="is no point to crash at"):
            opened.crash_after(point)


async def test_every_point_of_a_small_scenario_is_tried_and_ends_the_same():
    async def scenario(opened):
        return await opened.run(say, "held")

    tried = await crash_points(scenario, workflows=[say])
    assert tried.calls[:6] == ["definitions_after", "enrol", "start", "beat", "upkeep", "claim"]
    assert tried.points == [CrashPoint(n // 2 + 1, n % 2 == 1) for n in range(2 * len(tried.calls))]


@pytest.mark.parametrize("every", [0, -1, True, 1.5, "7", None])
async def test_a_step_from_point_to_point_that_leads_nowhere_is_refused(every):
    with pytest.raises(Invalid, match=r"every is .*; use a whole number between 1 and"):
        await crash_points(lambda opened: opened.run(say, "held"), workflows=[say], every=every)


async def test_a_scenario_that_ends_otherwise_after_a_crash_is_found_out():
    async def scenario(opened):
        await opened.run(say, "held")
        return opened.crashes

    with pytest.raises(AssertionError, match="A crash before store call 1 changed the result: 1 instead of 0"):
        await crash_points(scenario, workflows=[say])


async def test_an_assertion_that_fails_after_a_crash_says_where_the_process_died():
    async def scenario(opened):
        await opened.run(say, "held")
        assert not opened.crashes

    with pytest.raises(AssertionError) as caught:
        await crash_points(scenario, workflows=[say])
    assert caught.value.__notes__ == ["The process was let die before store call 1 (definitions_after)."]


async def test_a_crash_by_hand_lets_a_parked_run_be(database):
    @workflow
    async def nap() -> str:
        await sleep("1h")
        return "rested"

    async with engine(database=database, workflows=[nap]) as opened:
        run = await opened.start(nap)
        await opened.run_until_idle()
        await opened.crash()
        assert await opened.result(run) == "rested"
        assert [event.type for event in await opened.events(run)].count("reaped") == 0


class Slow:
    """A store that answers when it is let."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def change(self, requests):
        await self.may_answer.wait()
        return []


async def no_time() -> None:
    """It has no clock."""


async def test_the_next_process_begins_when_the_store_is_through_with_what_the_dead_one_had_sent():
    slow = Slow()
    mortal = MortalStore(cast(Store, slow), lambda store: store, no_time, None)
    changing = asyncio.ensure_future(mortal.change([]))
    await until_idle()
    mortal.die("now")
    changing.cancel()
    reviving = asyncio.create_task(mortal.revive())
    await until_idle()
    assert not reviving.done()
    slow.may_answer.set()
    await reviving
    assert mortal.died is None
