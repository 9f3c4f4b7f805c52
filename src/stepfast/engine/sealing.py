"""Sealing: what was written since the last seal gets one, and every seal is copied to a place outside."""

from __future__ import annotations

from stepfast.kernel.ports import Clock, Store
from stepfast.kernel.seals import FIRST, MAX_EVENTS, Seal, SealCopies, Signer, sealed
from stepfast.kernel.trail import Doubt
from stepfast.kernel.views import EventView

PAGE = 1_000
# Writers whose commit is awaited are done in milliseconds, unless they hang; then the next pass goes on with them.
PATIENCE = 20
PAUSE_MS = 10
COPIES_PER_PAGE = 100


class Sealer:
    """Seals the trail of a store; any number of processes may, and each seal is made by one of them."""

    def __init__(self, store: Store, clock: Clock, signer: Signer, copies: SealCopies | None) -> None:
        self._store = store
        self._clock = clock
        self._signer = signer
        self._copies = copies
        self._doubt: Doubt | None = None
        self._copied = FIRST - 1

    async def seal(self) -> int:
        """Seal all that can be sealed now; how many events that were."""
        total, last = 0, await self._store.last_seal()
        while True:
            events, reached = await self._gather(0 if last is None else last.body.upto)
            if not events:
                break
            made, leaves = sealed(last, events, reached, self._clock.now(), self._signer)
            if not await self._store.put_seal(made, leaves):
                # Another process was quicker: it has sealed the same.
                break
            total, last = total + len(events), made
        await self._copy_out(last)
        return total

    async def _gather(self, after: int) -> tuple[list[EventView], int]:
        events, reached, patience = list[EventView](), after, PATIENCE
        while len(events) < MAX_EVENTS and patience:
            page = await self._store.trail(reached, min(PAGE, MAX_EVENTS - len(events)), self._doubt)
            events += page.events
            self._doubt = page.doubt
            if page.doubt is not None:
                patience -= 1
                await self._clock.sleep(PAUSE_MS)
            elif page.reached == reached:
                break
            reached = page.reached
        return events, reached

    async def _copy_out(self, last: Seal | None) -> None:
        """Copy what has no copy yet, also of seals whose maker died before it had copied them."""
        if self._copies is None or last is None or self._copied >= last.body.number:
            return
        reached = await self._copies.last_number()
        while reached < last.body.number:
            page = await self._store.seals(reached, COPIES_PER_PAGE)
            if not page:
                break
            await self._copies.keep(page)
            reached = page[-1].body.number
        self._copied = reached
