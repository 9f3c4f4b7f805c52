"""Commands that are judged and not carried out: `dry_run=True`."""

from __future__ import annotations

import pytest

from stepfast import IllegalMove, RunState, each, receive, workflow
from tests.support.apps import app_on
from tests.support.following import state_of
from tests.support.workflows import say


@workflow
async def patient(is_broken: bool = False) -> str:
    if is_broken:
        raise ValueError("broken")
    return await receive("go", str)


@workflow
async def pair() -> int:
    return len(await each(patient, [True, False], join="settled"))


@pytest.fixture
async def app(database):
    async with app_on(database, [pair, patient, say]) as app:
        yield app


@pytest.fixture
async def counted(app):
    """A child that has failed, while its parent waits for the other one."""
    parent = await app.start(pair)
    await state_of(parent, RunState.WAITING)
    children = [app.get(view.run_id) for view in await app.runs("patient")]
    (child,) = [each for each in children if (await each.read((await each.info()).input)) == '{"is_broken":true}']
    await state_of(child, RunState.FAILED)
    return child


@pytest.mark.parametrize("command", ["retry", "rerun"])
async def test_a_dry_run_is_refused_for_what_the_command_is_refused_for(counted, command):
    refusals = []
    for dry_run in (True, False):
        with pytest.raises(IllegalMove) as refused:
            await getattr(counted, command)(dry_run=dry_run)
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]


async def test_a_dry_run_for_many_says_which_would_be_refused(app, counted):
    for dry_run in (True, False):
        answer = await app.change_many("retry", {"state": "failed"}, dry_run=dry_run)
        assert (answer.changed, [refusal.run_id for refusal in answer.refused]) == ((), [counted.id])


async def test_whoever_waits_for_a_run_is_not_told_of_a_dry_run(app):
    run = await app.start(say, "hello")
    await run.result(timeout="30s")
    assert (await run.rerun(dry_run=True)).generation == 2
    assert await run.result(timeout="30s") == "hello"


@pytest.mark.parametrize("command", ["cancel", "pause"])
async def test_a_dry_run_says_what_would_be_and_leaves_the_run_as_it_is(app, command):
    run = await app.start(patient)
    await state_of(run, RunState.WAITING)
    before = await run.history()
    assert (await getattr(run, command)(dry_run=True)).state is RunState(
        {"cancel": "cancelled", "pause": "paused"}[command]
    )
    assert await run.history() == before


async def test_a_dry_run_of_a_dead_letter_leaves_it_open(app):
    run = await app.start(patient, is_broken=True)
    await state_of(run, RunState.FAILED)
    await app.dead_letters.replay(run.id, dry_run=True)
    await app.dead_letters.discard(run.id, dry_run=True)
    assert [letter.run_id for letter in await app.dead_letters.list()] == [run.id]
