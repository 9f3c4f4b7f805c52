"""Turns: a worker goes on with the tenants where those that left before it have ended."""

from __future__ import annotations

from stepfast.conformance.store.acts import HOUR_MS, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.exchange import Turns


@on_fresh_stores
class TurnsSuite(StoreSuite):
    """Tenants take turns also where no worker lives long enough to serve two of them."""

    async def test_the_first_worker_hears_of_no_turns(self, harness: Harness) -> None:
        assert await harness.turns("w1") == {}

    async def test_a_worker_begins_where_the_one_that_left_has_ended(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme")
        assert await harness.turns("w2") == {"default": "acme"}

    async def test_of_several_that_left_the_last_one_counts(self, harness: Harness) -> None:
        await harness.leave("w1", default="zeta")
        await harness.leave("w2", default="acme")
        assert await harness.turns("w3") == {"default": "acme"}

    async def test_one_that_has_served_nobody_changes_nothing(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme")
        await harness.leave("w2")
        await harness.store.retire(await harness.enrol("w3", crew="crew"))
        assert await harness.turns("w4") == {"default": "acme"}

    async def test_one_that_was_buried_changes_nothing(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme")
        await harness.enrol("w2", crew="crew")
        await harness.bury("w2")
        assert await harness.turns("w3") == {"default": "acme"}

    async def test_one_that_was_buried_and_leaves_all_the_same_is_heard(self, harness: Harness) -> None:
        worker_id = await harness.enrol("w1")
        await harness.bury("w1")
        await harness.store.retire(worker_id, Turns("crew", {"default": "acme"}))
        assert await harness.turns("w2") == {"default": "acme"}

    async def test_of_one_that_was_killed_what_it_held_tells(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme")
        await harness.advance(1)
        await harness.enrol("w2", crew="crew")
        await harness.start(tenant="zeta")
        await harness.claim(worker="w2")
        assert await harness.turns("w3") == {"default": "zeta"}

    async def test_what_others_hold_that_take_other_runs_tells_nothing(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme")
        await harness.advance(1)
        await harness.enrol("w2", crew="other")
        await harness.start(tenant="zeta")
        await harness.claim(worker="w2")
        assert await harness.turns("w3") == {"default": "acme"}

    async def test_each_queue_has_a_turn_of_its_own(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme")
        await harness.leave("w2", mail="zeta")
        assert await harness.turns("w3", queues=("default", "mail")) == {"default": "acme", "mail": "zeta"}

    async def test_a_worker_hears_of_its_own_queues_alone(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme", mail="zeta")
        assert await harness.turns("w2", queues=("mail", "other")) == {"mail": "zeta"}

    async def test_workers_that_take_other_runs_do_not_move_the_turn(self, harness: Harness) -> None:
        await harness.leave("w1", crew="red", default="acme")
        await harness.advance(HOUR_MS)
        await harness.leave("w2", crew="blue", default="zeta")
        assert await harness.turns("w3", crew="red") == {"default": "acme"}

    async def test_the_first_of_its_crew_goes_on_where_the_last_of_any_has_ended(self, harness: Harness) -> None:
        await harness.leave("w1", crew="red", default="acme")
        await harness.advance(HOUR_MS)
        await harness.leave("w2", crew="blue", default="zeta")
        assert await harness.turns("w3", crew="gold") == {"default": "zeta"}

    async def test_a_turn_outlives_the_row_of_its_worker(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme")
        await harness.advance(48 * HOUR_MS)
        await harness.enrol("w2", queues=("mail",))
        assert await harness.turns("w3") == {"default": "acme"}

    async def test_announcing_again_answers_the_same(self, harness: Harness) -> None:
        await harness.leave("w1", default="acme")
        assert await harness.turns("w2") == await harness.turns("w2", codes=("order@2",)) == {"default": "acme"}
        assert (await harness.store.beat(worker("w2"))).alive
