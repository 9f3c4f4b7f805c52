"""One command for many runs."""

from __future__ import annotations

import pytest

from stepfast import Invalid, RunState, Start, bulk, workflow
from stepfast.kernel.errors import IllegalMove
from tests.support.apps import app_on
from tests.support.workflows import say


@workflow
async def other() -> None:
    return None


@pytest.fixture
async def client(database):
    async with app_on(database, [say, other], worker=False) as client:
        yield client


async def started(client, number):
    answers = await client.start_many([Start(say, "hello") for _ in range(number)])
    # Ids of one millisecond are in no order.
    return sorted((answer.run for answer in answers), key=lambda run: run.id)


async def states(runs):
    return [(await run.info()).state for run in runs]


async def test_all_runs_that_fit_are_changed(client):
    runs, stranger = await started(client, 3), await client.start(other)
    answer = await client.change_many("cancel", {"workflow": "say"}, reason="the end", actor="ann")
    assert (answer.matched, set(answer.changed), answer.refused) == (3, {run.id for run in runs}, ())
    assert await states([*runs, stranger]) == [RunState.CANCELLED] * 3 + [RunState.PENDING]
    assert (await runs[0].history())[-1].actor == "ann"


async def test_runs_whose_state_does_not_allow_it_are_skipped(client):
    runs = await started(client, 3)
    await runs[0].pause()
    answer = await client.change_many("pause", {})
    assert (answer.matched, len(answer.changed), answer.skipped, answer.refused) == (3, 2, 1, ())


async def test_a_dry_run_changes_nothing(client):
    runs = await started(client, 3)
    answer = await client.change_many("cancel", {}, dry_run=True)
    assert (answer.matched, len(answer.changed)) == (3, 3)
    assert await states(runs) == [RunState.PENDING] * 3


async def test_pages_follow_each_other_until_all_are_seen(client, monkeypatch):
    monkeypatch.setattr(bulk, "PAGE_RUNS", 2)
    runs = await started(client, 5)
    answers = [answer async for answer in client.change_pages("pause", {})]
    assert [len(answer.changed) for answer in answers] == [2, 2, 1]
    assert await states(runs) == [RunState.PAUSED] * 5


async def test_a_bulk_command_goes_on_where_it_ended(client):
    runs = await started(client, 5)
    first = await client.change_many("cancel", {}, limit=2)
    rest = await client.change_many("cancel", {}, cursor=first.cursor)
    assert [*first.changed, *rest.changed] == sorted((run.id for run in runs), reverse=True)
    assert rest.skipped == 0


async def test_a_page_that_is_full_and_the_last_has_no_cursor(client, monkeypatch):
    monkeypatch.setattr(bulk, "PAGE_RUNS", 2)
    await started(client, 4)
    assert [answer.cursor is None async for answer in client.change_pages("pause", {})] == [False, True]
    assert (await client.change_many("resume", {}, limit=4)).cursor is None


async def test_a_refusal_is_answered_for_its_run_alone(client, monkeypatch):
    runs = await started(client, 2)
    change = client._parts.store.change

    async def late(requests):
        # Somebody else is quicker with the first of them.
        await change([requests[0]])
        return await change(requests)

    monkeypatch.setattr(client._parts.store, "change", late)
    answer = await client.change_many("cancel", {})
    [refusal] = answer.refused
    assert (refusal.run_id, type(refusal.error)) == (runs[1].id, IllegalMove)
    assert answer.changed == (runs[0].id,)


async def test_a_key_makes_a_bulk_command_count_once_for_each_run(client):
    runs = await started(client, 2)
    await client.change_many("pause", {}, key="night")
    await client.change_many("resume", {}, key="morning")
    again = await client.change_many("pause", {}, key="night")
    assert (len(again.changed), await states(runs)) == (2, [RunState.PENDING] * 2)


@pytest.mark.parametrize("where", [{}, {"state": "pending"}, {"state": "pending", "version": 1}])
async def test_a_bulk_command_that_is_sent_again_with_its_key_is_answered_as_the_first_time(client, where):
    runs = await started(client, 3)
    await runs[1].pause()
    first = await client.change_many("cancel", where, key="k")
    again = await client.change_many("cancel", where, key="k")
    assert (again, len(again.changed)) == (first, 2 if "state" in where else 3)


async def test_pages_of_a_bulk_command_that_is_sent_again_are_those_of_the_first_time(client):
    await started(client, 5)
    where = {"state": "pending"}
    first = [answer async for answer in client.change_pages("cancel", where, limit=2, key="k")]
    assert [answer async for answer in client.change_pages("cancel", where, limit=2, key="k")] == first
    rest = await client.change_many("cancel", where, cursor=first[-1].cursor, key="k")
    whole = await client.change_many("cancel", where, key="k")
    assert whole.changed == (*first[0].changed, *rest.changed)


async def test_what_other_filters_ask_for_holds_also_for_a_command_that_is_sent_again(client):
    one = await client.start(say, "hello", tags=["a"])
    await client.change_many("cancel", {"tag": "a"}, key="k")
    assert (await client.change_many("cancel", {"tag": "b"}, key="k")).matched == 0
    assert (await client.change_many("cancel", {"tag": "a"}, key="k")).changed == (one.id,)


async def test_a_dry_run_of_a_bulk_command_looks_up_no_key(client):
    await started(client, 2)
    await client.change_many("cancel", {"state": "pending"}, key="k")
    assert (await client.change_many("cancel", {"state": "pending"}, key="k", dry_run=True)).matched == 0


@pytest.mark.parametrize(
    ("action", "where", "options"),
    [
        ("destroy", {}, {}),
        ("cancel", {"state": "asleep"}, {}),
        ("cancel", {}, {"version": 2}),
        ("retry", {}, {"version": 0}),
    ],
)
async def test_what_does_not_fit_is_refused(client, action, where, options):
    with pytest.raises(Invalid):
        await client.change_many(action, where, **options)
