"""A blob store that will not, cannot or does not: clear words, nothing lost, and no harm to other runs."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import threading
from itertools import pairwise

import pytest

from stepfast import Retry, RunState, Start, StepfastError, StoreUnavailable, receive, step, workflow
from stepfast.engine import keeping
from stepfast.kernel.errors import StoreUnusable
from stepfast.stores.blobs import files
from stepfast.worker import execute as execution
from stepfast.worker import worker as working
from tests.blobs.places import BIG, MoodyBlobs, app_with
from tests.support.apps import Bodies
from tests.support.following import state_of, until
from tests.support.sql import execute

ran = Bodies()


@step
async def make(size: int) -> str:
    ran.ran("make")
    return "x" * size


@step
async def measure(text: str) -> int:
    return len(text)


@workflow
async def chain(size: int) -> int:
    text = await make(size)
    return await measure(text)


@workflow
async def make_and_wait(size: int) -> int:
    text = await make(size)
    await receive("go")
    return len(text)


@workflow
async def give_back(size: int) -> str:
    ran.ran("give_back")
    return "x" * size


@workflow
async def take(text: str) -> int:
    return len(text)


@pytest.fixture(autouse=True)
def soon_again(monkeypatch):
    """A run that is handed back for trouble is not kept waiting by tests."""
    monkeypatch.setattr(execution, "PATIENCE", Retry(base="100ms", factor=1))
    ran.clear()


async def handed_back(run, words: str) -> str:
    """The reason for which a run went back to the line, once one has these words."""

    async def told() -> str | None:
        events = [event for event in await run.history() if event.type == "handed_back"]
        return next((event.data for event in events if event.data and words in event.data), None)

    return await until(told)


async def named(run, words: str) -> str:
    """What `why` says of a run once it has these words: between two tries somebody holds it, and that is why then."""

    async def told() -> str | None:
        reasons = str(await run.why())
        return reasons if words in reasons else None

    return await until(told)


async def parked(app, size: int = BIG):
    run = await app.start(make_and_wait, size)
    await state_of(run, RunState.WAITING)
    return run


DAMAGES = {
    "another content": ("update stepfast.blob set content = {other}", "is not what was put there"),
    "no blob": ("delete from stepfast.blob", "is not in the blob store"),
    "half a reference": ("update stepfast.step set value = '@blob:sha256-12'", "refers to no blob"),
}


@pytest.mark.parametrize(("change", "words"), DAMAGES.values(), ids=DAMAGES)
async def test_a_blob_that_was_tampered_with_hurts_its_own_run_only(database, change, words):
    other = "x'00'" if database.startswith("sqlite") else "'\\x00'"
    async with app_with(database, [make_and_wait], "database") as app:
        bad, good = await parked(app), await parked(app)
        statement = change.format(other=other)
        condition = f"run_id = '{bad.id}'" + (" and name = 'make'" if "stepfast.step" in statement else "")
        await execute(database, f"{statement} where {condition}")
        for run in (bad, good):
            await run.signal("go")
        assert await good.result(timeout="30s") == BIG
        assert "E-BLOB-001: " in await handed_back(bad, words)
        assert await named(bad, "E-BLOB-001: ")
        assert (await bad.info()).state not in (RunState.COMPLETED, RunState.FAILED)
    assert ran["make"] == 2


async def test_a_run_goes_on_when_its_blob_is_back(database, tmp_path):
    folder = tmp_path / "blobs"
    async with app_with(database, [make_and_wait], folder) as app:
        run = await parked(app)
        (file,) = folder.glob("default/*/sha256-*")
        content = file.read_bytes()
        file.write_bytes(content[:-1] + b"!")
        await run.signal("go")
        await handed_back(run, "is not what was put there")
        file.write_bytes(content)
        assert await run.result(timeout="30s") == BIG
    assert ran["make"] == 1


async def test_a_run_goes_on_when_the_whole_folder_is_back(database, tmp_path):
    folder, away = tmp_path / "blobs", tmp_path / "away"
    async with app_with(database, [make_and_wait], folder) as app:
        run = await parked(app)
        shutil.copytree(folder, away)
        shutil.rmtree(folder)
        await run.signal("go")
        assert "E-STORE-001: " in await handed_back(run, "is away")
        shutil.copytree(away, folder)
        assert await run.result(timeout="30s") == BIG
    assert ran["make"] == 1


async def test_a_folder_that_is_away_is_waited_for_and_no_body_runs_again(database, tmp_path, caplog):
    folder, away = tmp_path / "blobs", tmp_path / "away"

    async def is_told() -> bool:
        return "blobs_away" in caplog.text

    async with app_with(database, [chain, take], folder) as app:
        await app.start(take, "x" * BIG)
        folder.rename(away)
        run = await app.start(chain, BIG)
        await until(is_told)
        away.rename(folder)
        assert await run.result(timeout="30s") == BIG
    assert ran["make"] == 1


async def test_a_run_may_be_taken_away_while_it_is_handed_back_for_a_missing_blob(database, monkeypatch):
    putting_off, go_on, complaints = asyncio.Event(), asyncio.Event(), []
    put_off = execution.Execution._put_off

    async def put_off_slowly(self, reason):
        putting_off.set()
        await go_on.wait()
        await put_off(self, reason)

    monkeypatch.setattr(execution.Execution, "_put_off", put_off_slowly)
    stopped = asyncio.Event()
    let_go = execution.Execution.stop

    def stop_and_tell(self, reason):
        let_go(self, reason)
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, stopped.set)

    monkeypatch.setattr(execution.Execution, "stop", stop_and_tell)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with app_with(database, [make_and_wait], "database") as app:
        run = await parked(app)
        await execute(database, f"delete from stepfast.blob where run_id = '{run.id}'")
        await run.signal("go")
        await putting_off.wait()
        await run.cancel()
        await stopped.wait()
        go_on.set()
    assert complaints == []


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_hand_back_is_told_in_the_log_once_it_is_saved(database, monkeypatch, caplog, is_cancelled):
    put_off, has_put_off, told_before = execution.Execution._put_off, asyncio.Event(), []

    async def put_off_behind_a_cancel(self, reason):
        told_before.append("run_handed_back" in caplog.text)
        if is_cancelled:
            await app.get(self._run.run_id).cancel()
        await put_off(self, reason)
        has_put_off.set()

    monkeypatch.setattr(execution.Execution, "_put_off", put_off_behind_a_cancel)
    async with app_with(database, [make_and_wait], "database") as app:
        run = await parked(app)
        await execute(database, f"delete from stepfast.blob where run_id = '{run.id}'")
        await run.signal("go")
        await has_put_off.wait()
    said = ("run_handed_back" in caplog.text, "outcome_not_saved" in caplog.text)
    assert (told_before[0], said) == (False, (not is_cancelled, is_cancelled))
    assert "E-BLOB-001: " in caplog.text


async def test_a_blob_that_stays_away_is_asked_for_ever_more_rarely_and_named(database, monkeypatch):
    monkeypatch.setattr(execution, "PATIENCE", Retry(base="10ms", factor=2, cap="1h", jitter=0))
    async with app_with(database, [make_and_wait], "database") as app:
        run = await parked(app)
        await execute(database, f"delete from stepfast.blob where run_id = '{run.id}'")
        await run.signal("go")
        await handed_back(run, '"troubles": 8')
        why = str(await run.why())
        (finding,) = await app.findings()
    async with app_with(database, [make_and_wait], "database", worker=False) as client:
        events = [event for event in await client.get(run.id).history() if event.type in ("handed_back", "claimed")]
    told = [json.loads(event.data or "{}") for event in events if event.type == "handed_back"]
    pauses = [after.at - before.at for before, after in pairwise(events) if after.type == "claimed"][-7:]
    assert [data["troubles"] for data in told if "troubles" in data][:8] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert all(pause >= 10 * 2**n for n, pause in enumerate(pauses[:7]))
    assert "is not in the blob store" in why
    assert (finding.clause, finding.run_id) == ("lasting_trouble", run.id)
    assert "is not in the blob store" in finding.detail


async def test_a_blob_of_another_run_is_not_read(database):
    async with app_with(database, [take], "database", worker=False) as client:
        first = await client.start(take, "x" * BIG)
        second = await client.start(take, "small")
        reference = (await first.info()).input
    await execute(database, f"update stepfast.run set input = '{reference}' where run_id = '{second.id}'")
    async with app_with(database, [take], "database") as app:
        assert await app.get(first.id).result(timeout="30s") == BIG
        await handed_back(app.get(second.id), "is not in the blob store")


async def test_a_full_disk_gives_the_run_back_and_loses_nothing(database, tmp_path, monkeypatch):
    written, is_full = files._write_new, [True]

    def write(*args) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written(*args)

    monkeypatch.setattr(files, "_write_new", write)
    async with app_with(database, [chain], tmp_path / "blobs") as app:
        large, small = await app.start(chain, BIG), await app.start(chain, 5)
        assert await small.result(timeout="30s") == 5
        assert "the disk is full" in await handed_back(large, "E-STORE-003: ")
        is_full.clear()
        assert await large.result(timeout="30s") == BIG


async def test_an_outcome_that_cannot_be_put_away_gives_the_run_back(database, tmp_path):
    blobs = MoodyBlobs(tmp_path / "blobs")
    blobs.mood = lambda: StoreUnusable("read-only") if ran["give_back"] < 2 else None
    async with app_with(database, [give_back], blobs) as app:
        run = await app.start(give_back, BIG)
        await handed_back(run, "read-only")
        assert await run.result(timeout="30s") == "x" * BIG


async def test_a_blob_store_that_is_away_is_waited_for_and_no_body_runs_again(database, tmp_path):
    blobs = MoodyBlobs(tmp_path / "blobs")
    blobs.mood = lambda: StoreUnavailable("gone fishing") if len(blobs.puts) < 4 else None
    async with app_with(database, [chain], blobs) as app:
        run = await app.start(chain, BIG)
        assert await run.result(timeout="30s") == BIG
    assert ran["make"] == 1


async def test_a_blob_store_that_stays_away_gives_the_run_back_with_the_reason(database, tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "TRIES", 2)
    blobs = MoodyBlobs(tmp_path / "blobs")
    is_away = [True]
    blobs.mood = lambda: StoreUnavailable("gone fishing") if is_away else None
    async with app_with(database, [chain, give_back], blobs) as app:
        of_a_step, of_a_result = await app.start(chain, BIG), await app.start(give_back, BIG)
        for run_id in (of_a_step.id, of_a_result.id):
            assert "E-STORE-001: gone fishing" in await handed_back(app.get(run_id), '"troubles": 3')
            assert await named(app.get(run_id), "E-STORE-001: gone fishing")
        is_away.clear()
        assert (await of_a_step.result(timeout="30s"), await of_a_result.result(timeout="30s")) == (BIG, "x" * BIG)


async def test_blobs_in_a_database_that_is_away_are_waited_for_as_that_is(database, monkeypatch):
    monkeypatch.setattr(keeping, "TRIES", 2)
    tried = []
    async with app_with(database, [chain], "database") as app:
        blobs = app._open_parts().values.blobs
        put = blobs.put

        async def put_late(*args) -> None:
            tried.append(args)
            if len(tried) < 4:
                raise StoreUnavailable("gone fishing")
            await put(*args)

        monkeypatch.setattr(blobs, "put", put_late)
        assert await (await app.start(chain, BIG)).result(timeout="30s") == BIG
    assert ran["make"] == 1


async def test_what_a_foreign_blob_store_raises_is_told_with_a_code(database, tmp_path):
    blobs = MoodyBlobs(tmp_path / "blobs")
    troubles = [RuntimeError("no such bucket")]
    blobs.mood = lambda: troubles.pop() if troubles else None
    async with app_with(database, [chain], blobs) as app:
        run = await app.start(chain, BIG)
        assert "no such bucket" in await handed_back(run, "E-BLOB-002: ")
        assert await run.result(timeout="30s") == BIG


async def test_a_start_whose_input_cannot_be_put_away_is_refused_and_stores_nothing(database, tmp_path):
    blobs = MoodyBlobs(tmp_path / "blobs")
    blobs.mood = lambda: StoreUnusable("the disk is full")
    async with app_with(database, [take], blobs, worker=False) as client:
        with pytest.raises(StepfastError, match="the disk is full"):
            await client.start(take, "x" * BIG)
        refused, stored = await client.start_many([Start(take, "x" * BIG), Start(take, "small")])
        assert refused.error is not None
        assert refused.error.code == "E-STORE-003"
        assert [view.run_id for view in await client.runs()] == [stored.run.id if stored.run else None]


async def test_a_signal_that_cannot_be_put_away_is_refused_and_delivers_nothing(database, tmp_path):
    blobs = MoodyBlobs(tmp_path / "blobs")
    async with app_with(database, [make_and_wait], blobs) as app:
        run = await parked(app, 5)
        blobs.mood = lambda: StoreUnusable("the disk is full")
        with pytest.raises(StoreUnusable):
            await run.signal("go", "x" * BIG)
        assert "signalled" not in [event.type for event in await run.history()]


async def test_an_app_closes_in_time_while_its_blob_store_is_away(database, tmp_path, monkeypatch):
    monkeypatch.setattr(working, "HAND_BACK_S", 0.1)
    blobs = MoodyBlobs(tmp_path / "blobs")
    blobs.mood = lambda: StoreUnavailable("gone fishing")
    async with app_with(database, [chain], blobs) as app:
        run = await app.start(chain, BIG)

        async def has_tried() -> bool:
            return len(blobs.puts) > 1

        await until(has_tried)
    blobs.mood = lambda: None
    async with app_with(database, [chain], blobs) as app:
        assert await app.get(run.id).result(timeout="30s") == BIG


async def test_an_app_whose_blob_folder_cannot_be_used_does_not_open(database, tmp_path):
    (tmp_path / "blobs").write_text("a file in the folder's place")
    with pytest.raises(StoreUnusable, match=r"blob folder .*/blobs"):
        async with app_with(database, [chain], tmp_path / "blobs"):
            pass


async def test_a_blob_store_that_cannot_even_be_closed_keeps_no_store_open(database, tmp_path):
    class Clinging(MoodyBlobs):
        async def close(self) -> None:
            await super().close()
            raise RuntimeError("I stay")

    before = set(threading.enumerate())
    with pytest.raises(StepfastError, match="I stay"):
        async with app_with(database, [chain], Clinging(tmp_path / "blobs")):
            pass
    left = set(threading.enumerate()) - before
    assert [thread.name for thread in left if thread.name.startswith("stepfast-")] == []
