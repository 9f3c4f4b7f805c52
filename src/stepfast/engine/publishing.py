"""Publishing: a sink gets the events of the trail, each at least once, those of a run in order."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter

from stepfast.engine.offering import Offering
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Clock, Store
from stepfast.kernel.sinks import (
    Backoff,
    HeldBack,
    Sink,
    SinkLetter,
    SinkStep,
    TakenSink,
    after_outage,
    hold_back,
    hold_on,
)
from stepfast.kernel.trail import Doubt

PAGE = 500
LEASE_MS = 60_000
# So long a publisher goes by what it knows; then it renews its lease, and asks whether letters are to be replayed.
LOOK_MS = 5_000
# A sink that holds back more runs than this is as good as away: it goes on when some of them are through.
MAX_HELD = 1_000
HELD_AT_ONCE = 20


class Publisher:
    """Delivers to one sink while it has the lease; any number of processes may try, and one of them does."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sink: Sink,
        me: str,
        backoff: Backoff,
        from_start: bool = False,
        page: int = PAGE,
    ) -> None:
        self._store = store
        self._clock = clock
        self._sink = sink
        self._offering = Offering(sink)
        self._me = me
        self._backoff = backoff
        self._from_start = from_start
        self._page = page
        self._taken: TakenSink | None = None
        self._look_at = Instant(0)
        self._held: dict[RunId, HeldBack] = {}
        self._knows_all_held = False
        self._doubt: Doubt | None = None
        self.has_more = False
        """Whether the last pass left something that could be delivered at once."""

    async def make_pass(self) -> int:
        """Deliver what can be delivered now; how many events that were."""
        self.has_more = False
        taken = await self._hold()
        if taken is None or taken.due_at > self._clock.now():
            return 0
        if not self._knows_all_held:
            await self._read_held()
        delivered, is_away = await self._go_on(taken)
        if is_away or self._taken is None:
            return delivered
        delivered += await self._try_held(self._taken)
        return delivered + (await self._replay(self._taken) if taken.replays else 0)

    async def close(self) -> None:
        """Leave the sink to others."""
        taken, self._taken = self._taken, None
        with suppress(Exception):
            await self._offering.close()
        if taken is not None:
            await self._store.release_sink(taken)

    async def _hold(self) -> TakenSink | None:
        """The sink, if it is this publisher's; whoever has it is asked now and then only."""
        now = self._clock.now()
        if now < self._look_at:
            return self._taken
        before, taken = self._taken, await self._store.take_sink(self._sink.name, self._me, LEASE_MS, self._from_start)
        if taken is None or before is None or before.token != taken.token:
            # What another publisher was in doubt about, and whom it holds back, is not known here.
            self._doubt, self._knows_all_held = None, False
        self._taken, self._look_at = taken, Instant(now + LOOK_MS)
        return taken

    async def _read_held(self) -> None:
        """Nobody but the publisher changes what is held, so it is read when the sink changes hands."""
        assert self._taken is not None
        held = await self._store.held_back(self._taken.name, MAX_HELD + 1)
        self._held = {each.run_id: each for each in held}
        self._knows_all_held = len(held) <= MAX_HELD

    async def _go_on(self, taken: TakenSink) -> tuple[int, bool]:
        """Deliver what is new, but for runs that wait; how much was taken, and whether the sink is away."""
        if len(self._held) > MAX_HELD:
            return 0, False
        page = await self._store.trail(taken.cursor, self._page, self._doubt)
        self._doubt = page.doubt
        wanted = [event for event in page.events if event.run_id not in self._held and self._sink.wants(event)]
        offered, now = await self._offering.offer(wanted), self._clock.now()
        if offered.is_away:
            await self._save(taken, after_outage(taken, offered.refused[0], now, self._backoff))
        elif page.reached > taken.cursor:
            await self._save(taken, SinkStep(page.reached, held=hold_back(offered.refused, now, self._backoff)))
            self.has_more = len(page.events) == self._page
        return offered.taken, offered.is_away

    async def _try_held(self, taken: TakenSink) -> int:
        """Try runs again that wait and are due, each from the event that was not taken."""
        now = self._clock.now()
        due = sorted((each for each in self._held.values() if each.due_at <= now), key=attrgetter("due_at", "run_id"))
        return sum([await self._try_run(taken, each) for each in due[:HELD_AT_ONCE]])

    async def _try_run(self, taken: TakenSink, held: HeldBack) -> int:
        events = await self._store.events_between(held.run_id, held.seq, taken.cursor, self._page)
        offered = await self._offering.offer_in_order([event for event in events if self._sink.wants(event)])
        now = self._clock.now()
        if offered.refused:
            after = hold_on(held, offered.refused[0], now, self._backoff)
            if isinstance(after, SinkLetter):
                on = HeldBack(held.run_id, after.seq + 1, 0, now, after.error)
                await self._save(taken, SinkStep(taken.cursor, held=(on,), letters=(after,)))
            else:
                await self._save(taken, SinkStep(taken.cursor, held=(after,)))
        elif len(events) == self._page:
            on = HeldBack(held.run_id, events[-1].seq + 1, 0, now, held.error)
            await self._save(taken, SinkStep(taken.cursor, held=(on,)))
        else:
            await self._save(taken, SinkStep(taken.cursor, freed=(held.run_id,)))
        return offered.taken

    async def _replay(self, taken: TakenSink) -> int:
        """Deliver dead letters that somebody has asked for."""
        resolved, again = list[int](), list[SinkLetter]()
        for letter, event in await self._store.due_letters(taken.name, HELD_AT_ONCE):
            error = await self._offering.refusal([event])
            if error is None:
                resolved.append(letter.position)
            else:
                again.append(letter._replace(tries=letter.tries + 1, error=error))
        if resolved or again:
            await self._save(taken, SinkStep(taken.cursor, letters=tuple(again), resolved=tuple(resolved)))
        return len(resolved)

    async def _save(self, taken: TakenSink, step: SinkStep) -> None:
        if not await self._store.advance_sink(taken, step, LEASE_MS):
            # Another publisher has it: what was delivered here comes once more there.
            self._taken, self._look_at = None, Instant(0)
            return
        self._taken = taken._replace(cursor=step.cursor, tries=step.tries, due_at=step.due_at)
        self._held.update((each.run_id, each) for each in step.held)
        for run_id in step.freed:
            self._held.pop(run_id, None)
