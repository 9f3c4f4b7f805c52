"""How many runs are under way is counted from leases: whoever dies, whatever is lost, the number is right."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Cancel, Pause
from stepfast.kernel.ids import WorkerId
from stepfast.stores.postgres import reading as postgres_reading
from stepfast.stores.sqlite import reading as sqlite_reading
from stepfast.stores.statements import shared_statements, unprefixed
from tests.stores.harness import Harness, end, fail, hand_back, park, wait

FROM_LEASES = "count(*) filter (where state = 'leased')"
# A number that claims raise and ends lower, as a counter would be kept: nobody lowers it for who died.
FROM_A_LEDGER = """(select count(*) filter (where e.type = 'claimed')
             - count(*) filter (where e.type in ('handed_back', 'waiting', 'completed', 'failed', 'cancelled'))
          from stepfast.event e)"""


@pytest.fixture
def counted_by_a_ledger(monkeypatch):
    """Both stores with a count that is kept beside the leases."""
    text = shared_statements()["list_queues"]
    assert FROM_LEASES in text
    changed = text.replace(FROM_LEASES, FROM_A_LEDGER)
    monkeypatch.setitem(shared_statements(), "list_queues", changed)
    monkeypatch.setitem(sqlite_reading.SQL, "list_queues", unprefixed(changed))
    postgres_reading._statement.cache_clear()
    yield
    postgres_reading._statement.cache_clear()


async def is_right(harness: Harness) -> bool:
    """Whether the count is what the workers that live hold by the store's account."""
    (queue,) = await harness.store.queues()
    beats = [await harness.store.beat(WorkerId(worker)) for worker in ("w1", "w2")]
    return queue.running == sum(len(beat.holdings) for beat in beats)


async def all_ways_to_let_go(harness: Harness) -> None:
    """Runs end, fail, wait, go back and are cancelled or paused, while others go on."""
    for worker in ("w1", "w2"):
        await harness.enrol(worker)
    await harness.start_many(12)
    ended, failed, parked, returned, cancelled, paused = (await harness.claim(room=8))[:6]
    await harness.claim(worker="w2", room=2)
    await harness.save(end(ended), fail(failed), park(parked, wait()), hand_back(returned))
    await harness.change(cancelled.run_id, Cancel())
    await harness.change(paused.run_id, Pause())


async def test_the_count_is_right_whatever_becomes_of_runs(harness):
    await all_ways_to_let_go(harness)
    assert await is_right(harness)


async def right_after_a_death(harness: Harness) -> bool:
    await all_ways_to_let_go(harness)
    await harness.advance(20_000)
    await harness.store.beat(WorkerId("w2"))
    await harness.bury("w1")
    await harness.claim(worker="w2", room=1, suspects=(1,))
    return await is_right(harness)


async def test_the_count_is_right_after_a_worker_has_died(harness):
    assert await right_after_a_death(harness)


@pytest.mark.usefixtures("counted_by_a_ledger")
async def test_the_broken_twin_that_keeps_a_counter_is_wrong_after_a_death(harness):
    assert not await right_after_a_death(harness)
