"""Commands as processes of their own: started, listened to, and ended by their own pid."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SHOP = "tests.cli.shop:app"
AGAIN_S = 0.1
# What the shop does when it is imported in a process of its own.
PATIENT, LATE_DEADLINE = "SHOP_IS_PATIENT", "SHOP_HAS_A_LATE_DEADLINE"


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without settings, and with these."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("STEPFAST_")}
    return own | {"NO_COLOR": "1", "COLUMNS": "120", "PYTHONPATH": str(ROOT)} | variables


def stepfast(*args: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "stepfast", *args],
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
    )


class Command:
    """A command that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    async def says(self, event: str) -> str:
        """Wait for the next line of its log that has this event."""
        return await asyncio.to_thread(self._read_until, event)

    def _read_until(self, event: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if f" {event} " in line:
                return line
        raise AssertionError(f"The command ended without {event!r}:\n{''.join(self.lines)}")

    async def pid_of(self, event: str) -> int:
        """Wait for that event, and take the pid out of it."""
        found = re.search(r"pid=(\d+)", await self.says(event))
        assert found is not None
        return int(found[1])

    async def ends(self) -> int:
        """Wait for its end; its exit code."""
        return await asyncio.to_thread(self.process.wait, 60)

    async def ends_when_told_again(self) -> int:
        """Send SIGTERM again, until it is taken for another one than the first; its exit code."""
        while True:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                return await asyncio.to_thread(self.process.wait, AGAIN_S)

    async def is_silent(self) -> None:
        """Wait until it, and every process it started, has closed its log."""
        assert self.process.stderr is not None
        await asyncio.to_thread(self.process.stderr.read)


@contextmanager
def running(*args: str, **variables: str) -> Iterator[Command]:
    """A command, killed when the test is done with it if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stepfast", *args],
        cwd=ROOT,
        env=environment(**variables),
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Command(process)
        finally:
            process.kill()


@contextmanager
def worker(database: str, *options: str, app: str = SHOP, **variables: str) -> Iterator[Command]:
    """A worker on a database."""
    there = {"STEPFAST_DATABASE_URL": database, PATIENT: "1"} | variables
    with running("worker", "--app", app, *options, **there) as command:
        yield command


@contextmanager
def supervisor(database: str, *options: str) -> Iterator[Command]:
    """A worker of several processes, which leave when it does."""
    with worker(database, "--processes", "2", *options) as command:
        try:
            yield command
        finally:
            command.process.terminate()
            command.process.wait(60)


class Pipes:
    """The named pipes by which a test and the steps of its runs talk."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = str(folder)
        for name in names:
            os.mkfifo(folder / name)

    async def hear(self, name: str) -> int:
        """Wait for a step to write its pid to this pipe."""
        return int(await asyncio.to_thread(Path(self.folder, name).read_text))

    async def release(self, name: str) -> None:
        """Let the step go on that reads this pipe."""
        await asyncio.to_thread(Path(self.folder, name).write_text, "go")
