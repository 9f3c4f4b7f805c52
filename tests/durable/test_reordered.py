"""Tasks and items of `gather` in another order than that of the run's records."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import RunState, receive, step, workflow
from stepfast.testing import engine
from tests.support.apps import Bodies

BODIES = Bodies()


@pytest.fixture(autouse=True)
def start_afresh():
    BODIES.clear()


@step
async def price(number: int) -> str:
    BODIES.ran(f"price {number}")
    return f"price {number}"


@step
async def weigh(number: int) -> str:
    BODIES.ran(f"weigh {number}")
    return f"weigh {number}"


def gathering(*calls):
    """A workflow that makes the calls side by side, and then waits."""

    @workflow(name="gathering")
    async def gathering() -> list[str]:
        done = await asyncio.gather(*(function(number) for function, number in calls))
        await receive("go")
        return done

    return gathering


async def went_on(database, before, after):
    """What became of a run that began with some calls and went on with others."""
    async with engine(database=database, workflows=[gathering(*before)]) as first:
        run_id = (await first.start("gathering")).id
        await first.run_until_idle()
    async with engine(database=database, workflows=[gathering(*after)]) as second:
        await second.signal(run_id, "go")
        await second.run_until_idle()
        return await second.info(run_id)


@pytest.mark.parametrize(
    "after",
    [
        [(weigh, 1), (price, 1)],
        [(weigh, 0), (price, 1), (weigh, 1)],
        [(price, 1), (weigh, 1), (weigh, 2)],
    ],
    ids=["other order", "new one first", "new one last"],
)
async def test_calls_that_have_changed_branches_are_answered_by_their_records(database, after):
    info = await went_on(database, [(price, 1), (weigh, 1)], after)
    assert info.state is RunState.COMPLETED
    assert all(BODIES[f"{function.__name__} {number}"] == 1 for function, number in after)


@pytest.mark.parametrize(
    "after",
    [[(price, 2), (price, 1)], [(price, 0), (price, 1), (price, 2)], [(price, 0), (price, 2)]],
    ids=["other order", "new one first", "another"],
)
async def test_a_branch_that_has_a_record_with_other_arguments_waits_for_code(database, after):
    info = await went_on(database, [(price, 1), (price, 2)], after)
    assert info.state is RunState.WAITING
    assert not BODIES["price 0"]
