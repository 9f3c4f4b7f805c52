"""Publishing: a sink gets the events of the trail, each at least once, those of a run in order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from stepfast.engine.offering import offer, offer_in_order, refusal
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
# A sink that holds back more runs than this is as good as away: it goes on when some of them are through.
MAX_HELD = 1_000
HELD_AT_ONCE = 20


class Publisher:
    """Delivers to one sink while it has the lease; any number of processes may try, and one of them does."""

    def __init__(
        self, store: Store, clock: Clock, sink: Sink, me: str, backoff: Backoff, from_start: bool = False
    ) -> None:
        self._store = store
        self._clock = clock
        self._sink = sink
        self._me = me
        self._backoff = backoff
        self._from_start = from_start
        self._taken: TakenSink | None = None
        self._doubt: Doubt | None = None

    async def make_pass(self) -> int:
        """Deliver what can be delivered now; how many events that were."""
        taken = await self._store.take_sink(self._sink.name, self._me, LEASE_MS, self._from_start)
        if taken is None or self._taken is None or self._taken.token != taken.token:
            # What another publisher was in doubt about is not known here.
            self._doubt = None
        self._taken = taken
        if taken is None or taken.due_at > self._clock.now():
            return 0
        held = await self._store.held_back(taken.name, MAX_HELD + 1)
        delivered, is_away = await self._go_on(taken, held)
        if is_away or self._taken is None:
            return delivered
        return delivered + await self._try_held(self._taken, held[:HELD_AT_ONCE]) + await self._replay(self._taken)

    async def close(self) -> None:
        """Leave the sink to others."""
        taken, self._taken = self._taken, None
        with suppress(Exception):
            await self._sink.close()
        if taken is not None:
            await self._store.release_sink(taken)

    async def _go_on(self, taken: TakenSink, held: Sequence[HeldBack]) -> tuple[int, bool]:
        """Deliver what is new, but for runs that wait; how much was taken, and whether the sink is away."""
        if len(held) > MAX_HELD:
            return 0, False
        waiting = {each.run_id for each in held}
        page = await self._store.trail(taken.cursor, PAGE, self._doubt)
        self._doubt = page.doubt
        wanted = [event for event in page.events if event.run_id not in waiting and self._sink.wants(event)]
        offered, now = await offer(self._sink, wanted), self._clock.now()
        if offered.is_away:
            await self._save(taken, after_outage(taken, offered.refused[0], now, self._backoff))
        elif page.reached > taken.cursor:
            await self._save(taken, SinkStep(page.reached, held=hold_back(offered.refused, now, self._backoff)))
        return offered.taken, offered.is_away

    async def _try_held(self, taken: TakenSink, first: Sequence[HeldBack]) -> int:
        """Try runs again that wait and are due, each from the event that was not taken."""
        now = self._clock.now()
        return sum([await self._try_run(taken, each) for each in first if each.due_at <= now])

    async def _try_run(self, taken: TakenSink, held: HeldBack) -> int:
        events = await self._store.events_between(held.run_id, held.seq, taken.cursor, PAGE)
        offered = await offer_in_order(self._sink, [event for event in events if self._sink.wants(event)])
        now = self._clock.now()
        if offered.refused:
            after = hold_on(held, offered.refused[0], now, self._backoff)
            if isinstance(after, SinkLetter):
                on = HeldBack(held.run_id, after.seq + 1, 0, now, after.error)
                await self._save(taken, SinkStep(taken.cursor, held=(on,), letters=(after,)))
            else:
                await self._save(taken, SinkStep(taken.cursor, held=(after,)))
        elif len(events) == PAGE:
            on = HeldBack(held.run_id, events[-1].seq + 1, 0, now, held.error)
            await self._save(taken, SinkStep(taken.cursor, held=(on,)))
        else:
            await self._save(taken, SinkStep(taken.cursor, freed=(held.run_id,)))
        return offered.taken

    async def _replay(self, taken: TakenSink) -> int:
        """Deliver dead letters that somebody has asked for."""
        resolved, again = list[int](), list[SinkLetter]()
        for letter, event in await self._store.due_letters(taken.name, HELD_AT_ONCE):
            error = await refusal(self._sink, [event])
            if error is None:
                resolved.append(letter.position)
            else:
                again.append(letter._replace(tries=letter.tries + 1, error=error))
        if resolved or again:
            await self._save(taken, SinkStep(taken.cursor, letters=tuple(again), resolved=tuple(resolved)))
        return len(resolved)

    async def _save(self, taken: TakenSink, step: SinkStep) -> None:
        if await self._store.advance_sink(taken, step, LEASE_MS):
            self._taken = taken._replace(cursor=step.cursor, tries=step.tries, due_at=step.due_at)
        else:
            # Another publisher has it: what was delivered here comes once more there.
            self._taken = None
