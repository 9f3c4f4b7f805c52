"""The trail: events by position, and the seals over them."""

from __future__ import annotations

from stepfast.conformance.store.acts import NOON, decide, end, step
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.seals import Leaf, Seal, SealBody, leaves_of, root_of
from stepfast.kernel.trail import EventFilter
from stepfast.kernel.views import EventView


def seal_of(number: int, events: list[EventView]) -> tuple[Seal, list[Leaf]]:
    """A seal over events, signed by nobody."""
    leaves = leaves_of(events)
    upto = events[-1].position if events else 0
    body = SealBody(number, 0, upto, len(events), len(leaves), root_of(leaves).hex(), "", NOON)
    return Seal(body, "key", "signature"), leaves


@on_fresh_stores
class TrailSuite(StoreSuite):
    """Whoever reads the trail sees every event once, those of a run in order, and seals as they were put."""

    async def test_the_trail_has_every_event_by_position(self, harness: Harness) -> None:
        run = await harness.held(correlation_id="case-7")
        await harness.save(step(run))
        other = await harness.start()
        page = await harness.store.trail(0, 100)
        positions = [event.position for event in page.events]
        assert positions == sorted(set(positions))
        told = await harness.store.events(run.run_id, 0, 100) + await harness.store.events(other.run_id, 0, 100)
        assert sorted((event.run_id, event.seq) for event in page.events) == sorted((e.run_id, e.seq) for e in told)
        assert {event.correlation_id for event in page.events if event.run_id == run.run_id} == {"case-7"}

    async def test_the_trail_goes_on_where_the_page_before_ended(self, harness: Harness) -> None:
        await harness.start_many(5)
        first = await harness.store.trail(0, 2)
        rest = await harness.store.trail(first.reached, 100, first.doubt)
        assert [len(first.events), len(rest.events)] == [2, 3]
        assert first.events[-1].position <= first.reached < rest.events[0].position

    async def test_behind_the_last_event_there_is_nothing(self, harness: Harness) -> None:
        await harness.start()
        page = await harness.store.trail(0, 100)
        again = await harness.store.trail(page.reached, 100, page.doubt)
        assert (again.events, again.reached) == ([], page.reached)

    async def test_events_between_two_positions_are_read_again_as_they_stand(self, harness: Harness) -> None:
        await harness.start_many(4)
        events = (await harness.store.trail(0, 100)).events
        found = await harness.store.sealed_events(events[0].position, events[2].position, 100)
        assert found == events[1:3]

    async def test_events_are_found_by_what_they_tell_newest_first(self, harness: Harness) -> None:
        run = await harness.held(correlation_id="case-7")
        await harness.save(step(run))
        other = await harness.start(tenant="other")
        events = (await harness.store.trail(0, 100)).events[::-1]
        own = [event for event in events if event.run_id == run.run_id]
        find = harness.store.find_events
        assert await find(EventFilter()) == events
        assert await find(EventFilter(limit=2)) == events[:2]
        assert await find(EventFilter(before=events[1].position)) == events[2:]
        assert await find(EventFilter(run_id=run.run_id)) == own
        assert await find(EventFilter(tenant="acme")) == own
        assert await find(EventFilter(correlation_id="case-7")) == own
        assert [event.run_id for event in await find(EventFilter(correlation_id=other.run_id))] == [other.run_id]
        assert await find(EventFilter(types=("queued", "claimed"))) == [
            e for e in events if e.type in ("queued", "claimed")
        ]
        assert await find(EventFilter(types=("queue",))) == []
        assert await find(EventFilter(since=events[-1].at)) == events
        assert await find(EventFilter(until=events[-1].at)) == []

    async def test_a_type_is_found_whole_whatever_it_is_made_of(self, harness: Harness) -> None:
        run = await harness.held()
        types = ("order placed", "order", "placed", " placed", "order ", "order |placed", "order .placed", "|")
        await harness.save(decide(run, events=tuple(Event(each, NOON) for each in types)))
        for each in types:
            found = await harness.store.find_events(EventFilter(types=(each,)))
            assert [event.type for event in found] == [each]
        found = await harness.store.find_events(EventFilter(types=types))
        assert sorted(event.type for event in found) == sorted(types)

    @cases(
        where={
            "address": EventFilter(step="pay/charge#2"),
            "name": EventFilter(step_name="charge"),
            "actor": EventFilter(actor="ann"),
        }
    )
    async def test_an_event_is_found_by_its_step_or_who_did_it(self, harness: Harness, where: EventFilter) -> None:
        run = await harness.held()
        told = Event(EventType.STEP_COMPLETED, NOON, "pay/charge#2", 1, "ann")
        others = (told._replace(step="pay/recharge#2", actor="anna"), told._replace(step=None, actor=None))
        await harness.save(decide(run, events=(told, *others)))
        found = await harness.store.find_events(where)
        assert [(event.step, event.actor) for event in found] == [("pay/charge#2", "ann")]

    async def test_a_trail_without_events_has_none_to_find(self, harness: Harness) -> None:
        assert await harness.store.find_events(EventFilter()) == []

    async def test_what_stands_behind_a_position_is_counted(self, harness: Harness) -> None:
        await harness.start_many(4)
        events = (await harness.store.trail(0, 100)).events
        assert await harness.store.count_behind(events[1].position) == 2

    async def test_a_seal_is_put_once(self, harness: Harness) -> None:
        await harness.start()
        events = (await harness.store.trail(0, 100)).events
        seal, leaves = seal_of(1, events)
        other, _ = seal_of(1, [])
        assert await harness.store.put_seal(seal, leaves)
        assert not await harness.store.put_seal(other, [])
        assert (await harness.store.last_seal(), await harness.store.leaves(1)) == (seal, leaves)

    async def test_seals_are_read_in_order(self, harness: Harness) -> None:
        seals = [seal_of(number, [])[0] for number in (1, 2, 3)]
        for seal in seals:
            await harness.store.put_seal(seal, [])
        assert await harness.store.seals(1, 1) == seals[1:2]
        assert await harness.store.last_seal() == seals[2]

    async def test_a_trail_in_order_has_no_gaps(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run))
        events = (await harness.store.trail(0, 100)).events
        seal, leaves = seal_of(1, events)
        await harness.store.put_seal(seal, leaves)
        await harness.save(end(run))
        assert await harness.store.gaps(seal.body.upto, 100) == []
