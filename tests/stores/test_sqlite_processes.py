"""Several processes on one SQLite file."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from stepfast.kernel.errors import StoreUnavailable
from stepfast.stores.sqlite.migrate import known_migrations
from stepfast.stores.sqlite.store import SqliteStore
from tests.stores.harness import NOON, bare
from tests.support.rights import open_folder, without_rights

OPENS = """
import asyncio, sys
from pathlib import Path
from stepfast.stores.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]), lambda: 1)
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    await store.close()

asyncio.run(main())
"""

WRITES = """
import asyncio, sys
from pathlib import Path
from stepfast.stores.sqlite.store import SqliteStore
from tests.stores.harness import bare

async def main():
    store = SqliteStore(Path(sys.argv[1]), lambda: 1)
    await store.open()
    first = int(sys.argv[2])
    harness = bare(store)
    for _ in range(first): next(harness.counter)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(40):
        await harness.start_many(5)
    await store.close()

asyncio.run(main())
"""

DIES_IN_THE_MIDDLE = """
import asyncio, os, signal, sys
from pathlib import Path
from stepfast.stores.sqlite.store import SqliteStore

def die():
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(SqliteStore(Path(sys.argv[1]), die).open())
"""

# The copy, as a step makes one that has work done by processes of its own, stays until stdin ends.
DIES_BESIDE_ITS_COPY = """
import asyncio, os, signal, sys
from pathlib import Path
from stepfast import file_locks
from stepfast.stores.sqlite.store import SqliteStore
from tests.stores.harness import bare

is_copied = False

def now():
    if is_copied:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1

async def main():
    global is_copied
    store = SqliteStore(Path(sys.argv[1]), now)
    await store.open()
    if sys.argv[2] == "broken":
        file_locks._ours.clear()
    begun, begins = os.pipe()
    if os.fork() == 0:
        os.write(begins, b".")
        sys.stdin.read()
        os._exit(0)
    os.read(begun, 1)
    is_copied = True
    await bare(store).start_many(1)

asyncio.run(main())
"""

ROOT = Path(__file__).parents[2]


def launch(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def run_together(processes: list[subprocess.Popen[str]]) -> list[int]:
    """Wait until each is ready, let all go, and answer with how they ended."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    return [process.returncode for process in processes]


def count(path: Path, what: str) -> object:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(f"select count(*) from {what}").get
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stepfast.db"


async def test_processes_that_migrate_at_once_migrate_once(path):
    assert run_together([launch(OPENS, path) for _ in range(4)]) == [0, 0, 0, 0]
    assert count(path, "migration") == len(known_migrations())


async def test_processes_that_write_at_once_lose_nothing(path):
    assert run_together([launch(WRITES, path, first) for first in (0, 1_000, 2_000)]) == [0, 0, 0]
    assert (count(path, "run"), count(path, "task"), count(path, "event")) == (600, 600, 600)


async def test_a_migration_that_was_killed_is_done_whole_by_the_next(path):
    killed = launch(DIES_IN_THE_MIDDLE, path)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert count(path, "sqlite_schema") == 0
    store = SqliteStore(path, lambda: NOON)
    assert await store.migrate() == [step.name for step in known_migrations()]
    await store.close()


async def written_beside_a_copy_of_the_killed(path: Path, guard: str) -> None:
    """Write to a file whose last writer was killed in the middle, while a copy of that process (fork) lives."""
    with launch(DIES_BESIDE_ITS_COPY, path, guard) as killed:
        assert killed.wait() == -signal.SIGKILL
        store = SqliteStore(path, lambda: NOON, patience_ms=100)
        try:
            await store.open()
            await bare(store).start_many(1)
        finally:
            await store.close()


async def test_a_copy_of_a_process_that_was_killed_while_it_wrote_keeps_nobody_from_the_file(path):
    await written_beside_a_copy_of_the_killed(path, "whole")
    assert count(path, "run") == 1


async def test_the_broken_twin_whose_copies_keep_its_locks_shuts_everybody_out(path):
    with pytest.raises(StoreUnavailable, match="did not come free"):
        await written_beside_a_copy_of_the_killed(path, "broken")


async def test_a_folder_for_hints_that_another_user_keeps_to_itself_shuts_nobody_out(caplog):
    heard: list[str] = []
    with open_folder() as folder:
        folder.chmod(0o777)
        theirs = folder / "stepfast.db-hints"
        theirs.mkdir()
        theirs.chmod(0)
        with without_rights():
            store = SqliteStore(folder / "stepfast.db", lambda: NOON)
            await store.open()
            await store.hear(heard.append)
            await store.hint(["ready:default"])
            await store.close()
        theirs.chmod(0o700)
    assert f'hints_unheard reason="{theirs} takes no socket of this user' in caplog.text
