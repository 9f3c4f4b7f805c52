"""The heartbeat: a thread of its own, so that code which blocks the event loop does not cost the lease."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

from stepfast.kernel.errors import StepfastError
from stepfast.kernel.exchange import Beat
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.ports import Clock, Store
from stepfast.log import Failures, Log
from stepfast.worker.settings import LONGEST_PAUSE_MS

log = Log("heartbeat")

SHORTEST_PAUSE_S = 0.05


def pause_after_failure_s(interval_ms: int) -> float:
    """How soon the next is sent when one has failed, however far apart they are: a tenth of that, and soon."""
    return min(max(interval_ms / 10_000, SHORTEST_PAUSE_S), LONGEST_PAUSE_MS / 1_000)


class Heartbeat:
    """Says that a worker lives, once per interval, and passes each answer to the worker's own loop."""

    def __init__(
        self,
        store: Store,
        worker_id: WorkerId,
        interval_ms: int,
        clock: Clock,
        heard: Callable[[Beat, int], None],
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._interval_s = interval_ms / 1_000
        self._pause_after_failure_s = pause_after_failure_s(interval_ms)
        self._clock = clock
        self._heard = heard
        self._home = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failures = Failures()
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stepfast-heartbeat", daemon=True)
        self.sent = 0
        self.kept_from = 0.0
        """When the last heartbeat that was answered was sent: the store saw it then or later."""

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._is_stopped.set()
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._is_over:
            try:
                with asyncio.Runner() as runner:
                    runner.run(self._beat_until_stopped())
            except OSError as error:
                # A process that has as many files open as it may makes no loop, until it has closed one.
                self._tell(error)
                self._is_stopped.wait(self._pause_after_failure_s)

    async def _beat_until_stopped(self) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        was_answered = True
        # Asked only now: who stops from here on finds the loop.
        while not (self._stop.is_set() or self._is_over):
            before, was_answered = was_answered, await self._beat()
            # What was let go of while the store was away goes back when two answers running say that it is held here:
            # the second is to come soon, too.
            pause_s = self._interval_s if before and was_answered else self._pause_after_failure_s
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause_s)

    @property
    def _is_over(self) -> bool:
        return self._is_stopped.is_set() or self._is_orphaned

    @property
    def _is_orphaned(self) -> bool:
        """Whether the worker's loop was closed under it, where nobody can stop the worker or execute its runs any more.

        Without heartbeats they go on elsewhere when its lease is over; with them they would stay for ever.
        """
        return self._home.is_closed()

    async def _beat(self) -> bool:
        self.sent += 1
        number, asked_at, sent_at = self.sent, self._clock.local(), time.monotonic()
        try:
            beat = await self._store.beat(self._worker_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next heartbeat must be sent
            self._tell(error)
            return False
        self._failures.end()
        # In this thread, for the worker's own loop may be busy and the moments grow old.
        self.kept_from = sent_at
        self._clock.follow(beat.now, asked_at)
        with contextlib.suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._heard, beat, number)
        return True

    def _tell(self, error: Exception) -> None:
        told = error if isinstance(error, StepfastError) else f"{type(error).__name__}: {error}"
        if failures := self._failures.add(error):
            log.warning("heartbeat_failed", worker_id=self._worker_id, failures=failures, error=told)
