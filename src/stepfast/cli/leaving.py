"""Leaving for sure: whatever user code does to the event loop or to its threads, a worker process comes to its end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from stepfast.app import Stepfast
from stepfast.cli.exits import ERROR, OK
from stepfast.kernel.errors import StoreUnavailable
from stepfast.log import Log
from stepfast.workers import AppWorker

log = Log("cli")

# What a stop may take on top of the grace time: for the store to take the runs back. Unless the loop is stuck, all of
# it lies within the two seconds between our grace time and the patience of Docker.
HAND_BACK_S = 1.0
SILENT_S = 0.7
RETIRE_S = 3.0
LOOP_S = 0.1
LAST_THREADS_S = 1.0

SILENT = (
    "E-STORE-001: The store did not answer when this worker left. Nothing that was saved is lost; the runs that it "
    "held go on elsewhere when its lease is over."
)


class Deadline:
    """After a signal: the moment by which the process is gone, with its runs handed back, also if its loop is stuck."""

    def __init__(self, app: Stepfast, worker: AppWorker, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._worker = worker
        self._loop = loop
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """From here on it counts."""
        self._timer = _timer(self._worker.grace_ms / 1_000 + HAND_BACK_S, self._missed)

    def is_met(self) -> None:
        """The runs are handed back: what is left is the end of the process."""
        if self._timer is not None:
            self._timer.cancel()

    def _missed(self) -> None:
        log.error("deadline_missed", worker_id=self._worker.worker_id)
        if self._worker.worker_id:
            # In a thread of its own: a connection to a store that is silent takes its time to be given up.
            retiring = threading.Thread(target=self._retire, daemon=True)
            retiring.start()
            # Where the loop goes on the store had all the time before, too.
            retiring.join(SILENT_S if self._loop_goes_on() else RETIRE_S)
            self._give_up(StoreUnavailable(SILENT))
        end(OK)

    def _loop_goes_on(self) -> bool:
        is_next = threading.Event()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(is_next.set)
        return is_next.wait(LOOP_S)

    def _retire(self) -> None:
        try:
            asyncio.run(self._app.retire_worker(self._worker.worker_id))
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends here
            self._give_up(error)
        end(OK)

    def _give_up(self, error: Exception) -> None:
        log.error("runs_not_handed_back", worker_id=self._worker.worker_id, error=error)
        end(ERROR)


def leave_soon(code: int) -> None:
    """End the process with this code although a thread of user code may go on; threads cannot be stopped."""
    _timer(LAST_THREADS_S, partial(end, code))


def _timer(span_s: float, call: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(span_s, call)
    timer.daemon = True
    timer.start()
    return timer


def end_with_stdin() -> None:
    """Take the end of stdin, which is a pipe from the supervisor, for a SIGTERM: nobody else would send one."""
    threading.Thread(target=_watch_stdin, name="stepfast-supervisor", daemon=True).start()


def _watch_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def end(code: int) -> None:
    """End the process here and now."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
