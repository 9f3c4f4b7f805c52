"""Few statements to a transaction: at each of them the thread that holds the file's lock can lose its turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.errors import StoreUnusable
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.troubles import UNREADABLE
from stepfast.stores.sqlite import claiming
from stepfast.stores.sqlite.pending import WIDEST, Pending, write_rows
from tests.stores import sqlite
from tests.stores.harness import Harness, end, step

INSERT = "insert into fact (number, word)\nvalues (?, 'a')"


@pytest.fixture
def harness(sqlite_harness: Harness) -> Harness:
    return sqlite_harness


@pytest.fixture
def facts() -> apsw.Connection:
    connection = apsw.Connection("")
    connection.execute("create table fact (position integer primary key, number integer unique, word text)")
    return connection


@contextmanager
def statements_of(connection: apsw.Connection) -> Iterator[list[str]]:
    """The statements that are carried out meanwhile, each as often as it is; what triggers do is a part of them."""
    seen: list[str] = []

    def note(event: dict[str, Any]) -> None:
        if not event["trigger"]:
            seen.append(event["sql"])

    connection.trace_v2(apsw.SQLITE_TRACE_STMT, note)
    yield seen
    connection.trace_v2(0)


def writer_of(harness: Harness) -> apsw.Connection:
    store: Any = harness.store
    connection: apsw.Connection = store._writer._connection
    return connection


@pytest.mark.parametrize("count", [0, 1, 2, 3, WIDEST - 1, WIDEST, WIDEST + 1, 3 * WIDEST + 5])
def test_rows_are_written_in_order_by_a_statement_for_many_of_them(facts, count):
    numbers = list(range(count, 0, -1))
    with statements_of(facts) as seen:
        write_rows(facts, INSERT, [(number,) for number in numbers])
    assert facts.execute("select number from fact order by position").fetchall() == [(number,) for number in numbers]
    assert len(seen) <= count // WIDEST + 3


def test_a_statement_that_inserts_nothing_is_carried_out_for_each_row(facts):
    write_rows(facts, INSERT, [(1,), (2,), (3,)])
    write_rows(facts, "update fact set word = ? where number = ?", [("b", 2), ("c", 3)])
    assert facts.execute("select word from fact order by number").fetchall() == [("a",), ("b",), ("c",)]


def test_what_takes_a_list_is_carried_out_once(facts):
    write_rows(facts, INSERT, [(1,), (2,), (3,)])
    pending = Pending({"forget": "delete from fact where number in (select value from json_each(?))"})
    pending.lists["forget"] += [1, 3]
    with statements_of(facts) as seen:
        pending.write(facts)
    assert (len(seen), facts.execute("select number from fact").get) == (1, 2)


async def test_a_claim_takes_no_more_statements_for_more_runs(harness):
    await harness.enrol()
    counts = []
    for room in (2, 8):
        await harness.start_many(room)
        with statements_of(writer_of(harness)) as seen:
            assert len(await harness.claim(room=room)) == room
        counts.append(len(seen))
    assert counts[0] == counts[1]


async def test_a_claim_takes_no_more_statements_for_more_codes(harness):
    await harness.enrol()
    counts = []
    for codes in (("order@1",), ("order@1", *(f"other@{version}" for version in range(20)))):
        await harness.start_many(2)
        with statements_of(writer_of(harness)) as seen:
            assert len(await harness.claim(room=2, codes=codes)) == 2
        counts.append(len(seen))
    assert counts[0] == counts[1]


async def test_a_commit_takes_no_more_statements_for_more_runs(harness):
    await harness.enrol()
    counts = []
    for size in (2, 8):
        await harness.start_many(size)
        runs = await harness.claim(room=size)
        with statements_of(writer_of(harness)) as seen:
            for decide in (step, end):
                assert await harness.save(*map(decide, runs)) == [Saving.SAVED] * size
        counts.append(len(seen))
    assert counts[0] == counts[1]


@pytest.fixture
async def raced(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> tuple[Harness, RunId]:
    """Two ready runs, of which the first is cancelled when a claim is committed and not yet read; and the second."""
    first, second = await harness.start_many(2)
    await harness.enrol()
    held_runs = claiming.held_runs

    def cancelled_meanwhile(connection: apsw.Connection, leased: list[RunId], worker_id: WorkerId) -> list[HeldRun]:
        connection.execute("delete from task where run_id = ?", (first,))
        return held_runs(connection, leased, worker_id)

    monkeypatch.setattr(claiming, "held_runs", cancelled_meanwhile)
    return harness, second


async def test_a_run_that_is_cancelled_before_its_claim_is_read_is_not_handed_out(raced):
    harness, second = raced
    assert [run.run_id for run in await harness.claim(room=2)] == [second]


async def test_a_claim_that_lost_all_it_took_takes_what_else_is_ready(raced):
    harness, second = raced
    assert [run.run_id for run in await harness.claim(room=1)] == [second]


def damage_input(harness: Harness, *run_ids: str) -> None:
    for run_id in run_ids:
        writer_of(harness).execute("update run set input = cast(x'ff' as text) where run_id = ?", (run_id,))


async def test_a_run_whose_text_is_damaged_does_not_cost_the_others_their_claim(harness):
    first, damaged, last = await harness.start_many(3)
    await harness.enrol()
    damage_input(harness, damaged)
    claimed = {run.run_id: run.input for run in await harness.claim()}
    assert [run_id for run_id, text in claimed.items() if text != UNREADABLE] == [first, last]
    assert claimed[damaged] == UNREADABLE


async def test_damaged_runs_alone_are_handed_out_as_such(harness):
    damage_input(harness, *await harness.start_many(2))
    await harness.enrol()
    assert [run.input for run in await harness.claim()] == [UNREADABLE] * 2


class NoFolderForTemporaryFiles(apsw.VFS):
    """The files of a system whose folders for temporary ones are full, missing or not to be written."""

    def __init__(self) -> None:
        super().__init__("no-temporary-files", "", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if flags[0] & apsw.SQLITE_OPEN_SUBJOURNAL:
            raise apsw.CantOpenError("no folder for temporary files")
        return super().xOpen(name, flags)


@pytest.fixture
async def cramped(tmp_path: Path) -> AsyncIterator[Harness]:
    folders = NoFolderForTemporaryFiles()
    try:
        async with sqlite.harness_on(tmp_path / "stepfast.db") as harness:
            await harness.enrol()
            yield harness
    finally:
        folders.unregister()


async def test_many_rows_are_written_where_no_temporary_file_can_be(cramped):
    await cramped.start_many(2_000)
    runs = await cramped.claim(room=500)
    for decide in (step, end):
        assert await cramped.save(*map(decide, runs)) == [Saving.SAVED] * 500


async def test_twin_statements_for_many_rows_need_temporary_files(cramped):
    writer_of(cramped).execute("pragma temp_store = file")
    with pytest.raises(StoreUnusable, match="no folder for temporary files"):
        await cramped.start_many(2_000)
