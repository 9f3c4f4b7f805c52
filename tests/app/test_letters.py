"""Dead letters: listed, looked at, replayed and discarded, one by one and many at once."""

from __future__ import annotations

import pytest

from stepfast import IllegalMove, NotFound, Retry, RunFailed, RunState, step, workflow
from tests.support.apps import app_on
from tests.support.workflows import say


class Shop:
    """A workflow that fails for as long as the shop is closed."""

    def __init__(self) -> None:
        self.is_open = False

        @step(retry=Retry(attempts=1))
        async def charge(order: int) -> int:
            if not self.is_open:
                raise ConnectionError("closed")
            return order

        @workflow
        async def checkout(order: int) -> int:
            return await charge(order)

        self.checkout = checkout


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
async def app(database, shop):
    async with app_on(database, [shop.checkout, say]) as app:
        yield app


@pytest.fixture
async def dead(app, shop):
    """Three runs that failed, the oldest first: each began when the one before had ended."""
    runs = []
    for order in range(3):
        runs.append(await app.start(shop.checkout, order, tenant=f"tenant-{order % 2}"))
        with pytest.raises(RunFailed):
            await runs[-1].result(timeout="30s")
    return runs


async def test_a_failed_run_is_a_dead_letter(app, dead):
    letter = await app.dead_letters.get(dead[0].id)
    assert (letter.workflow, letter.error_type, letter.message) == ("checkout", "builtins:ConnectionError", "closed")
    assert (letter.resolved_at, letter.resolution) == (None, None)


async def test_letters_are_listed_newest_first_and_by_page(app, dead):
    [newest] = await app.dead_letters.list(limit=1)
    rest = await app.dead_letters.list(cursor=newest.run_id)
    assert [letter.run_id for letter in (newest, *rest)] == [run.id for run in reversed(dead)]


@pytest.mark.parametrize(
    ("filters", "number"),
    [
        ({"workflow": "checkout"}, 3),
        ({"workflow": "other"}, 0),
        ({"error_type": "builtins:ConnectionError"}, 3),
        ({"error_type": "builtins:ValueError"}, 0),
        ({"tenant": "tenant-1"}, 1),
        ({"recorded_after": 2**50}, 0),
    ],
)
async def test_letters_are_found_by_filters(app, dead, filters, number):
    assert len(await app.dead_letters.list(**filters)) == number


async def test_a_run_that_is_no_dead_letter_is_not_found(app):
    run = await app.start(say, "hello")
    await run.result(timeout="30s")
    with pytest.raises(NotFound, match=run.id):
        await app.dead_letters.get(run.id)


async def test_a_replayed_letter_goes_on_and_leaves_the_list(app, dead, shop):
    shop.is_open = True
    await app.dead_letters.replay(dead[1].id, actor="ann")
    assert await dead[1].result(timeout="30s") == 1
    assert dead[1].id not in [letter.run_id for letter in await app.dead_letters.list()]
    letter = await app.dead_letters.get(dead[1].id)
    assert (letter.resolution, letter.actor) == ("replayed", "ann")


async def test_a_replayed_run_that_fails_again_is_a_new_letter(app, dead):
    await app.dead_letters.replay(dead[0].id)
    with pytest.raises(RunFailed):
        await dead[0].result(timeout="30s")
    letter = await app.dead_letters.get(dead[0].id)
    assert (letter.generation, letter.resolution) == (2, None)


async def test_a_discarded_letter_stays_failed_and_leaves_the_list(app, dead):
    changed = await app.dead_letters.discard(dead[0].id, reason="a test order")
    assert changed.state is RunState.FAILED
    assert len(await app.dead_letters.list()) == 2
    assert len(await app.dead_letters.list(resolved=True)) == 3


async def test_a_letter_is_discarded_once(app, dead):
    await app.dead_letters.discard(dead[0].id)
    with pytest.raises(IllegalMove, match="no open dead letter"):
        await app.dead_letters.discard(dead[0].id)


async def test_a_letter_of_another_tenant_is_not_found(app, dead):
    with pytest.raises(NotFound):
        await app.dead_letters.replay(dead[0].id, tenant="tenant-1")


async def test_all_that_fit_are_replayed(app, dead, shop):
    shop.is_open = True
    answer = await app.dead_letters.replay_many(workflow="checkout", tenant="tenant-0", actor="ann")
    assert (set(answer.changed), answer.refused, answer.cursor) == ({dead[0].id, dead[2].id}, (), None)
    assert [await dead[index].result(timeout="30s") for index in (0, 2)] == [0, 2]
    assert [letter.run_id for letter in await app.dead_letters.list()] == [dead[1].id]


async def test_a_dry_run_changes_nothing(app, dead):
    answer = await app.dead_letters.replay_many(dry_run=True)
    assert (answer.matched, len(answer.changed), len(await app.dead_letters.list())) == (3, 3, 3)


async def test_a_bulk_replay_goes_on_where_it_ended(app, dead, shop):
    shop.is_open = True
    first = await app.dead_letters.replay_many(limit=2)
    rest = await app.dead_letters.replay_many(cursor=first.cursor)
    assert [*first.changed, *rest.changed] == [run.id for run in reversed(dead)]


@pytest.mark.parametrize("wanted", [{}, {"error_type": "ConnectionError"}, {"group": "shape"}, {"group": "id"}])
async def test_a_bulk_replay_that_is_sent_again_with_its_key_is_answered_as_the_first_time(app, dead, shop, wanted):
    shop.is_open = True
    [group] = await app.dead_letters.groups()
    wanted = {"group": getattr(group, wanted["group"])} if "group" in wanted else wanted
    first = await app.dead_letters.replay_many(key="k", **wanted)
    for run in dead:
        await run.result(timeout="30s")
    assert await app.dead_letters.replay_many(key="k", **wanted) == first
    assert (len(first.changed), [(await run.info()).generation for run in dead]) == (3, [2, 2, 2])


async def test_a_run_that_died_again_is_in_the_answer_once(app, dead):
    first = await app.dead_letters.replay_many(key="k")
    for run in dead:
        with pytest.raises(RunFailed):
            await run.result(timeout="30s")
    assert await app.dead_letters.replay_many(key="k") == first


async def test_all_that_fit_are_discarded(app, dead):
    answer = await app.dead_letters.discard_many(error_type="builtins:ConnectionError")
    assert (len(answer.changed), await app.dead_letters.list()) == (3, [])
