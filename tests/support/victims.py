"""Processes that a test starts and kills, and the word that they send it: nobody looks at a clock for what they do."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

LONGEST_S = 100.0
_NUMBERS = count()


@contextmanager
def victim(
    module: str, options: dict[str, Any], log: IO[bytes] | None = None, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m MODULE OPTIONS`, with the options as JSON; ended by its own pid when the test is done with it."""
    command = [sys.executable, "-m", module, json.dumps(options)]
    process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def died(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process; its exit code."""
    if process.poll() is not None:
        return process.returncode
    handle = os.pidfd_open(process.pid)
    try:
        await _readable(handle)
    finally:
        os.close(handle)
    return process.wait()


async def first_of(*waits: Coroutine[Any, Any, object], longest_s: float = LONGEST_S) -> None:
    """Wait until one of several has come; the others are no longer waited for."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        async with asyncio.timeout(longest_s):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _readable(file: int) -> None:
    loop, seen = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(file, seen.set)
    try:
        await seen.wait()
    finally:
        loop.remove_reader(file)


class Ear:
    """Where one process hears that others have done something; what that was it sees for itself.

    All ears of a folder are told at once, by whoever knows the folder. No word is lost: one that comes while nobody
    listens is heard by the next who does.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._path = folder / f"{os.getpid()}-{next(_NUMBERS)}"
        os.mkfifo(self._path)
        # Also for writing: so it stays open, whoever of those that write to it dies.
        self._pipe = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)

    def close(self) -> None:
        self._path.unlink()
        os.close(self._pipe)

    async def hear(self) -> None:
        """Wait for a word."""
        await _readable(self._pipe)
        self._forget()

    async def until(self, is_so: Callable[[], Awaitable[bool]], longest_s: float = LONGEST_S) -> None:
        """Wait until something is so; looked at anew at every word."""
        async with asyncio.timeout(longest_s):
            while not await is_so():
                await self.hear()

    def _forget(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._pipe, 1_024):
                pass


@contextmanager
def ear(folder: Path) -> Iterator[Ear]:
    """An ear, closed in the end."""
    opened = Ear(folder)
    try:
        yield opened
    finally:
        opened.close()


def tell(folder: Path) -> None:
    """Say in all ears of a folder that something was done."""
    for path in folder.iterdir() if folder.exists() else ():
        # One that is full has words enough; one that nobody holds open is that of a dead process.
        with suppress(OSError):
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(pipe, b".")
            finally:
                os.close(pipe)


def tell_of_calls(store: Any, folder: Path, *names: str) -> None:
    """Say it after each of these calls of a store, as soon as it is answered."""
    for name in names:
        setattr(store, name, _told(getattr(store, name), folder))


def _told(call: Callable[..., Awaitable[Any]], folder: Path) -> Callable[..., Awaitable[Any]]:
    async def told(*args: Any, **named: Any) -> Any:
        answer = await call(*args, **named)
        tell(folder)
        return answer

    return told


class Gate:
    """A place where a process waits until the test lets it through, once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def open(self) -> None:
        os.write(self._pipe, b".")

    def close(self) -> None:
        os.close(self._pipe)


def pass_gate(path: Path) -> None:
    """Wait at a gate."""
    pipe = os.open(path, os.O_RDONLY)
    os.read(pipe, 1)
    os.close(pipe)
