"""The sinks of a worker: it publishes what was written, soon after it was."""

from __future__ import annotations

import asyncio

from stepfast.engine.publishing import Publisher
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Clock
from stepfast.log import Log

log = Log("publishing")

# Where something was published lately more follows soon; an idle sink costs a statement or two now and then.
QUICK_MS, IDLE_MS = 100, 1_000
QUICK_PASSES = 50


class PublishLoop:
    """Makes one pass after the other; one that fails is a line in the log, never the end of the loop."""

    def __init__(self, publisher: Publisher, name: str, clock: Clock) -> None:
        self._publisher = publisher
        self._name = name
        self._clock = clock
        self._quick = 0

    async def run(self) -> None:
        try:
            while True:
                published = await self.make_pass()
                self._quick = QUICK_PASSES if published else max(self._quick - 1, 0)
                if not published:
                    await self._clock.sleep(QUICK_MS if self._quick else IDLE_MS)
        finally:
            await asyncio.shield(self._leave())

    async def make_pass(self) -> int:
        """How many events were delivered."""
        try:
            return await self._publisher.make_pass()
        except StepfastError as error:
            log.warning("publishing_failed", sink=self._name, error=error)
        except Exception:
            log.exception("publishing_failed", sink=self._name)
        return 0

    async def _leave(self) -> None:
        try:
            await self._publisher.close()
        except StepfastError as error:
            log.warning("publishing_failed", sink=self._name, error=error)
