"""SQLite on a disk that will not have it: the app says which, why and what to do, and loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from stepfast import StepfastError, step, workflow
from stepfast.kernel.exchange import Upkeep, UpkeepReport
from stepfast.stores.sqlite.connection import Writer
from stepfast.stores.urls import check_exists
from tests.support.apps import Bodies, app_on
from tests.support.rights import open_folder, without_rights


@workflow
async def nothing() -> None:
    return None


@pytest.fixture
def folder():
    """A folder that everybody may look into."""
    with open_folder() as folder:
        yield folder


async def refusal(path: Path) -> StepfastError:
    """What the start of an app on this file raises."""
    with pytest.raises(StepfastError) as raised:
        async with app_on(f"sqlite:///{path}", [nothing]):
            pass
    assert str(path) in str(raised.value)
    return raised.value


async def make_store(path: Path) -> None:
    async with app_on(f"sqlite:///{path}", [nothing], worker=False):
        pass


async def test_a_file_that_cannot_be_written_is_refused(folder):
    path = folder / "app.db"
    await make_store(path)
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    with without_rights():
        error = await refusal(path)
    assert error.code == "E-STORE-003"
    assert "Allow" in str(error)


def test_a_folder_that_cannot_be_looked_into_is_refused(folder):
    (folder / "app.db").touch()
    folder.chmod(0o000)
    with without_rights(), pytest.raises(StepfastError, match="Allow") as raised:
        check_exists(f"sqlite:///{folder}/app.db")
    assert raised.value.code == "E-STORE-003"


async def test_a_folder_that_cannot_be_written_is_refused(folder):
    folder.chmod(0o555)
    with without_rights():
        error = await refusal(folder / "app.db")
    assert error.code == "E-STORE-003"
    assert "Allow reading and writing the file and its folder" in str(error)


async def test_a_folder_that_cannot_be_made_is_refused(folder):
    folder.chmod(0o555)
    with without_rights():
        error = await refusal(folder / "deep" / "app.db")
    assert error.code == "E-STORE-003"
    assert "Allow reading and writing the file and its folder" in str(error)


async def test_a_folder_that_is_missing_is_made(folder):
    await make_store(folder / "deep" / "app.db")
    assert (folder / "deep" / "app.db").exists()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(folder):
    path = folder / "app.db"
    path.write_bytes(b"dear diary " * 1_000)
    error = await refusal(path)
    assert error.code == "E-STORE-003"
    assert "is no SQLite database" in str(error)
    assert path.read_bytes() == b"dear diary " * 1_000


async def test_a_newer_schema_is_refused_with_the_next_step(folder):
    path = folder / "app.db"
    await make_store(path)
    connection = apsw.Connection(str(path))
    connection.execute("insert into migration values (99, '0099_later', 0)")
    connection.close()
    error = await refusal(path)
    assert error.code == "E-STORE-002"
    assert "Upgrade" in str(error)


async def set_pages(app, pages: int | None) -> None:
    """Leave the disk no more room than the file has, or all the room there is."""

    def limit(connection: apsw.Connection) -> None:
        most = connection.execute("pragma page_count").get if pages is None else pages
        connection.execute(f"pragma max_page_count = {most}").fetchall()

    await app._parts.store._writer.run(limit)


FULL = None
PLENTY = 10**6


async def test_a_start_on_a_full_disk_is_refused_and_nothing_is_stored(tmp_path):
    @workflow
    async def take(text: str) -> None:
        return None

    async with app_on(f"sqlite:///{tmp_path}/app.db", [take], worker=False) as app:
        await set_pages(app, FULL)
        with pytest.raises(StepfastError, match="disk is full") as raised:
            await app.start(take, "x" * 100_000)
        await set_pages(app, PLENTY)
        assert raised.value.code == "E-STORE-001"
        assert await app.runs() == []


# What stays in its row, and what goes among the blobs.
@pytest.mark.parametrize("size", [60_000, 1_000_000])
async def test_a_disk_that_fills_up_in_the_middle_of_a_run_loses_nothing_and_has_nothing_done_again(
    tmp_path, caplog, size: int
):
    bodies = Bodies()

    @step
    async def first() -> str:
        bodies.ran("first")
        return "kept"

    @step
    async def large() -> str:
        bodies.ran("large")
        await set_pages(app, FULL)
        return "x" * size

    @workflow
    async def flow() -> str:
        return await first() + (await large())[:1]

    async with app_on(f"sqlite:///{tmp_path}/app.db", [flow]) as app:
        run = await app.start(flow)
        while "disk is full" not in caplog.text:
            await run.info()
        await set_pages(app, PLENTY)
        assert await run.result(timeout="60s") == "keptx"
    assert bodies == {"first": 1, "large": 1}


def remove(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.rename(path)


@pytest.mark.parametrize("lose", [remove, replace])
async def test_nothing_is_answered_for_a_file_that_was_lost_while_in_use(tmp_path, lose):
    path = tmp_path / "store" / "app.db"
    async with app_on(f"sqlite:///{path}", [nothing], worker=False) as app:
        await app.start(nothing)
        lose(path)
        with pytest.raises(StepfastError, match="removed or replaced") as raised:
            await app.start(nothing)
        assert raised.value.code == "E-STORE-003"


@pytest.mark.parametrize("lose", [remove, replace])
async def test_a_worker_whose_file_was_lost_says_so_once_for_a_while(tmp_path, caplog, monkeypatch, lose):
    path, passes = tmp_path / "store" / "app.db", asyncio.Semaphore(0)
    async with app_on(f"sqlite:///{path}", [nothing]) as app:
        store = app._open_parts().store
        upkeep = store.upkeep

        async def heard(request: Upkeep) -> UpkeepReport:
            try:
                return await upkeep(request)
            finally:
                passes.release()

        monkeypatch.setattr(store, "upkeep", heard)
        lose(path)
        for _ in range(4):
            await passes.acquire()
        told = [record.getMessage() for record in caplog.records if "upkeep_failed" in record.getMessage()]
    assert ["start this program again" in line for line in told] == [True]


async def test_a_file_that_was_moved_and_put_back_is_written_again(tmp_path):
    path = tmp_path / "app.db"
    async with app_on(f"sqlite:///{path}", [nothing], worker=False) as app:
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(StepfastError, match="removed or replaced"):
            await app.start(nothing)
        (tmp_path / "elsewhere.db").rename(path)
        await app.start(nothing)
        assert len(await app.runs()) == 1


def runs_seen_by_another_copy(path: Path) -> int:
    """Read the file with Python's own SQLite, which takes the log away: it knows nothing of others in its process."""
    other = sqlite3.connect(path)
    try:
        ((number,),) = other.execute("select count(*) from run")
        return int(number)
    finally:
        other.close()


