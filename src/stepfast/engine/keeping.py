"""Decisions whose large values are on their way to the blob store, and those that must not overtake them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from stepfast.engine.swapping import has_large, size_of, slim
from stepfast.engine.values import Values
from stepfast.errands import begin_errand
from stepfast.kernel.decisions import Decision, HeldRun
from stepfast.kernel.errors import LeaseLost, StoreUnavailable
from stepfast.log import Log

log = Log("committer")

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
# Some ten seconds, after which a run says by its hand-back what it lacks, and makes room for others.
TRIES = 15
PATIENCE_S = 15.0
# How long a stop waits for values on their way before it leaves their runs to upkeep.
LAST_TRY_S = 5.0


class Kept(Protocol):
    """A decision of a run on its way into the store."""

    run: HeldRun
    decision: Decision
    size: int


K = TypeVar("K", bound=Kept)


class Keeper(Generic[K]):
    """One line for each run that has something large: its decisions stay in order, and no other run waits for it.

    `kept` gets each decision when its turn has come, `refused` one whose values could not be put away, and why.
    """

    def __init__(self, values: Values, kept: Callable[[K], None], refused: Callable[[K, BaseException], None]) -> None:
        self._values = values
        self._kept = kept
        self._refused = refused
        self._lines: dict[HeldRun, deque[K]] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._abandoned: BaseException | None = None
        self._home: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        # Decisions come from the loops of runs too, and those have no sockets and no timers.
        self._home = asyncio.get_running_loop()

    def takes(self, item: K) -> bool:
        """Whether the decision waits here first; one with short texts alone passes, unless its run has a line."""
        if item.run in self._lines:
            self._lines[item.run].append(item)
            return True
        threshold = self._values.threshold
        if item.size <= threshold or not has_large(item.decision, threshold):
            return False
        self._lines[item.run] = deque([item])
        assert self._home is not None
        task = begin_errand(self._work(item.run), "stepfast-keeper", loop=self._home)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return True

    def abandon(self, reason: BaseException) -> None:
        """Give up everything that waits here, and from here on what cannot be put away at once."""
        self._abandoned = reason
        lines, self._lines = self._lines, {}
        for task in self._working:
            task.cancel()
        for item in [item for line in lines.values() for item in line]:
            self._refused(item, reason)

    def resume(self) -> None:
        """A blob store that is away is waited for again."""
        self._abandoned = None

    async def close(self) -> None:
        """Let what waits here come through, unless the blob store keeps it too long."""
        if self._working:
            await asyncio.wait(self._working, timeout=LAST_TRY_S)
        self.abandon(LeaseLost("The worker has stopped."))
        await asyncio.gather(*self._working, return_exceptions=True)

    async def _work(self, run: HeldRun) -> None:
        line, most = self._lines[run], TRIES
        while line:
            answer = await self._put_away(line[0], most)
            # A run that is to be handed back has waited long enough, however much of it is in line.
            most = TRIES if answer is self._kept else 1
            answer(line.popleft())
        del self._lines[run]

    async def _put_away(self, item: K, most: int) -> Callable[[K], None]:
        """What is to be done with the decision: a blob store that is away is tried again for a while.

        One in the database is tried for as long as the lease lasts: nothing could be handed back before that is there.
        """
        pause_s, tries, begun_at = FIRST_PAUSE_S, 0, time.monotonic()
        while True:
            tries += 1
            try:
                await slim(self._values, item.decision)
                item.size = size_of(item.decision)
            except StoreUnavailable as error:
                if self._abandoned is not None:
                    return partial(self._refused_for, self._abandoned)
                log.warning("blobs_away", run_id=item.run.run_id, tenant=item.run.tenant, error=error)
                # One that does not even answer has had more time already than all of the tries take.
                is_over = tries >= most or time.monotonic() - begun_at >= PATIENCE_S
                if is_over and self._values.are_apart:
                    return partial(self._refused_for, error)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to this run, which lets go of it
                return partial(self._refused_for, error)
            else:
                return self._kept
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _refused_for(self, error: BaseException, item: K) -> None:
        self._refused(item, error)
