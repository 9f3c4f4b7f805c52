"""Processes of their own: what is measured shares no interpreter with anything else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bench.figures import Figures, received

ROOT = Path(__file__).resolve().parent.parent
LOOP_VARIABLE = "STEPFAST_BENCH_LOOP"
LONGEST_S = 900


class Unmeasured(Exception):
    """There is no figure, and this is why."""


def run_child(module: str, *arguments: object, python: str = sys.executable) -> Figures:
    """Run a module to its end and return the figures that it emits."""
    try:
        done = subprocess.run(
            _command(python, module, arguments),
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        raise Unmeasured(f"{module} did not end within {LONGEST_S} s.") from None
    if done.returncode:
        raise Unmeasured(f"{module} ended with {done.returncode}: {_tail(done.stderr or done.stdout)}")
    return received(done.stdout)


class Child:
    """A process that runs beside us; what it complains of is kept, and told if it ends early."""

    def __init__(self, command: list[str], complaints: IO[bytes]) -> None:
        self._process = subprocess.Popen(command, cwd=ROOT, env=_environment(), stderr=complaints)
        self._complaints = complaints
        self.pid = self._process.pid

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def check_alive(self) -> None:
        """Waiting for what a process does is in vain once it has ended."""
        if self._process.poll() is not None:
            self._complaints.seek(0)
            told = _tail(self._complaints.read().decode())
            raise Unmeasured(f"A process that was waited for ended with {self._process.returncode}: {told}")


@contextmanager
def background(module: str, *arguments: object, python: str = sys.executable) -> Iterator[Child]:
    """Run a module beside us until the block ends; then it is killed, and so is nothing else."""
    with tempfile.TemporaryFile() as complaints:
        child = Child(_command(python, module, arguments), complaints)
        try:
            yield child
        finally:
            child.kill()


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a measured process's coroutine in the kind of event loop that was asked for."""
    if os.environ.get(LOOP_VARIABLE) == "uvloop":
        import uvloop

        uvloop.run(main)
    else:
        asyncio.run(main)


def _command(python: str, module: str, arguments: tuple[object, ...]) -> list[str]:
    return [python, "-m", module, *map(str, arguments)]


def _environment() -> dict[str, str]:
    # The peers' environments have no Stepfast, but their scripts are modules of this package too.
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-3:])
