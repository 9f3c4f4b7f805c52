"""A blob folder that is not mounted: whatever is done meanwhile, no other takes its place and nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager

import pytest

from stepfast import Retry, RunState, StoreUnavailable, receive, step, storage, workflow
from stepfast.engine import keeping
from stepfast.kernel.blobs import NO_RUN
from stepfast.stores.blobs.memory import StoreMemory
from stepfast.stores.blobs.problems import IDENTITY
from stepfast.worker import execute as execution
from tests.blobs.places import BIG, app_with
from tests.blobs.test_trouble import handed_back, named
from tests.cli.invoking import Office
from tests.cli.test_doctor import examined
from tests.support.apps import Bodies, migrated
from tests.support.following import state_of, until
from tests.support.sql import execute

ran = Bodies()


@step
async def make(size: int) -> str:
    ran.ran("make")
    return "x" * size


@workflow
async def make_and_wait(size: int) -> int:
    text = await make(size)
    await receive("go")
    return len(text)


@step(retry=Retry(attempts=1))
async def save_and_load() -> int:
    ran.ran("save_and_load")
    if not await storage.exists("page"):
        await storage.save("page", b"x" * 1_000)
    moments["saved"].set()
    await moments["go_on"].wait()
    return len(await storage.load("page"))


@workflow
async def keep() -> int:
    return await save_and_load()


@step(retry=Retry(attempts=1))
async def save_and_load_in_a_group() -> int:
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(save_and_load())
    return loading.result()


@workflow
async def keep_in_a_group() -> int:
    return await save_and_load_in_a_group()


moments: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def soon_again(monkeypatch):
    """Neither the worker nor a run that it hands back keeps tests waiting."""
    monkeypatch.setattr(execution, "PATIENCE", Retry(base="100ms", factor=1))
    monkeypatch.setattr(keeping, "TRIES", 3)
    monkeypatch.setattr(keeping, "LONGEST_PAUSE_S", 0.05)
    ran.clear()
    moments.update(saved=asyncio.Event(), go_on=asyncio.Event())


@pytest.fixture
def office(database, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPFAST_BLOBS", str(tmp_path / "blobs"))
    return Office(database)


async def parked(app):
    run = await app.start(make_and_wait, BIG)
    await state_of(run, RunState.WAITING)
    return run


@asynccontextmanager
async def unmounted(folder):
    """While the folder is not mounted, an empty one is there; what is in that by the end is out of sight."""
    disk = folder.with_name("disk")
    folder.rename(disk)
    folder.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(folder)
        disk.rename(folder)


COMMANDS = {
    "doctor": ["doctor"],
    "list": ["runs", "list"],
    "show": ["runs", "show", "RUN"],
    "why": ["runs", "why", "RUN"],
    "pause": ["runs", "pause", "RUN"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
async def test_no_command_makes_a_folder_in_the_place_of_one_that_is_away(database, tmp_path, office, command):
    folder = tmp_path / "blobs"
    async with app_with(database, [make_and_wait], folder) as app:
        run = await parked(app)
        async with unmounted(folder):
            done = await office(*(part.replace("RUN", run.id) for part in command))
            assert (done.code, list(folder.iterdir())) == (int(command == ["doctor"]), [])


async def run_through_an_outage(database, folder, office):
    """A run whose large result comes while the folder is away, and after a command and a new worker."""
    async with app_with(database, [make_and_wait], folder) as app:
        first = await parked(app)
    async with unmounted(folder), app_with(database, [make_and_wait], folder) as app:
        await office("doctor")
        second = await app.start(make_and_wait, BIG)
        await until(lambda: told_or_parked(second))
    async with app_with(database, [make_and_wait], folder) as app:
        for run in (first, second):
            await app.get(run.id).signal("go")
        return app.get(first.id), await outcome(app.get(second.id)), await outcome(app.get(first.id))


async def told_or_parked(run) -> bool:
    is_told = any(event.type == "handed_back" for event in await run.history())
    return is_told or (await run.info()).state is RunState.WAITING


async def outcome(run) -> object:
    """Its result, or why it has none."""

    async def found() -> object:
        if (await run.info()).state is RunState.COMPLETED:
            return await run.result()
        back = [event.data for event in await run.history() if event.type == "handed_back"]
        return next((data for data in back if "is not in the blob store" in data), None)

    return await until(found)


async def test_what_is_made_while_the_folder_is_away_is_there_when_it_is_back(database, tmp_path, office):
    _, second, first = await run_through_an_outage(database, tmp_path / "blobs", office)
    assert (second, first) == (BIG, BIG)


async def test_twin_a_database_that_does_not_remember_the_folder_loses_what_is_made(
    database, tmp_path, office, monkeypatch
):
    async def recall(self):
        return None

    async def remember(self, identity):
        return identity

    monkeypatch.setattr(StoreMemory, "recall", recall)
    monkeypatch.setattr(StoreMemory, "remember", remember)
    _, second, first = await run_through_an_outage(database, tmp_path / "blobs", office)
    assert first == BIG
    assert "E-BLOB-001" in str(second)


async def test_why_and_doctor_say_that_the_folder_is_away(database, tmp_path, office):
    folder = tmp_path / "blobs"
    async with app_with(database, [make_and_wait], folder) as app:
        reads = await parked(app)
        async with unmounted(folder):
            writes = await app.start(make_and_wait, BIG)
            await reads.signal("go")
            for run in (reads, writes):
                assert "E-STORE-001: " in await handed_back(run, f"{folder} is away")
                assert await named(run, f"{folder} is away")
            level, text = (await examined(office, code=1))["blobs"]
        assert (level, f"{folder} is away" in text, "Put it back" in text) == ("fail", True, True)
        assert await reads.result(timeout="30s") == BIG
        await writes.signal("go")
        assert await writes.result(timeout="30s") == BIG


@workflow
async def make_several(size: int) -> int:
    return sum(map(len, await asyncio.gather(*(make(size) for _ in range(5)))))


async def test_a_run_with_several_values_waits_for_the_folder_once_and_is_handed_back(database, tmp_path, caplog):
    folder = tmp_path / "blobs"
    async with app_with(database, [make_and_wait, make_several], folder) as app:
        await parked(app)
        async with unmounted(folder):
            run = await app.start(make_several, BIG)

            async def tries_before_it() -> int | None:
                told = [line.partition(" ")[0] for line in caplog.messages if run.id in line]
                return told[: told.index("run_handed_back")].count("blobs_away") if "run_handed_back" in told else None

            assert await until(tries_before_it) <= keeping.TRIES + 4
        assert await run.result(timeout="30s") == 5 * BIG


@pytest.mark.parametrize("flow", [keep, keep_in_a_group])
async def test_a_body_that_reads_while_the_folder_is_away_has_not_failed(database, tmp_path, flow):
    folder = tmp_path / "blobs"
    async with app_with(database, [flow], folder) as app:
        run = await app.start(flow)
        await moments["saved"].wait()
        async with unmounted(folder):
            moments["go_on"].set()
            assert "E-STORE-001: " in await handed_back(run, '"troubles": 2')
        assert await run.result(timeout="30s") == 1_000
        (record,) = await run.steps()
    assert (record.attempt, record.state) == (1, "completed")


async def test_doctor_says_where_large_values_are_and_makes_nothing(database, office, tmp_path, monkeypatch):
    await migrated(database)
    assert (await examined(office))["blobs"] == ("ok", f"Large values can be read: blobs in {tmp_path / 'blobs'}. ")
    assert not (tmp_path / "blobs").exists()
    monkeypatch.setenv("STEPFAST_BLOBS", "database")
    assert (await examined(office))["blobs"] == ("ok", "Large values can be read: blobs in the database. ")


async def test_processes_that_put_first_at_once_have_one_folder(database, tmp_path):
    folder = tmp_path / "blobs"
    async with app_with(database, [make_and_wait], folder) as one, app_with(database, [make_and_wait], folder) as other:
        runs = await asyncio.gather(*(app.start(make_and_wait, BIG) for app in (one, other) * 3))
        for run in runs:
            await run.signal("go")
        assert await asyncio.gather(*(run.result(timeout="30s") for run in runs)) == [BIG] * 6


async def test_a_process_that_was_told_another_folder_later_makes_none_of_it(database, tmp_path):
    async with app_with(database, [make_and_wait], tmp_path / "blobs") as app:
        await parked(app)
    (tmp_path / "other").mkdir()
    async with app_with(database, [make_and_wait], tmp_path / "other", worker=False) as app:
        with pytest.raises(StoreUnavailable, match="is away"):
            await app._open_parts().values.keep("acme", NO_RUN, "x" * BIG)
    assert list((tmp_path / "other").iterdir()) == []


async def test_a_database_from_before_the_first_large_value_takes_the_folder_for_its_own(database, tmp_path):
    folder = tmp_path / "blobs"
    async with app_with(database, [make_and_wait], folder) as app:
        await parked(app)
    identity = (folder / IDENTITY).read_text()
    await execute(database, "delete from stepfast.blob")
    async with app_with(database, [make_and_wait], folder) as app:
        run = await parked(app)
        await run.signal("go")
        assert await run.result(timeout="30s") == BIG
    assert (folder / IDENTITY).read_text() == identity
