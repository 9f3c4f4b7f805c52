"""Sinks: one publisher at a time, how far it has got, whom it holds back, and what was not taken."""

from __future__ import annotations

from stepfast.conformance.store.acts import step, told_by
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId, new_id
from stepfast.kernel.sinks import HeldBack, SinkLetter, SinkRemoval, SinkStep, TakenSink
from stepfast.kernel.views import EventView

LEASE_MS = 1_000


async def taken(harness: Harness, publisher: str = "p1", from_start: bool = True) -> TakenSink:
    """A sink that a publisher has."""
    found = await harness.store.take_sink("place", publisher, LEASE_MS, from_start)
    assert found is not None
    return found


def removal(harness: Harness) -> SinkRemoval:
    return SinkRemoval(RunId(new_id(Instant(harness.now), next(harness.counter))), "place", "ada", "sold")


def letter_for(event: EventView) -> SinkLetter:
    return SinkLetter(event.position, event.run_id, event.seq, event.tenant, event.type, 3, "bitter")


@on_fresh_stores
class SinksSuite(StoreSuite):
    """What a publisher stores is stored whole, and only while the sink is its own."""

    async def test_a_new_sink_gets_what_is_written_from_now_on(self, harness: Harness) -> None:
        await harness.start()
        sink = await taken(harness, from_start=False)
        other = await harness.start()
        page = await harness.store.trail(sink.cursor, 100)
        assert [event.run_id for event in page.events] == [other.run_id]

    async def test_a_new_sink_gets_all_there_is_if_it_is_to(self, harness: Harness) -> None:
        await harness.start()
        assert (await taken(harness)).cursor == 0

    async def test_nobody_takes_a_sink_that_another_has(self, harness: Harness) -> None:
        await taken(harness)
        assert await harness.store.take_sink("place", "p2", LEASE_MS, True) is None

    async def test_whoever_has_a_sink_keeps_its_token(self, harness: Harness) -> None:
        first = await taken(harness)
        await harness.advance(LEASE_MS - 1)
        assert (await taken(harness)).token == first.token

    async def test_a_lease_that_is_over_goes_to_another_with_a_higher_token(self, harness: Harness) -> None:
        first = await taken(harness)
        await harness.advance(LEASE_MS)
        assert (await taken(harness, "p2")).token > first.token

    async def test_a_sink_that_was_let_go_is_taken_at_once(self, harness: Harness) -> None:
        first = await taken(harness)
        await harness.store.release_sink(first)
        assert (await taken(harness, "p2")).token > first.token

    async def test_progress_is_stored_whole(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run))
        events = (await harness.store.trail(0, 100)).events
        sink = await taken(harness)
        held = HeldBack(run.run_id, 2, 1, Instant(harness.now + 5), "bitter")
        put = SinkStep(
            events[-1].position, 2, Instant(harness.now + 7), "away", (held,), letters=(letter_for(events[0]),)
        )
        assert await harness.store.advance_sink(sink, put, LEASE_MS)
        after = await taken(harness)
        assert (after.cursor, after.tries, after.due_at) == (events[-1].position, 2, harness.now + 7)
        assert await harness.store.held_back("place", 10) == [held]
        (letter,) = await harness.store.sink_letters("place", True, 0, 10)
        assert letter.letter == letter_for(events[0])
        (view,) = await harness.store.sinks()
        assert (view.name, view.held, view.letters, view.error, view.publisher) == ("place", 1, 1, "away", "p1")

    async def test_nothing_is_stored_for_a_publisher_that_has_lost_its_sink(self, harness: Harness) -> None:
        started = await harness.start()
        late = await taken(harness)
        await harness.advance(LEASE_MS)
        present = await taken(harness, "p2")
        held = HeldBack(started.run_id, 1, 1, Instant(0), "bitter")
        assert not await harness.store.advance_sink(late, SinkStep(99, held=(held,)), LEASE_MS)
        assert ((await taken(harness, "p2")).cursor, await harness.store.held_back("place", 10)) == (present.cursor, [])

    async def test_whoever_stores_progress_keeps_the_sink_for_longer(self, harness: Harness) -> None:
        sink = await taken(harness)
        await harness.advance(LEASE_MS - 1)
        await harness.store.advance_sink(sink, SinkStep(0), LEASE_MS)
        await harness.advance(LEASE_MS - 1)
        assert await harness.store.take_sink("place", "p2", LEASE_MS, True) is None

    async def test_a_run_that_is_freed_waits_no_more(self, harness: Harness) -> None:
        started, sink = await harness.start(), await taken(harness)
        held = HeldBack(started.run_id, 1, 1, Instant(0), "bitter")
        await harness.store.advance_sink(sink, SinkStep(1, held=(held,)), LEASE_MS)
        await harness.store.advance_sink(sink, SinkStep(1, freed=(started.run_id,)), LEASE_MS)
        assert await harness.store.held_back("place", 10) == []

    async def test_a_sink_is_forgotten_with_all_that_it_has_not_had(self, harness: Harness) -> None:
        started, sink, asked = await harness.start(), await taken(harness), removal(harness)
        (event,) = await harness.store.events(started.run_id, 0, 10)
        held = HeldBack(started.run_id, 1, 1, Instant(0), "bitter")
        put = SinkStep(event.position, held=(held,), letters=(letter_for(event),))
        await harness.store.advance_sink(sink, put, LEASE_MS)
        await harness.advance(LEASE_MS)
        assert await harness.store.remove_sink(asked) is None
        assert (await harness.store.sinks(), await harness.store.held_back("place", 10)) == ([], [])
        assert await harness.store.sink_letters("place", False, 0, 10) == []
        (told,) = await harness.store.events(asked.removal_id)
        assert (told.type, told.seq, told.tenant, told.actor) == (EventType.SINK_REMOVED, 1, "", "ada")
        facts = {"sink": "place", "cursor": event.position, "dead_letters": 1, "reason": "sold"}
        assert told_by(told) == facts

    async def test_a_sink_that_somebody_publishes_to_is_not_forgotten(self, harness: Harness) -> None:
        await taken(harness)
        before = await harness.contents()
        assert await harness.store.remove_sink(removal(harness)) == "p1"
        assert await harness.contents() == before

    async def test_a_sink_that_is_not_there_is_not_told_of(self, harness: Harness) -> None:
        assert await harness.store.remove_sink(removal(harness)) is None
        assert (await harness.store.trail(0, 10)).events == []

    async def test_a_publisher_of_a_sink_that_was_removed_moves_no_new_one_of_its_name(self, harness: Harness) -> None:
        late = await taken(harness)
        await harness.advance(LEASE_MS)
        await harness.store.remove_sink(removal(harness))
        await taken(harness, "p2")
        assert not await harness.store.advance_sink(late, SinkStep(99), LEASE_MS)

    async def test_events_of_a_run_are_read_from_a_number_on_up_to_a_position(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run))
        events = await harness.store.events(run.run_id, 0, 100)
        found = await harness.store.events_between(run.run_id, 2, events[-2].position, 100)
        assert [event.seq for event in found] == [event.seq for event in events[1:-1]]

    async def test_a_letter_is_due_when_somebody_asks_for_it_and_resolved_when_it_was_taken(
        self, harness: Harness
    ) -> None:
        started, sink = await harness.start(), await taken(harness)
        (event,) = await harness.store.events(started.run_id, 0, 10)
        letter = letter_for(event)
        await harness.store.advance_sink(sink, SinkStep(event.position, letters=(letter,)), LEASE_MS)
        assert (await harness.store.due_letters("place", 10), (await taken(harness)).replays) == ([], False)
        assert await harness.store.replay_letters("place", None, 10) == 1
        assert [due for due, _ in await harness.store.due_letters("place", 10)] == [letter]
        assert (await taken(harness)).replays
        await harness.store.advance_sink(sink, SinkStep(event.position, resolved=(event.position,)), LEASE_MS)
        assert await harness.store.due_letters("place", 10) == []
        assert await harness.store.sink_letters("place", True, 0, 10) == []
        (kept,) = await harness.store.sink_letters("place", False, 0, 10)
        assert kept.resolved_at == harness.now

    async def test_letters_are_replayed_at_chosen_positions_and_no_more_than_asked_for(self, harness: Harness) -> None:
        await harness.start_many(3)
        events = (await harness.store.trail(0, 10)).events
        sink = await taken(harness)
        letters = tuple(map(letter_for, events))
        await harness.store.advance_sink(sink, SinkStep(events[-1].position, letters=letters), LEASE_MS)
        assert await harness.store.replay_letters("place", [events[1].position], 10) == 1
        assert [due for due, _ in await harness.store.due_letters("place", 10)] == [letters[1]]
        assert await harness.store.replay_letters("place", None, 2) == 2
        await harness.store.advance_sink(sink, SinkStep(events[-1].position, resolved=(events[0].position,)), LEASE_MS)
        assert await harness.store.replay_letters("place", [event.position for event in events], 1) == 1
