"""The message brokers that tests talk to: Redis and NATS, from the packages of the system, in a folder of their own.

Called by `make setup`; does nothing when they are there. Nobody has to be root, and nothing is installed for others:
apt fetches the packages into this folder, and they are unpacked there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".venv" / "brokers"
PROGRAMS = ("redis-server", "nats-server")
PLACES = ("usr/bin", "usr/sbin")
HINT = "Install redis-server and nats-server so that they are found on the PATH, then run `make setup` again."


class Missing(SystemExit):
    """A broker is not there and could not be fetched."""


def program(name: str) -> str | None:
    """Where a broker's program is: in our folder, or wherever the system has it."""
    ours = [FOLDER / place / name for place in PLACES]
    path = next((str(each) for each in ours if each.exists()), None)
    return path or shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def environment() -> dict[str, str]:
    """What the programs need to find the libraries that came with them."""
    libraries = sorted({str(path.parent) for path in FOLDER.glob("**/*.so*")})
    known = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*libraries, *([known] if known else [])])}


def install() -> None:
    """Fetch what is missing; whoever comes at the same time waits for it."""
    if not _missing():
        return
    with _alone():
        if missing := _missing():
            _fetch(missing)
        if missing := _missing():
            raise Missing(f"{' and '.join(missing)} could not be fetched. {HINT}")


def _missing() -> list[str]:
    return [name for name in PROGRAMS if program(name) is None]


@contextmanager
def _alone() -> Iterator[None]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(names: list[str]) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Missing(f"{' and '.join(names)} are needed by the tests, and there is no apt here. {HINT}")
    lists, archives = FOLDER / "apt" / "lists", FOLDER / "apt" / "archives"
    for folder in (lists, archives):
        (folder / "partial").mkdir(parents=True, exist_ok=True)
    options = [
        f"Dir::State::lists={lists}",
        f"Dir::Cache::archives={archives}",
        "Dir::Cache::pkgcache=",
        "Dir::Cache::srcpkgcache=",
        # All of it is ours: nothing to lock, and no other user who would have to read it.
        "Debug::NoLocking=1",
        "APT::Sandbox::User=",
    ]
    apt = ["apt-get", "-q", "-y", *(part for option in options for part in ("-o", option))]
    _run([*apt, "update"])
    _run([*apt, "install", "--download-only", "--no-install-recommends", *names])
    for archive in sorted(archives.glob("*.deb")):
        _run(["dpkg", "-x", str(archive), str(FOLDER)])
    shutil.rmtree(FOLDER / "apt")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Missing(f"`{' '.join(command[:1] + command[-2:])}` failed:\n{done.stdout}{done.stderr}\n{HINT}")


if __name__ == "__main__":
    install()
    print(*(f"{name}: {program(name)}" for name in PROGRAMS), sep="\n", file=sys.stderr)
