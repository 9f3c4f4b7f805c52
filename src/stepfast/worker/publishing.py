"""The sinks of a worker: it publishes what was written, soon after it was."""

from __future__ import annotations

import asyncio
from typing import Any

from stepfast.engine.publishing import Publisher
from stepfast.errands import begin_errand
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Clock
from stepfast.kernel.sinks import HeldBack, SinkLetter
from stepfast.log import Failures, Log
from stepfast.worker.waking import WakeUp

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
        self._wake = WakeUp(clock)
        self._failures = Failures()
        self._passes: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Publish from now on."""
        self._passes = begin_errand(self.run(), "stepfast-publishing")

    async def stop(self) -> None:
        """Publish no more, and leave the sink to others."""
        if self._passes is not None:
            await self._publisher.settle()
            self._passes.cancel()
            await asyncio.wait({self._passes})

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
            published = await self._publisher.make_pass()
            self._failures.end()
            return published
        except Exception as error:  # noqa: BLE001 - whatever it is, the next pass must come
            if failures := self._failures.add(error):
                log.failure("publishing_failed", error, sink=self._name, failures=failures)
            return 0
        finally:
            # What was stored before a pass fails is as true as what a whole one has stored.
            self._tell()

    def _tell(self) -> None:
        """What was not taken: a line for each try, and tries come more and more seldom."""
        for step in self._publisher.troubles:
            waiting = [each for each in step.held if each.tries]
            if step.letters:
                letter = step.letters[0]
                log.warning("sink_letter_recorded", **self._of(letter, len(step.letters)), event_type=letter.type)
            elif waiting:
                log.warning("events_not_taken", **self._of(waiting[0], len(waiting)))
            else:
                log.warning("sink_away", sink=self._name, tries=step.tries, error=step.error)

    def _of(self, first: SinkLetter | HeldBack, count: int) -> dict[str, Any]:
        told = {"run_id": first.run_id, "seq": first.seq, "tries": first.tries, "error": first.error}
        return {"sink": self._name, "count": count, **told}

    async def leave(self) -> None:
        """Let go of the sink, so that another may publish to it."""
        try:
            await self._publisher.close()
        except StepfastError as error:
            log.warning("publishing_failed", sink=self._name, error=error)

    async def _rest(self) -> None:
        """Wait until something is written, or it is time to look."""
        await self._clock.sleep(APART_MS)
        await self._wake.rest((QUICK_MS if self._quick else IDLE_MS) - APART_MS)
