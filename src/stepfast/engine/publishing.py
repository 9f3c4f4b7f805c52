"""Publishing: a sink gets the events of the trail, each at least once, those of a run in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from stepfast.engine.offering import PROBES, Offered, Offering, told
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Clock, Store
from stepfast.kernel.sinks import (
    Backoff,
    HeldBack,
    Refusal,
    Sink,
    SinkLetter,
    SinkStep,
    TakenSink,
    after_outage,
    hold_back,
    hold_on,
    wait_out,
)
from stepfast.kernel.trail import Doubt
from stepfast.kernel.views import EventView

PAGE = 500
LEASE_MS = 60_000
# A single delivery is given up before this; whoever makes many of them renews the lease in between.
RENEW_MS = 20_000
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
        self._offering = Offering(sink, self._keep)
        self._me = me
        self._backoff = backoff
        self._from_start = from_start
        self._page = self._amount = page
        self._taken: TakenSink | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._look_at = Instant(0)
        self._renew_at = Instant(0)
        self._held: dict[RunId, HeldBack] = {}
        self._times_away: Counter[RunId] = Counter()
        self._knows_all_held = False
        self._doubt: Doubt | None = None
        self.has_more = False
        """Whether the last pass left something that could be delivered at once."""
        self.troubles: list[SinkStep] = []
        """What the last pass has stored of events that were not taken."""

    async def make_pass(self) -> int:
        """Deliver what can be delivered now; how many events that were."""
        self.has_more, self.troubles = False, []
        taken = await self._hold()
        if taken is None or not self._is_due(taken.due_at):
            return 0
        if not self._knows_all_held:
            await self._read_held()
        delivered, is_away = await self._go_on(taken)
        if is_away or self._taken is None:
            return delivered
        delivered += await self._try_held(self._taken)
        return delivered + await self._replay()

    async def settle(self) -> None:
        """Wait while something is stored: cancelled then, it would keep the sink unawares, or deliver a page twice."""
        await self._settled.wait()

    async def close(self) -> None:
        """Leave the sink to others."""
        taken, self._taken = self._taken, None
        await self._offering.close()
        if taken is not None:
            await self._store.release_sink(taken)

    async def _hold(self) -> TakenSink | None:
        """The sink, if it is this publisher's; whoever has it is asked now and then only."""
        now = self._clock.now()
        if self._look_at - LOOK_MS <= now < self._look_at:
            return self._taken
        before, taken = self._taken, await self._take()
        if taken is None or before is None or before.token != taken.token:
            # What another publisher was in doubt about, and whom it holds back, is not known here.
            self._doubt, self._knows_all_held = None, False
            self._times_away.clear()
        self._taken, self._look_at, self._renew_at = taken, Instant(now + LOOK_MS), Instant(now + RENEW_MS)
        return taken

    async def _take(self) -> TakenSink | None:
        self._settled.clear()
        try:
            return await self._store.take_sink(self._sink.name, self._me, LEASE_MS, self._from_start)
        finally:
            self._settled.set()

    async def _keep(self) -> bool:
        """Whether the sink is still this publisher's, whose deliveries may take longer than its lease."""
        taken, now = self._taken, self._clock.now()
        if taken is None or now < self._renew_at:
            return taken is not None
        self._renew_at = Instant(now + RENEW_MS)
        try:
            again = await self._take()
        except StepfastError:
            # Whether it could be kept is seen when something is stored.
            return True
        if again is None or again.token != taken.token:
            self._taken, self._look_at = None, Instant(0)
        return self._taken is not None

    def _is_due(self, at: Instant) -> bool:
        """Whether a moment has come; one that is further away than any pause is of a clock that was set back."""
        return not self._clock.now() < at <= self._clock.now() + self._backoff.cap_ms

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
        amount = self._amount_for(taken)
        page = await self._store.trail(taken.cursor, amount, self._doubt)
        self._doubt = page.doubt
        wanted, unclear = self._wanted(event for event in page.events if event.run_id not in self._held)
        offered = await self._offering.offer(wanted, taken.tries >= self._backoff.tries)
        now = self._clock.now()
        if offered.is_away:
            # Behind a part of a page there may be other runs, by which the sink could be told from the event.
            is_all = amount == self._page or len(page.events) < amount
            may_be_poison = offered.may_be_poison and is_all
            await self._save(taken, after_outage(taken, offered.refused[0], now, self._backoff, may_be_poison))
        elif page.reached > taken.cursor:
            stopped = {**unclear, **{each.event.run_id: each for each in offered.refused}}
            await self._save(taken, SinkStep(page.reached, held=hold_back(stopped.values(), now, self._backoff)))
            self.has_more = len(page.events) == amount
        self._adapt(offered)
        return offered.taken, offered.is_away

    def _amount_for(self, taken: TakenSink) -> int:
        """How much is offered at once; where it is long away, now and then all, to see whether others are taken."""
        over = taken.tries + 1 - self._backoff.tries
        return self._page if over >= 0 and over % 2 == 0 else self._amount

    def _adapt(self, offered: Offered) -> None:
        """Offer less at once to a sink for which it was too much: what is offered anew it may get twice.

        One that is away may have taken some of it, up to a limit of its own, and would do so again and again.
        """
        if offered.is_apart or offered.is_away:
            self._amount = max(self._amount // 2, 1)
        elif offered.taken:
            self._amount = min(self._amount * 2, self._page)

    def _wanted(self, events: Iterable[EventView]) -> tuple[list[EventView], dict[RunId, Refusal]]:
        """What the sink is to have, and of each run the event of which it cannot say so, with none behind it."""
        wanted, unclear = list[EventView](), dict[RunId, Refusal]()
        for event in events:
            if event.run_id in unclear:
                continue
            try:
                if self._sink.wants(event):
                    wanted.append(event)
            except Exception as error:  # noqa: BLE001 - other people's code
                unclear[event.run_id] = Refusal(event, told(error))
        return wanted, unclear

    async def _try_held(self, taken: TakenSink) -> int:
        """Try runs again that wait and are due, each from the event that was not taken."""
        waited = (each for each in self._held.values() if self._is_due(each.due_at))
        due, delivered, away = sorted(waited, key=attrgetter("due_at", "run_id")), 0, 0
        for each in due[:HELD_AT_ONCE]:
            # A sink that is away is asked by a few of them, and not by all.
            if self._taken is not None and away < PROBES:
                offered = await self._try_run(taken, each)
                delivered += offered.taken
                away = away + 1 if offered.is_away and not offered.taken else 0
        return delivered

    async def _try_run(self, taken: TakenSink, held: HeldBack) -> Offered:
        events = await self._store.events_between(held.run_id, held.seq, taken.cursor, self._page)
        wanted, unclear = self._wanted(events)
        offered = await self._offering.offer_in_order(wanted)
        if offered.taken or not offered.is_away:
            self._times_away.pop(held.run_id, None)
        now = self._clock.now()
        if refused := [*offered.refused, *unclear.values()]:
            after = self._after_refusal(held, refused[0], offered.is_away, now)
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
        return offered

    def _after_refusal(self, held: HeldBack, refused: Refusal, is_away: bool, now: Instant) -> SinkLetter | HeldBack:
        if not is_away:
            return hold_on(held, refused, now, self._backoff)
        self._times_away[held.run_id] += 1
        return wait_out(held, refused, now, self._backoff, self._times_away[held.run_id])

    async def _replay(self) -> int:
        """Deliver dead letters that somebody has asked for."""
        taken = self._taken
        if taken is None or not taken.replays:
            return 0
        resolved, again = list[int](), list[SinkLetter]()
        due = await self._store.due_letters(taken.name, HELD_AT_ONCE)
        # Those that are asked for from here on are seen with the next look.
        self._taken = taken = taken._replace(replays=len(due) == HELD_AT_ONCE)
        for letter, event in due:
            offered = await self._offering.offer_in_order([event])
            if not offered.refused:
                resolved.append(letter.position)
            elif offered.is_away:
                # What was asked for is done when it is back.
                break
            else:
                again.append(letter._replace(tries=letter.tries + 1, error=offered.refused[0].error))
        if resolved or again:
            await self._save(taken, SinkStep(taken.cursor, letters=tuple(again), resolved=tuple(resolved)))
        return len(resolved)

    async def _advance(self, taken: TakenSink, step: SinkStep) -> bool:
        self._settled.clear()
        try:
            return await self._store.advance_sink(taken, step, LEASE_MS)
        finally:
            self._settled.set()

    async def _save(self, taken: TakenSink, step: SinkStep) -> None:
        # Until there is an answer nobody knows whether it was stored: who gets none looks at what is there.
        look_at, self._look_at = self._look_at, Instant(0)
        knows_all, self._knows_all_held = self._knows_all_held, False
        if not await self._advance(taken, step):
            # Another publisher has it: what was delivered here comes once more there.
            self._taken = None
            return
        if step.error is not None or step.letters or any(each.tries for each in step.held):
            self.troubles.append(step)
        self._look_at, self._knows_all_held = look_at, knows_all
        self._taken = taken._replace(cursor=step.cursor, tries=step.tries, due_at=step.due_at)
        self._renew_at = Instant(self._clock.now() + RENEW_MS)
        self._held.update((each.run_id, each) for each in step.held)
        for run_id in step.freed:
            self._held.pop(run_id, None)
