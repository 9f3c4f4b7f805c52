"""S0's internal job run: one given run, here and now, by a call and by a command. By HTTP it comes with the API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stepfast import IllegalMove, Invalid, NotFound, RunState, Stepfast
from tests.cli.invoking import OFFICE, Office
from tests.cli.office import WORKFLOWS, asking, checkout, failing

NOBODY = "01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22"


@pytest.fixture
async def client(database: str) -> AsyncIterator[Stepfast]:
    async with Stepfast(database, workflows=WORKFLOWS, worker=False) as app:
        yield app


@pytest.fixture
def office(database: str) -> Office:
    return Office(database)


async def test_a_run_is_executed_to_its_end(client):
    run = await client.start(checkout, "a", cents=250)
    assert await run.execute() is RunState.COMPLETED
    assert await run == "250 for a"


async def test_a_run_that_fails_is_failed_when_the_call_returns(client):
    assert await (await client.start(failing)).execute() is RunState.FAILED


async def test_a_run_is_executed_as_far_as_it_goes_without_what_it_waits_for(client):
    run = await client.start(asking, "acme")
    assert await run.execute() is RunState.WAITING
    await run.signal("approval", "yes")
    assert await run.execute() is RunState.COMPLETED
    assert await run == "yes of acme"


async def test_no_other_run_is_executed(client):
    other = await client.start(checkout, "first in line")
    await (await client.start(checkout, "a")).execute()
    assert (await other.info()).state is RunState.PENDING


async def test_a_run_that_has_ended_is_refused_and_stays_as_it_is(client):
    run = await client.start(checkout, "a")
    await run.execute()
    before = await run.history()
    with pytest.raises(IllegalMove, match="is completed") as refused:
        await run.execute()
    assert refused.value.code == "E-RUN-003"
    assert await run.history() == before


async def test_a_run_that_waits_is_refused_with_how_to_see_for_what(client):
    run = await client.start(asking)
    await run.execute()
    with pytest.raises(IllegalMove, match="stepfast runs why"):
        await run.execute()


async def test_a_run_whose_code_is_not_here_is_refused(client, database):
    run = await client.start(checkout, "a")
    async with Stepfast(database, workflows=[asking], worker=False) as other:
        with pytest.raises(Invalid, match="checkout@1"):
            await other.get(run.id).execute()
    assert (await run.info()).state is RunState.PENDING


async def test_a_run_that_is_not_there_is_not_found(client):
    with pytest.raises(NotFound) as refused:
        await client.get(NOBODY).execute()
    assert refused.value.code == "E-RUN-001"


async def test_a_run_of_another_tenant_is_not_found(client):
    run = await client.start(checkout, "a", tenant="acme")
    with pytest.raises(NotFound):
        await client.get(run.id, tenant="globex").execute()


async def test_the_command_executes_one_run(client, office):
    run, other = await client.start(checkout, "a"), await client.start(checkout, "b")
    done = await office("runs", "execute", run.id, "--app", OFFICE)
    assert done.code == 0
    assert [(await each.info()).state for each in (run, other)] == [RunState.COMPLETED, RunState.PENDING]


async def test_the_command_says_by_its_exit_code_that_the_state_does_not_allow_it(client, office):
    run = await client.start(checkout, "a")
    await run.execute()
    assert (await office("runs", "execute", run.id, "--app", OFFICE)).code == 4
