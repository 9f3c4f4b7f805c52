"""What SQLite complains about is told by what is wrong, also where SQLite itself does not know."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import apsw
import pytest

from stepfast.kernel.errors import StoreUnavailable, StoreUnusable
from stepfast.stores.sqlite.problems import SHM_BYTES, explained

VAGUE = {"io": apsw.IOError("disk I/O error"), "opening": apsw.CantOpenError("unable to open database file")}


def told(path, problem) -> str:
    with pytest.raises((StoreUnavailable, StoreUnusable)) as raised, explained(path):
        raise problem
    return str(raised.value)


@pytest.mark.parametrize("problem", VAGUE.values(), ids=VAGUE)
def test_a_full_disk_is_named_where_sqlite_knows_only_that_something_failed(monkeypatch, tmp_path, problem):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=SHM_BYTES - 1))
    assert "cannot grow: the disk is full. Nothing was written; free some space" in told(tmp_path / "app.db", problem)


@pytest.mark.parametrize("problem", VAGUE.values(), ids=VAGUE)
def test_a_disk_with_room_is_not_blamed(monkeypatch, tmp_path, problem):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=SHM_BYTES))
    assert "full" not in told(tmp_path / "app.db", problem)


def test_a_folder_that_is_gone_is_told_as_before(tmp_path):
    assert "cannot be read or written by the system" in told(tmp_path / "gone" / "app.db", VAGUE["io"])


def test_of_a_file_that_looks_damaged_both_remedies_are_named(tmp_path):
    words = told(tmp_path / "app.db", apsw.CorruptError("database disk image is malformed"))
    assert "Restart the process; if that does not help, put a backup in its place" in words


def test_of_a_file_that_cannot_be_written_those_beside_it_are_named_too(tmp_path):
    """Whoever reads a read-only file leaves a log and an index beside it that are read-only too, and stay so."""
    words = told(tmp_path / "app.db", apsw.ReadOnlyError("attempt to write a readonly database"))
    assert "Allow writing to app.db, to app.db-wal and app.db-shm where they exist, and to their folder" in words
    assert "mount their disk for writing" in words


LACKING = ["select place from task", "select due_at from run", "insert into run (due_at) values (1)"]


@pytest.mark.parametrize("statement", LACKING)
def test_a_table_or_column_that_is_not_there_is_told_of_whether_it_is_read_or_written(tmp_path, statement):
    connection = apsw.Connection(":memory:")
    connection.execute("create table run (run_id text)")
    with pytest.raises(StoreUnusable, match="lacks a table or column that it should have"), explained(tmp_path):
        connection.execute(statement)
