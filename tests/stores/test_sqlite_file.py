"""The file of an SQLite store: where it may lie, its schema, and what is left when it is closed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from stepfast.kernel.errors import Invalid, StoreMismatch, StoreUnavailable, StoreUnusable
from stepfast.kernel.ids import WorkerId
from stepfast.stores.sqlite.file_system import file_system_of, prepare_folder
from stepfast.stores.sqlite.migrate import known_migrations
from stepfast.stores.sqlite.store import SqliteStore
from stepfast.stores.sqlite.turnstile import Turnstile, _open_lock, _try_lock, lock_files
from stepfast.stores.urls import sqlite_path
from tests.stores.harness import NOON, Harness, bare
from tests.support.rights import as_user, open_folder

ALICE, BOB, TEAM = 20_001, 20_002, 20_010


@pytest.fixture
def harness(sqlite_harness: Harness) -> Harness:
    return sqlite_harness


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stepfast.db"


def noon() -> int:
    return NOON


async def open_and_close(path: Path, patience_ms: int = 50) -> None:
    store = SqliteStore(path, noon, patience_ms)
    await store.open()
    await store.close()


def execute(path: Path, text: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


async def test_missing_folders_are_made(tmp_path):
    await open_and_close(tmp_path / "a" / "b" / "stepfast.db")
    assert (tmp_path / "a" / "b" / "stepfast.db").exists()


async def test_locks_that_were_removed_are_made_with_the_owner_and_the_rights_of_the_file(path):
    """A command of root on the file of somebody else must not shut that one out."""
    await open_and_close(path)
    os.chmod(path, 0o660)
    if os.geteuid() == 0:
        os.chown(path, 65_534, 65_534)
    for file in lock_files(path):
        file.unlink()
    await open_and_close(path)
    store = path.stat()
    for lock in (file.stat() for file in lock_files(path)):
        assert (lock.st_mode, lock.st_uid, lock.st_gid) == (store.st_mode, store.st_uid, store.st_gid)


@pytest.fixture
def shared_file() -> Iterator[Path]:
    """A file of one user and a group, without locks, in a folder that everybody may write to."""
    with open_folder() as folder:
        folder.chmod(0o777)
        file = folder / "stepfast.db"
        file.touch()
        file.chmod(0o660)
        if os.geteuid() == 0:
            os.chown(file, ALICE, TEAM)
        yield file


@contextmanager
def careful() -> Iterator[None]:
    """Make files that nobody but their owner and group may read."""
    before = os.umask(0o007)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("groups", [(TEAM,), ()])
def test_a_lock_that_another_user_has_made_does_not_shut_the_owner_out(shared_file, groups):
    with as_user(BOB, *groups), careful():
        Turnstile(shared_file, 50).close()
    with as_user(ALICE):
        turnstile = Turnstile(shared_file, 50)
        with turnstile.turn():
            pass
        turnstile.close()


def test_a_lock_that_another_user_of_the_group_has_made_belongs_to_the_group(shared_file):
    with as_user(BOB, TEAM):
        Turnstile(shared_file, 50).close()
    assert {lock.stat().st_gid for lock in lock_files(shared_file)} == {shared_file.stat().st_gid}


async def test_a_lock_that_may_only_be_read_can_be_taken(path):
    await open_and_close(path)
    for file in lock_files(path):
        file.chmod(0o444)
    await open_and_close(path)


async def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreUnusable, match="is a device, a pipe or a socket"):
        await open_and_close(tmp_path / "pipe")
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite:///:memory:", "survives nothing"),
        ("sqlite:///a.db?mode=ro", "takes no options"),
        ("sqlite:///a#b.db", "write %3F or %23"),
        ("sqlite:/a.db", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite:///a%00b", "names no file"),
        ("sqlite:////", "names a folder and no file"),
        ("sqlite:///.", "names a folder and no file"),
    ],
)
def test_a_url_that_could_mean_another_file_is_refused(url, told):
    with pytest.raises(Invalid, match=told):
        sqlite_path(url)


def test_signs_that_a_url_has_a_use_for_may_be_written_as_numbers():
    assert sqlite_path("sqlite:///a%23b%3F.db") == Path("a#b?.db")


async def test_opening_applies_the_migrations_and_notes_them(path):
    await open_and_close(path)
    applied = [(step.number, step.name, NOON) for step in known_migrations()]
    assert execute(path, "select number, name, applied_at from migration") == applied


async def test_migrating_names_what_it_applied(path):
    store = SqliteStore(path, noon)
    assert await store.migrate() == [step.name for step in known_migrations()]
    assert await store.migrate() == []
    await store.close()


async def test_what_was_stored_is_there_when_the_file_is_opened_again(path):
    store = SqliteStore(path, noon)
    await store.open()
    run = bare(store).new_run()
    await store.start([run], None)
    await store.close()
    await store.open()
    assert await store.run(None, run.run_id) is not None
    await store.close()


async def test_a_newer_schema_is_refused_naming_both_numbers(path):
    await open_and_close(path)
    execute(path, "insert into migration values (99, '0099_later', 0)")
    with pytest.raises(StoreMismatch, match=rf"schema 99.* up to {len(known_migrations())}\. Upgrade"):
        await open_and_close(path)


async def test_a_file_that_is_no_database_is_left_alone(path):
    path.write_bytes(b"dear diary " * 1_000)
    with pytest.raises(StoreUnusable, match="is no SQLite database"):
        await open_and_close(path)
    assert path.read_bytes() == b"dear diary " * 1_000
    assert list(path.parent.iterdir()) == [path]


async def test_a_database_of_another_program_is_left_alone(path):
    execute(path, "create table customer (name text)")
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="another program"):
        await open_and_close(path)
    assert (path.read_bytes(), list(path.parent.iterdir())) == (before, [path])


async def test_a_table_of_another_program_with_the_name_of_ours_is_left_alone(path):
    execute(path, "create table migration (id text, done integer)")
    with pytest.raises(StoreUnusable, match=r"another program \(its table 'migration' has the columns id, done\)"):
        await open_and_close(path)
    assert execute(path, "select name from sqlite_schema") == [("migration",)]


@pytest.mark.parametrize("lost", ["number = (select max(number) from migration)", "true"], ids=["newest", "all"])
async def test_a_record_of_migrations_that_lost_rows_is_told_of(path, lost):
    await open_and_close(path)
    execute(path, f"delete from migration where {lost}")
    before = execute(path, "select * from migration")
    with pytest.raises(StoreUnusable, match=r"does not fit its table migration: 0\d+_\w+ cannot be applied"):
        await open_and_close(path)
    assert execute(path, "select * from migration") == before


async def test_a_link_that_leads_to_itself_is_told_of(path):
    path.symlink_to(path)
    with pytest.raises(StoreUnusable, match="Too many levels of symbolic links"):
        await open_and_close(path)


async def test_a_folder_in_the_place_of_the_file_is_left_alone(path):
    path.mkdir()
    with pytest.raises(StoreUnusable, match="is a folder"):
        await open_and_close(path)
    assert list(path.parent.iterdir()) == [path]


async def test_a_copy_of_a_store_is_opened_without_what_stood_beside_it(path):
    await open_and_close(path)
    copy = path.with_name("copy #1?.db")
    copy.write_bytes(path.read_bytes())
    await open_and_close(copy)
    assert execute(copy, "select count(*) from migration") == [(len(known_migrations()),)]


async def test_a_folder_that_cannot_be_written_is_named():
    with pytest.raises(StoreUnusable, match=r"/proc/stepfast\.db"):
        await open_and_close(Path("/proc/stepfast.db"))


async def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable, match=r"file/stepfast\.db"):
        await open_and_close(tmp_path / "file" / "stepfast.db")


async def test_a_file_that_another_program_keeps_locked_is_given_up(path):
    await open_and_close(path)
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    store = SqliteStore(path, noon, patience_ms=50)
    with pytest.raises(StoreUnavailable, match="locked"):
        await store.open()
    other.close()
    await store.open()
    await store.close()


async def test_a_writer_that_keeps_its_turn_for_ever_is_given_up(path):
    await open_and_close(path)
    frozen = Turnstile(path, 50)
    with frozen.turn(), pytest.raises(StoreUnavailable, match="did not come free"):
        await open_and_close(path)
    frozen.close()


async def test_a_full_disk_writes_nothing_of_the_batch(harness, store):
    await store._writer.run(lambda c: c.execute("pragma max_page_count = 60").fetchall())
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await harness.start_many(2_000)
    assert await harness.sql("select count(*) from stepfast.run") == [(0,)]


async def test_the_store_goes_on_when_the_disk_has_room_again(harness, store):
    await store._writer.run(lambda c: c.execute("pragma max_page_count = 60").fetchall())
    with pytest.raises(StoreUnavailable):
        await harness.start_many(2_000)
    await store._writer.run(lambda c: c.execute("pragma max_page_count = 100000").fetchall())
    assert len(await harness.start_many(2_000)) == 2_000


def belongings() -> set[threading.Thread | str]:
    """What the process has; some of it may be of earlier tests and go at any moment."""
    return {*threading.enumerate(), *os.listdir("/proc/self/fd")}


async def test_closing_leaves_no_thread_and_no_file_open(path):
    await open_and_close(path)
    before = belongings()
    await open_and_close(path)
    assert belongings() <= before


async def test_a_failed_opening_leaves_no_thread_and_no_file_open(path):
    path.write_bytes(b"dear diary " * 1_000)
    before = belongings()
    with pytest.raises(StoreUnusable):
        await open_and_close(path)
    assert belongings() <= before


async def test_closing_twice_is_closing_once(path):
    store = SqliteStore(path, noon)
    await store.open()
    await store.close()
    await store.close()


async def test_a_closed_store_says_so(path):
    store = SqliteStore(path, noon)
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.beat(WorkerId("w1"))


async def test_a_heartbeat_does_not_wait_behind_commits(harness, store):
    worker_id = await harness.enrol()
    gate = threading.Event()
    commit = asyncio.create_task(store._writer._in_thread(gate.wait))
    assert (await store.beat(worker_id)).alive
    assert not commit.done()
    gate.set()
    await commit


async def test_the_commit_waits_for_the_disk(store):
    settings = await store._writer.run(
        lambda c: [c.execute(f"pragma {name}").get for name in ("journal_mode", "synchronous")]
    )
    assert settings == ["wal", 2]


def test_a_writer_that_comes_while_another_writes_goes_before_its_next_turn(path):
    order: list[str] = []
    busy, other = Turnstile(path, 5_000), Turnstile(path, 5_000)

    def write_once() -> None:
        with other.turn():
            order.append("other")

    thread = threading.Thread(target=write_once)
    probe = _open_lock(path, "next")
    with busy.turn():
        thread.start()
        while _try_lock(probe):
            os.close(probe)
            probe = _open_lock(path, "next")
    with busy.turn():
        order.append("busy")
    thread.join()
    os.close(probe)
    busy.close()
    other.close()
    assert order == ["other", "busy"]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path, kind):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\n")
    with pytest.raises(StoreUnusable, match=f"network file system .{kind}.*local disk"):
        prepare_folder(tmp_path / "deep" / "stepfast.db", mounts)
    assert not (tmp_path / "deep").exists()


def test_the_nearest_mount_counts(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x / nfs rw 0 0\n/dev/vda {tmp_path} ext4 rw 0 0\n")
    assert file_system_of(tmp_path / "stepfast.db", mounts) == "ext4"


def test_a_mount_point_with_a_space_is_found(tmp_path):
    folder = tmp_path / "my disk"
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x {str(folder).replace(' ', chr(92) + '040')} nfs rw 0 0\n")
    assert file_system_of(folder / "stepfast.db", mounts) == "nfs"


def test_a_system_that_does_not_tell_is_trusted(tmp_path):
    assert file_system_of(tmp_path, tmp_path / "none") is None