async def test_nothing_is_answered_for_once_another_sqlite_of_the_process_has_taken_the_log_away(tmp_path):
    path = tmp_path / "app.db"
    async with app_on(f"sqlite:///{path}", [nothing], worker=False) as app:
        await app.start(nothing)
        assert runs_seen_by_another_copy(path) == 1
        with pytest.raises(StepfastError, match=r"write-ahead log of the store .* was removed") as raised:
            await app.start(nothing)
        assert raised.value.code == "E-STORE-003"
    async with app_on(f"sqlite:///{path}", [nothing], worker=False) as app:
        assert len(await app.runs()) == 1


async def test_the_broken_twin_that_does_not_look_at_its_log_answers_for_what_nobody_can_read(tmp_path, monkeypatch):
    monkeypatch.setattr(Writer, "_check_wal", lambda *_: None)
    path = tmp_path / "app.db"
    async with app_on(f"sqlite:///{path}", [nothing], worker=False) as app:
        await app.start(nothing)
        assert runs_seen_by_another_copy(path) == 1
        await app.start(nothing)
        assert runs_seen_by_another_copy(path) == 1


async def test_a_log_that_was_taken_away_during_a_commit_is_not_written_over_what_others_wrote_since(
    tmp_path, monkeypatch
):
    path, check = tmp_path / "app.db", Writer._check_wal

    def check_then_lose(writer, connection, state):
        check(writer, connection, state)
        monkeypatch.setattr(Writer, "_check_wal", check)
        with contextlib.closing(sqlite3.connect(path)) as other:
            assert other.execute("select count(*) from kept").fetchall() == [(0,)]

    writer = Writer(path, lambda: 0, 5_000, "writer")
    await writer.connect()
    try:
        await writer.run(lambda connection: connection.execute("create table kept (n)").fetchall())
        monkeypatch.setattr(Writer, "_check_wal", check_then_lose)
        with pytest.raises(StepfastError, match="What was written last is lost"):
            await writer.run(lambda connection: connection.execute("insert into kept values ('lost')").fetchall())
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.executemany("insert into kept values (zeroblob(500))", [()] * 50)
    finally:
        await writer.close()
    with contextlib.closing(sqlite3.connect(path)) as other:
        assert other.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert other.execute("select count(*), count(*) filter (where n = 'lost') from kept").fetchall() == [(50, 0)]


async def test_the_log_of_a_new_file_stays_when_another_process_closes_the_file_before_anything_is_written(tmp_path):
    path = tmp_path / "app.db"
    writer = Writer(path, lambda: 0, 5_000, "writer")
    await writer.connect()
    try:
        look = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('pragma user_version'); c.close()"
        subprocess.run([sys.executable, "-c", look, str(path)], check=True)
        assert path.with_name("app.db-wal").exists()
        await writer.run(lambda connection: connection.execute("create table kept (n)").fetchall())
    finally:
        await writer.close()


async def test_a_program_may_change_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with app_on("sqlite:///app.db", [nothing], worker=False) as app:
        monkeypatch.chdir("/")
        await app.start(nothing)
        assert len(await app.runs()) == 1
