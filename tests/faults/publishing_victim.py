"""A process that executes runs and publishes their events to a file, and dies where it is told to.

Called as `python -m tests.faults.publishing_victim OPTIONS` with a JSON object: database, file, ears (whom it
tells of what it has recorded), point and after (where it dies, and at which passage of that point), twin
(`records_first` or `holds_nobody_back`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepfast import Stepfast, step, workflow
from stepfast.engine import publishing
from stepfast.kernel.sinks import SinkStep
from stepfast.kernel.views import EventView
from tests.support.apps import MORTAL
from tests.support.victims import tell

POINTS = ("before_delivery", "in_the_middle", "after_delivery", "after_recording")
LEASE_MS, LOOK_MS = 400, 100
STEPS = 3


@step
async def note(number: int) -> int:
    return number


@workflow
async def notes() -> int:
    return sum([await note(number) for number in range(STEPS)])


class FileSink:
    """Events as lines of a file, which is on disk when a delivery returns; some events it takes at the second try."""

    name = "file"

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.ears = Path(options["ears"])
        self._file = os.open(options["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._passages = 0
        self._tasted: set[tuple[str, int]] = set()

    def wants(self, event: EventView) -> bool:
        return True

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        """It is closed with the process."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        self.die_at("before_delivery")
        for event in events:
            if event.type == "step_completed" and (event.run_id, event.seq) not in self._tasted:
                self._tasted.add((event.run_id, event.seq))
                if event.run_id[-1] in "0123":
                    raise ValueError("not at first")
        lines = [f"{event.run_id} {event.seq}\n".encode() for event in events]
        os.write(self._file, b"".join(lines[:1]))
        self.die_at("in_the_middle")
        os.write(self._file, b"".join(lines[1:]))
        os.fsync(self._file)
        self.die_at("after_delivery")

    def die_at(self, point: str) -> None:
        if self._options.get("point") != point:
            return
        self._passages += 1
        if self._passages == self._options["after"]:
            os.kill(os.getpid(), signal.SIGKILL)


class Dying(publishing.Publisher):
    """A publisher that may die once it has recorded what was delivered."""

    async def _save(self, taken: Any, step: SinkStep) -> None:
        await super()._save(taken, step)
        assert isinstance(self._sink, FileSink)
        tell(self._sink.ears)
        self._sink.die_at("after_recording")


class RecordsFirst(Dying):
    """The broken twin: what is to be delivered is recorded before it was."""

    async def _go_on(self, taken: Any) -> tuple[int, bool]:
        page = await self._store.trail(taken.cursor, 500, None)
        if not page.events:
            return 0, False
        await self._save(taken, SinkStep(page.reached))
        return (await self._offering.offer(page.events)).taken, False


class HoldsNobodyBack(Dying):
    """The broken twin: after an event that was not taken the others of its run come all the same."""

    async def _go_on(self, taken: Any) -> tuple[int, bool]:
        page = await self._store.trail(taken.cursor, 500, None)
        taken_in = 0
        for event in page.events:
            taken_in += (await self._offering.offer_in_order([event])).taken
        if page.events:
            await self._save(taken, SinkStep(page.reached))
        return taken_in, False


PUBLISHERS = {None: Dying, "records_first": RecordsFirst, "holds_nobody_back": HoldsNobodyBack}


async def main(options: dict[str, Any]) -> None:
    from stepfast.worker import worker

    publishing.LEASE_MS, publishing.LOOK_MS = LEASE_MS, LOOK_MS
    vars(worker)["Publisher"] = PUBLISHERS[options.get("twin")]
    patient = replace(MORTAL, max_crashes=50)
    app = Stepfast(options["database"], workflows=[notes], worker=patient)
    app.sinks.add(FileSink(options), from_start=True)
    async with app:
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
