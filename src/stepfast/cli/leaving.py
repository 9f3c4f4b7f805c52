"""Leaving for sure: whatever user code does to the event loop or to its threads, a worker process comes to its end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading

from stepfast.app import Stepfast
from stepfast.cli.exits import ERROR, OK
from stepfast.log import Log
from stepfast.workers import AppWorker

log = Log("cli")

# What a stop may take on top of the grace time: for the store to take the runs back.
HAND_BACK_S = 2.0
RETIRE_S = 3.0
LAST_THREADS_S = 1.0


class Deadline:
    """After a signal: the moment by which the process is gone, with its runs handed back, also if its loop is stuck."""

    def __init__(self, app: Stepfast, worker: AppWorker) -> None:
        self._app = app
        self._worker = worker

    def begin(self) -> None:
        """From here on it counts."""
        timer = threading.Timer(self._worker.grace_ms / 1_000 + HAND_BACK_S, self._missed)
        timer.daemon = True
        timer.start()

    def _missed(self) -> None:
        log.error("deadline_missed", worker_id=self._worker.worker_id)
        if not self._worker.worker_id:
            end(OK)
        try:
            asyncio.run(asyncio.wait_for(self._app.retire_worker(self._worker.worker_id), RETIRE_S))
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends here
            log.error("deadline_missed", worker_id=self._worker.worker_id, error=error)
            end(ERROR)
        end(OK)


def leave_soon(code: int) -> None:
    """End the process with this code although a thread of user code may go on; threads cannot be stopped."""
    timer = threading.Timer(LAST_THREADS_S, end, [code])
    timer.daemon = True
    timer.start()


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
