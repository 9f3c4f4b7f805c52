"""A blob store that does not answer, as a mount that hangs: its runs say so, and nothing stands still for it."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from stepfast import Retry, step, workflow
from stepfast.engine import keeping, values
from stepfast.kernel.blobs import BlobKey, BlobsAway
from stepfast.kernel.errors import BlobsFailed
from stepfast.stores.blobs import files
from stepfast.stores.blobs.folder import FolderBlobs
from stepfast.worker import execute as execution
from tests.blobs.places import BIG, app_with
from tests.blobs.test_committing import Desk, held
from tests.support.following import told

RUNS = values.AT_ONCE + 2


class HangingBlobs(FolderBlobs):
    """A folder whose calls do not come back while the test wants it."""

    is_hanging = False

    async def put(self, key: BlobKey, content: bytes) -> None:
        await self._hang()
        await super().put(key, content)

    async def get(self, key: BlobKey) -> bytes | None:
        await self._hang()
        return await super().get(key)

    async def _hang(self) -> None:
        if self.is_hanging:
            await asyncio.get_running_loop().create_future()


@step
async def make(size: int) -> str:
    return "x" * size


@workflow
async def chain(size: int) -> int:
    return len(await make(size))


@workflow
async def measure(text: str) -> int:
    return len(text)


@pytest.fixture
def impatient(monkeypatch):
    """Nobody waits long for a blob store here, and runs are tried again soon."""
    monkeypatch.setattr(values, "ANSWER_S", 0.1)
    monkeypatch.setattr(values, "CLOSE_S", 0.1)
    monkeypatch.setattr(keeping, "PATIENCE_S", 0.1)
    monkeypatch.setattr(execution, "PATIENCE", Retry(base="100ms", factor=1))


async def reason(run) -> str:
    """Why the run was handed back, once it was."""
    await told(run, "handed_back")
    return next(str(event.data) for event in await run.history() if event.type == "handed_back")


async def test_runs_are_given_back_by_a_blob_store_that_does_not_answer(database, tmp_path, impatient):
    blobs = HangingBlobs(tmp_path / "blobs")
    blobs.is_hanging = True
    async with app_with(database, [chain], blobs) as app:
        runs = [await app.start(chain, BIG) for _ in range(RUNS)]
        for run in runs:
            assert "E-STORE-001: The blob store" in await reason(run)
        assert await (await app.start(chain, 1)).result(timeout="30s") == 1
        blobs.is_hanging = False
        assert [await run.result(timeout="30s") for run in runs] == [BIG] * RUNS


async def test_a_start_whose_input_a_blob_store_does_not_take_is_refused_in_time(database, tmp_path, impatient):
    blobs = HangingBlobs(tmp_path / "blobs")
    blobs.is_hanging = True
    async with app_with(database, [measure], blobs, worker=False) as app:
        with pytest.raises(BlobsAway, match="does not answer"):
            await app.start(measure, "x" * BIG)
        assert await app.runs() == []


@pytest.mark.parametrize("limit_s", [0.01, pytest.param(math.inf, id="twin")])
async def test_twin_without_a_limit_a_decision_waits_for_ever(monkeypatch, limit_s):
    monkeypatch.setattr(values, "ANSWER_S", limit_s)
    monkeypatch.setattr(keeping, "PATIENCE_S", 0.0)
    desk = Desk()
    answer = desk.save(held("a"), "large", "x" * 101)
    done, _ = await asyncio.wait([answer], timeout=0.5)
    assert bool(done) == (limit_s < math.inf)
    desk.blobs.gate.set()
    await asyncio.wait([answer])
    await desk.close()


async def test_an_app_closes_although_its_blob_folder_hangs(database, tmp_path, impatient, monkeypatch):
    is_in, gate = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        is_in.set()
        gate.wait()

    async def start_and_close() -> None:
        async with app_with(database, [measure], tmp_path / "blobs", worker=False) as app:
            with pytest.raises(BlobsAway, match="does not answer"):
                await app.start(measure, "x" * BIG)

    monkeypatch.setattr(files.Files, "make", hang)
    try:
        with pytest.raises(BlobsAway, match="does not answer"):
            await start_and_close()
        assert is_in.is_set()
    finally:
        gate.set()


async def test_a_blob_store_whose_own_work_is_called_off_gives_the_run_back(database, tmp_path, impatient):
    class CalledOff(FolderBlobs):
        is_upset = True

        async def put(self, key: BlobKey, content: bytes) -> None:
            if self.is_upset:
                raise asyncio.CancelledError
            await super().put(key, content)

    blobs = CalledOff(tmp_path / "blobs")
    async with app_with(database, [chain], blobs) as app:
        run = await app.start(chain, BIG)
        assert f"{BlobsFailed.code}: The blob store" in await reason(run)
        blobs.is_upset = False
        assert await run.result(timeout="30s") == BIG
