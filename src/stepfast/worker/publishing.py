"""The sinks of a worker: it publishes what was written, soon after it was."""

from __future__ import annotations

import asyncio

from stepfast.engine.publishing import Publisher
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Clock
from stepfast.log import Log

log = Log("publishing")

# What is written meanwhile shares the next pass.
APART_MS = 20
# Where something was published lately more follows soon; an idle sink costs a statement now and then.
QUICK_MS, IDLE_MS = 100, 1_000
QUICK_PASSES = 50


class PublishLoop:
    """Makes one pass after the other; one that fails is a line in the log, never the end of the loop."""

    def __init__(self, publisher: Publisher, name: str, clock: Clock) -> None:
        self._publisher = publisher
        self._name = name
        self._clock = clock
        self._quick = 0
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something was written, here or elsewhere."""
        self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                self._wake.clear()
                published = await self.make_pass()
                self._quick = QUICK_PASSES if published else max(self._quick - 1, 0)
                if not self._publisher.has_more:
                    await self._rest()
        finally:
            await asyncio.shield(self.leave())

    async def make_pass(self) -> int:
        """How many events were delivered."""
        try:
            return await self._publisher.make_pass()
        except StepfastError as error:
            log.warning("publishing_failed", sink=self._name, error=error)
        except Exception:
            log.exception("publishing_failed", sink=self._name)
        return 0

    async def leave(self) -> None:
        """Let go of the sink, so that another may publish to it."""
        try:
            await self._publisher.close()
        except StepfastError as error:
            log.warning("publishing_failed", sink=self._name, error=error)

    async def _rest(self) -> None:
        """Wait until something is written, or it is time to look."""
        await self._clock.sleep(APART_MS)
        sleeper = asyncio.ensure_future(self._sleep_and_wake())
        try:
            await self._wake.wait()
        finally:
            sleeper.cancel()

    async def _sleep_and_wake(self) -> None:
        await self._clock.sleep((QUICK_MS if self._quick else IDLE_MS) - APART_MS)
        self._wake.set()
