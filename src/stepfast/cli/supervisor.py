"""Several worker processes under one: it starts them, passes signals on and replaces those that end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

from stepfast.cli.exits import ERROR, OK, REPLACE_ME, USAGE
from stepfast.cli.signals import STOPPING, Asking
from stepfast.log import Log

log = Log("supervisor")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
# A process that lived so long did not die of its start: its successor starts at once.
LONG_LIFE_S = 10.0
# How a process ends that is asked to leave; by the signal itself, if that came before it had begun to listen.
_LEFT_WELL = frozenset({OK, REPLACE_ME, -signal.SIGTERM})


@dataclass
class Place:
    """One of the processes, and how often it has died young in a row."""

    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    due_at: float | None = field(default_factory=time.monotonic)
    young_deaths: int = 0


class Supervisor:
    """Keeps so many worker processes alive until a signal comes, or until all have drained the queues."""

    def __init__(self, processes: int, drain: bool) -> None:
        self._places = [Place() for _ in range(processes)]
        self._drain = drain
        self._stopping = False
        self._asking = Asking()
        self._code = OK
        self._ear = self._listen()

    def run(self) -> int:
        """Supervise until nothing is left to wait for; answers with the exit code."""
        while True:
            for place in self._places:
                self._look_after(place)
            if all(place.process is None and place.due_at is None for place in self._places):
                return self._code
            for number in self._signals():
                if number in STOPPING:
                    self._asked(number)

    def _asked(self, number: int) -> None:
        if self._asking.is_first():
            self._stop()
        elif self._asking.is_meant(number):
            self._code = 128 + number
            self._stop()

    def _listen(self) -> int:
        """A pipe that gets a byte for each signal, also for the end of a process, so that one wait covers all."""
        ear, mouth = os.pipe()
        os.set_blocking(ear, False)
        os.set_blocking(mouth, False)
        signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
        for number in (*STOPPING, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        return ear

    def _signals(self) -> bytes:
        due = [place.due_at for place in self._places if place.due_at is not None]
        timeout = max(min(due) - time.monotonic(), 0) if due else None
        select.select([self._ear], [], [], timeout)
        with suppress(BlockingIOError):
            return os.read(self._ear, 1_000)
        return b""

    def _look_after(self, place: Place) -> None:
        if place.process is not None and (code := place.process.poll()) is not None:
            self._ended(place, place.process, code)
        if place.due_at is not None and place.due_at <= time.monotonic():
            self._start(place)

    def _start(self, place: Place) -> None:
        # In a session of their own, so that Ctrl-C reaches them once and through us; the pipe tells them if we die.
        place.process = subprocess.Popen(
            [sys.executable, "-m", "stepfast", *sys.argv[1:], "--supervised"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        place.started_at, place.due_at = time.monotonic(), None
        log.info("process_started", pid=place.process.pid)

    def _ended(self, place: Place, process: subprocess.Popen[bytes], code: int) -> None:
        if process.stdin is not None:
            process.stdin.close()
        place.process = None
        if code == USAGE:
            self._code = USAGE
            self._stop()
        if self._stopping and self._code == OK and code not in _LEFT_WELL:
            # It was killed, or could not tell the store that it left: its runs wait for the end of its lease.
            log.warning("process_left_runs", pid=process.pid, code=code)
            self._code = ERROR
        if self._stopping or (self._drain and code == OK):
            return
        if code == REPLACE_ME:
            log.info("process_replaced", pid=process.pid)
            place.due_at = time.monotonic()
        else:
            self._replace_dead(place, process.pid, code)

    def _replace_dead(self, place: Place, pid: int, code: int) -> None:
        lived_s = time.monotonic() - place.started_at
        place.young_deaths = place.young_deaths + 1 if lived_s < LONG_LIFE_S else 0
        pause_s = min(FIRST_PAUSE_S * 2.0 ** (place.young_deaths - 1), LONGEST_PAUSE_S) if place.young_deaths else 0.0
        log.warning("process_ended", pid=pid, code=code, next_in_s=pause_s)
        place.due_at = time.monotonic() + pause_s

    def _stop(self) -> None:
        """Ask every process to leave; whoever is still there when asked again is killed."""
        for place in self._places:
            place.due_at = None
            if place.process is not None:
                place.process.send_signal(signal.SIGKILL if self._stopping else signal.SIGTERM)
        self._stopping = True
