"""Sealing: what was written since the last seal gets one, and every seal is copied to a place outside."""

from __future__ import annotations

from collections.abc import Callable

from stepfast.kernel.errors import StepfastError, StoreUnusable
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

    def __init__(
        self,
        store: Store,
        clock: Clock,
        signer: Signer,
        copies: SealCopies | None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_over` says whether the time that a pass may take is over: what is left is for the next."""
        self._store = store
        self._clock = clock
        self._signer = signer
        self._copies = copies
        self._doubt: Doubt | None = None
        self._copied = FIRST - 1
        self._is_over = is_over

    async def seal(self) -> int:
        """Seal all that can be sealed now; how many events that were."""
        total, last = 0, await self._store.last_seal()
        problem = await self._copy_out(last)
        while True:
            events, reached = await self._gather(0 if last is None else last.body.upto)
            if not events:
                break
            made, leaves = sealed(last, events, reached, self._clock.now(), self._signer)
            if not await self._store.put_seal(made, leaves):
                # Another process was quicker: it has sealed the same.
                break
            total, last = total + len(events), made
            # Before the next one is made: of a trail that nobody touched only the last seal can be without its copy.
            problem = await self._copy_out(last)
            if self._is_over():
                break
        if problem is not None:
            raise problem
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

    async def _copy_out(self, last: Seal | None) -> StepfastError | None:
        """Copy what has no copy yet; where that does not work, sealing goes on, as seals without copies prove much."""
        try:
            if self._copies is not None and last is not None and self._copied < last.body.number:
                await self._copy_upto(self._copies, last)
        except StepfastError as problem:
            return problem
        return None

    async def _refuse_a_shorter_trail(self, kept: int) -> None:
        """Whoever copies a seal has stored it before: one that is not there now was taken away."""
        newest = await self._store.last_seal()
        if newest is None or newest.body.number < kept:
            has = "none" if newest is None else f"none behind {newest.body.number}"
            raise StoreUnusable(
                f"Seal {kept} is kept outside of the database, which has {has}: it was cut short, put back by an older "
                "backup, or is another one. Run `stepfast audit verify`."
            )

    async def _copy_upto(self, copies: SealCopies, last: Seal) -> None:
        """Copy seals up to the last, also those whose maker died before it had copied them."""
        reached = await copies.last_number()
        if reached > last.body.number:
            await self._refuse_a_shorter_trail(reached)
        if reached == last.body.number:
            # One of the same number may be another: then this trail was cut short and has grown again.
            await copies.keep([last])
        while reached < last.body.number:
            page = await self._store.seals(reached, COPIES_PER_PAGE)
            if not page:
                break
            await copies.keep(page)
            reached = page[-1].body.number
        self._copied = reached
