"""What the deploy check says of changed code is what becomes of the runs when a worker has it."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Retry, RunState, Stepfast, continue_as, race, receive, sleep, step, timeout, workflow
from stepfast.kernel.states import ENDED
from stepfast.testing import Verdict, engine
from tests.support.apps import app_on


@step
async def charge(cents: int) -> int:
    return cents + 1


@step(retry=Retry(attempts=2, base="1h"))
async def stumble(cents: int) -> int:
    raise ConnectionError("not yet")


async def paid(cents: int) -> str:
    await charge(cents)
    return await receive("paid", str)


def paid_in_a_thread(cents: int) -> str:
    charge.sync(cents)
    return str(receive("paid", str))


async def returning(cents: int) -> str:
    await charge(cents)
    return "unpaid"


def returning_in_a_thread(cents: int) -> str:
    charge.sync(cents)
    return "unpaid"


async def raising(cents: int) -> str:
    await charge(cents)
    raise ValueError("sold out")


async def beginning_anew(cents: int) -> str:
    if cents < 50:
        continue_as(50)
    return "unpaid"


async def beginning_anew_behind_a_step(cents: int) -> str:
    await charge(cents)
    if cents < 50:
        continue_as(50)
    return "unpaid"


async def paid_in_time(cents: int) -> str:
    await charge(cents)
    async with timeout("1h"):
        return await receive("paid", str)


async def paid_or_not(cents: int) -> str:
    await charge(cents)
    name, _ = await race(paid=receive("paid"), late=sleep("1h"))
    return name


async def stumbling(cents: int) -> str:
    await charge(cents)
    await stumble(cents)
    return await receive("paid", str)


async def without_the_charge(cents: int) -> str:
    return await receive("paid", str)


async def with_a_charge_of_another(cents: int) -> str:
    await charge(cents + 1)
    return await receive("paid", str)


async def told_of_otherwise(cents: int) -> str:
    await charge(cents)
    return await receive("settled", str)


GOES_ON = {
    "a return before the wait": (paid, returning),
    "the same in threads": (paid_in_a_thread, returning_in_a_thread),
    "an error before the wait": (paid, raising),
    "a continue_as before the wait": (paid, beginning_anew_behind_a_step),
    "no timeout": (paid_in_time, paid),
    "no race": (paid_or_not, paid),
    "no step that is tried again": (stumbling, returning),
}
STAYS = {
    "no step that had ended": (paid, without_the_charge),
    "other arguments": (paid, with_a_charge_of_another),
    "a continue_as before what had ended": (paid, beginning_anew),
}


async def checked_and_taken_up(database: str, before: Any, after: Any) -> tuple[Any, RunState]:
    """What the check says of a run of the one code, and what becomes of it with the other."""
    async with engine(database=database, workflows=[workflow(name="order")(before)]) as opened:
        run = await opened.start("order", 49)
        await opened.run_until_idle()
    changed = workflow(name="order")(after)
    async with app_on(database, [changed], worker=False) as app:
        report = await app.check()
    async with engine(database=database, workflows=[changed]) as opened:
        await opened.run_until_idle()
        if (await opened.app.get(run.id).info()).state not in ENDED:
            await opened.app.get(run.id).signal("paid", "49")
            # A run that is put off is looked at when its time has come.
            opened.clock.advance(7_200)
            await opened.run_until_idle()
        return report, (await opened.app.get(run.id).info()).state


@pytest.mark.parametrize(("before", "after"), GOES_ON.values(), ids=GOES_ON)
async def test_code_that_leaves_out_what_still_waits_passes_and_runs_end_with_it(database, before, after):
    report, state = await checked_and_taken_up(database, before, after)
    assert (report.verdicts, report.is_safe) == ({Verdict.DROPPED_WAIT: 1}, True)
    assert "without asking for it" in report.runs[0].fit.detail
    assert state in ENDED


@pytest.mark.parametrize(("before", "after"), STAYS.values(), ids=STAYS)
async def test_code_that_leaves_out_what_has_ended_does_not_pass_and_runs_wait_with_it(database, before, after):
    report, state = await checked_and_taken_up(database, before, after)
    assert (report.verdicts, report.is_safe) == ({Verdict.MISMATCH: 1}, False)
    assert state is RunState.WAITING


async def test_another_wait_in_place_of_one_is_told_as_added_and_what_it_replaces_may_be_left_out(database):
    report, state = await checked_and_taken_up(database, paid, told_of_otherwise)
    (checked,) = report.runs
    assert (checked.fit.verdict, report.is_safe, state) == (Verdict.ADDED_STEP, True, RunState.WAITING)
    assert "comes to receive:paid#1 after it, which still waits, or goes on without" in checked.fit.detail


async def test_a_check_of_code_that_drops_a_wait_writes_nothing(database):
    async with engine(database=database, workflows=[workflow(name="order")(paid)]) as opened:
        run = await opened.start("order", 49)
        await opened.run_until_idle()
    async with Stepfast(database, workflows=[workflow(name="order")(returning)], worker=False) as app:
        before = await app.get(run.id).history()
        await app.check()
        assert await app.get(run.id).history() == before
