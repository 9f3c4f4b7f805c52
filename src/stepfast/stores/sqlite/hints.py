"""Hints between the processes on one file: datagrams to sockets in a folder beside it; a lost one costs a poll."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from stepfast.log import Log

log = Log("hints")

# The system takes no longer name for a socket.
MAX_SOCKET_PATH = 100
MAX_TOPIC_BYTES = 512


class Hints:
    """One process's ear and mouth."""

    def __init__(self, path: Path) -> None:
        self._folder = _folder_for(path)
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._mouth: socket.socket | None = None
        self._ear: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def hear(self, heard: Callable[[str], None]) -> None:
        """Call `heard` in this event loop with every topic that another process sends, where the folder allows it."""
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            ear.bind(str(self._folder / self._name))
        except OSError as problem:
            # Of another user, read-only, or on a disk without sockets: no reason not to use the file.
            ear.close()
            log.warning("hints_unheard", reason=f"{self._folder} takes no socket of this user ({problem.strerror}).")
            return
        self._ear, self._loop = ear, asyncio.get_running_loop()
        self._loop.add_reader(ear.fileno(), self._receive, ear, heard)

    def send(self, topics: Iterable[str]) -> None:
        """Tell every other process that listens."""
        for topic in topics:
            for ear in self._other_ears():
                self._send_to(ear, topic.encode()[:MAX_TOPIC_BYTES])

    def close(self) -> None:
        """Stop listening; the folder goes with the last who listened."""
        if self._ear is not None and self._loop is not None:
            self._loop.remove_reader(self._ear.fileno())
            self._ear.close()
            self._ear = None
            with contextlib.suppress(OSError):
                (self._folder / self._name).unlink()
                self._folder.rmdir()
        if self._mouth is not None:
            self._mouth.close()
            self._mouth = None

    def _other_ears(self) -> list[Path]:
        try:
            return [self._folder / name for name in os.listdir(self._folder) if name != self._name]
        except OSError:
            # Nobody listens, or another user whom we may not speak to.
            return []

    def _send_to(self, ear: Path, topic: bytes) -> None:
        if self._mouth is None:
            self._mouth = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._mouth.sendto(topic, str(ear))
        except (ConnectionRefusedError, FileNotFoundError):
            # Its process was killed before it could tidy up.
            with contextlib.suppress(OSError):
                ear.unlink()
        except OSError:
            return

    def _receive(self, ear: socket.socket, heard: Callable[[str], None]) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                heard(ear.recv(MAX_TOPIC_BYTES).decode(errors="replace"))


def _folder_for(path: Path) -> Path:
    beside = path.absolute().with_name(f"{path.name}-hints")
    if len(os.fsencode(beside)) + 24 <= MAX_SOCKET_PATH:
        return beside
    digest = hashlib.blake2b(os.fsencode(os.path.realpath(path)), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"stepfast-{os.getuid()}-{digest}"
