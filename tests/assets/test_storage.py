"""A step's own storage, in both worlds: what it keeps, who finds it, and what becomes of it when the step is redone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepfast import Invalid, LeaseLost, Retry, RunFailed, WrongCall, step, storage, workflow
from stepfast.kernel.blobs import BlobFilter, BlobKey
from stepfast.kernel.errors import AssetNotFound, BlobDamaged
from stepfast.stores import assets as rows
from stepfast.testing import crash_points
from tests.assets.test_putting import HOSTILE
from tests.support.apps import app_on

AT_ONCE = Retry(attempts=2, base=0)


@dataclass
class Point:
    x: int
    y: int


@step
async def keeps_everything() -> list[Any]:
    await storage.save("value", {"a": [1, None]})
    await storage.save("point", Point(1, 2))
    await storage.save("bytes", b"\0\1")
    await storage.save("nothing", None)
    await storage.save("gone", 1)
    await storage.delete("gone")
    await storage.delete("never there")
    assert await storage.load("point", Point) == Point(1, 2)
    assert await storage.load("bytes") == b"\0\1"
    assert (await storage.exists("gone"), await storage.exists("nothing")) == (False, True)
    return [await storage.load("value"), await storage.load("nothing"), await storage.list()]


@step
def keeps_everything_in_a_thread() -> list[Any]:
    storage.save.sync("value", {"a": [1, None]})
    storage.save.sync("point", Point(1, 2))
    storage.save.sync("bytes", b"\0\1")
    storage.save.sync("nothing", None)
    storage.save.sync("gone", 1)
    storage.delete.sync("gone")
    assert storage.load.sync("point", Point) == Point(1, 2)
    assert storage.load.sync("bytes") == b"\0\1"
    assert (storage.exists.sync("gone"), storage.exists.sync("nothing")) == (False, True)
    return [storage.load.sync("value"), storage.load.sync("nothing"), storage.list.sync()]


@step
def keeps_in_a_loop_of_its_own() -> list[str]:
    async def work() -> list[str]:
        await storage.save("a", 1)
        return await storage.list()

    return asyncio.run(work())


@workflow
async def keeping() -> list[Any]:
    return [await keeps_everything(), await keeps_everything_in_a_thread.aio(), await keeps_in_a_loop_of_its_own.aio()]


async def test_what_is_kept_is_loaded_as_it_was_in_both_worlds(database):
    expected = [{"a": [1, None]}, None, ["bytes", "nothing", "point", "value"]]
    async with app_on(database, [keeping]) as app:
        run = await app.start(keeping)
        assert await run == [expected, expected, ["a"]]
        kept = await run.artifacts(all=True)
        assert [each.name for each in kept if each.step == "keeps_everything#1"] == expected[2]
        assert await run.artifacts() == []


@step(retry=Retry(attempts=1))
async def loads(name: str) -> Any:
    return await storage.load(name)


@workflow
async def loading(name: str) -> Any:
    return await loads(name)


async def test_what_was_never_kept_cannot_be_loaded(database):
    async with app_on(database, [loading]) as app:
        with pytest.raises(RunFailed) as raised:
            await (await app.start(loading, "draft"))
        assert isinstance(raised.value.__cause__, AssetNotFound)
        assert "loads#1 has saved nothing as 'draft'" in str(raised.value.__cause__)


@step
async def keeps_by_hostile_names() -> list[str]:
    return [what for what, name in HOSTILE.items() for door in DOORS if not await is_refused(door, name)]


async def is_refused(door: Callable[[Any], Awaitable[object]], name: Any) -> bool:
    try:
        await door(name)
    except Invalid:
        return True
    return False


DOORS: list[Callable[[Any], Awaitable[object]]] = [
    lambda name: storage.save(name, 1),
    storage.load,
    storage.exists,
    storage.delete,
    lambda name: storage.artifact(name, b"a"),
]


@workflow
async def keeping_by_hostile_names() -> list[str]:
    return await keeps_by_hostile_names()


async def test_a_hostile_name_is_refused(database):
    async with app_on(database, [keeping_by_hostile_names]) as app:
        run = await app.start(keeping_by_hostile_names)
        assert await run == []
        assert await run.artifacts(all=True) == []


@step(retry=AT_ONCE)
async def draws() -> str:
    if not await storage.exists("draft"):
        await storage.save("draft", "half")
        await storage.artifact("plan.txt", "of the first attempt")
        raise ValueError("the first attempt fails")
    await storage.artifact("plan.txt", "of the second attempt")
    return f"{await storage.load('draft')} and half"


@workflow
async def drawing() -> str:
    return await draws()


async def test_a_retry_goes_on_from_what_was_kept_and_overwrites_nothing(database):
    async with app_on(database, [drawing]) as app:
        run = await app.start(drawing)
        assert await run == "half and half"
        assert await run.artifact("plan.txt") == b"of the second attempt"
        plans = [each for each in await run.artifacts(all=True) if each.name == "plan.txt"]
        assert [(each.attempt, each.superseded) for each in plans] == [(2, False), (1, True)]
        assert await run.artifact(plans[1]) == b"of the first attempt"


async def test_a_rerun_supersedes_what_was_kept(database):
    async with app_on(database, [drawing]) as app:
        run = await app.start(drawing)
        await run
        await run.rerun()
        await run
        kept = await run.artifacts(all=True)
        assert {(each.generation, each.superseded) for each in kept if each.name == "draft"} == {(1, True), (2, False)}
        (plan,) = await run.artifacts()
        assert (plan.generation, plan.attempt) == (2, 2)
        assert {await run.artifact(each) for each in kept if each.name == "plan.txt"} == {
            b"of the first attempt",
            b"of the second attempt",
        }


@step
async def shows(folder: str) -> None:
    path = Path(folder) / "chart.png"
    path.write_bytes(b"png")
    await storage.artifact("chart", path)
    await storage.artifact("note", "a note", media_type="text/markdown")
    await storage.artifact("raw", b"raw")


@step
def shows_in_a_thread() -> None:
    storage.artifact.sync("note", "another")


@workflow
async def showing(folder: str) -> None:
    await shows(folder)
    await shows_in_a_thread.aio()


async def test_artifacts_are_listed_with_their_run(database, tmp_path):
    async with app_on(database, [showing]) as app:
        run = await app.start(showing, str(tmp_path), tenant="acme")
        await run
        assert [(each.step, each.name, each.media_type, each.size) for each in await run.artifacts()] == [
            ("shows#1", "chart", "image/png", 3),
            ("shows#1", "note", "text/markdown", 6),
            ("shows#1", "raw", "application/octet-stream", 3),
            ("shows_in_a_thread#1", "note", "text/plain", 7),
        ]
        assert await run.artifact("chart") == b"png"
        assert await run.artifact("note", step="shows_in_a_thread") == b"another"
        with pytest.raises(Invalid, match="2 artifacts 'note', of shows#1 and shows_in_a_thread#1"):
            await run.artifact("note")
        with pytest.raises(AssetNotFound, match="no artifact 'gone'"):
            await run.artifact("gone")


async def test_an_artifact_that_was_changed_in_the_blob_store_is_found_out(database, tmp_path):
    async with app_on(database, [showing]) as app:
        run = await app.start(showing, str(tmp_path))
        await run
        blobs = app._open_parts().values.blobs
        for info in await blobs.list(BlobFilter()):
            await blobs.put(BlobKey(*info.key), b"changed")
        with pytest.raises(BlobDamaged, match="Artifact 'chart' of step shows#1"):
            await run.artifact("chart")


@step
async def blocks() -> None:
    storage.save.sync("a", 1)


@step
def does_not_await() -> None:
    _ = storage.save("a", 1)


@workflow
async def saves_itself() -> None:
    await storage.save("a", 1)


@workflow
def saves_itself_in_a_thread() -> None:
    storage.save.sync("a", 1)


@workflow
async def blocking() -> None:
    await blocks()


@workflow
async def not_awaiting() -> None:
    await does_not_await.aio()


WRONG = [
    (blocking, "await storage.save"),
    (not_awaiting, "storage.save.sync"),
    (saves_itself, "@step"),
    (saves_itself_in_a_thread, "@step"),
]


@pytest.mark.parametrize(("wrong", "remedy"), WRONG, ids=["blocks", "not awaited", "workflow", "def workflow"])
async def test_the_wrong_call_is_refused_with_the_right_one(database, wrong, remedy):
    async with app_on(database, [wrong]) as app:
        with pytest.raises(RunFailed) as raised:
            await (await app.start(wrong))
        assert isinstance(raised.value.__cause__, WrongCall)
        assert remedy in str(raised.value.__cause__)


async def test_outside_a_run_there_is_no_storage():
    with pytest.raises(WrongCall, match="outside the body of a step"):
        await storage.save("a", 1)
    with pytest.raises(WrongCall, match="outside the body of a step"):
        await keeps_everything()


class Late:
    """A body that goes on when its run is somebody else's."""

    begun: asyncio.Event
    saving: asyncio.Future[asyncio.Task[str]]


@step
async def saves_late() -> None:
    Late.begun.set()
    try:
        await asyncio.Event().wait()
    finally:
        # Its cancellation does not reach what it leaves behind.
        Late.saving.set_result(asyncio.create_task(save_anyway()))


async def save_anyway() -> str:
    try:
        await storage.artifact("late", b"too late")
    except LeaseLost:
        return "refused"
    return "saved"


@workflow
async def saving_late() -> None:
    await saves_late()


async def save_after_a_cancel(database: str) -> tuple[str, list[str]]:
    """What a body that outlives its run's cancellation is told, and what is listed then."""
    Late.begun, Late.saving = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with app_on(database, [saving_late]) as app:
        run = await app.start(saving_late)
        await Late.begun.wait()
        await run.cancel()
        return await (await Late.saving), [each.name for each in await run.artifacts(all=True)]


async def test_a_body_whose_run_was_taken_away_cannot_save(database):
    assert await save_after_a_cancel(database) == ("refused", [])


async def test_the_broken_twin_without_the_fence_saves_what_is_too_late(database, monkeypatch):
    def nobody_asks(fence):
        yield from ()

    monkeypatch.setattr(rows, "_check_fence", nobody_asks)
    assert await save_after_a_cancel(database) == ("saved", ["late"])


@step
async def counts() -> int:
    number = await storage.load("number") if await storage.exists("number") else 0
    await storage.save("number", number + 1)
    await storage.artifact("report", f"at least {number}")
    return 1


@workflow
async def counting() -> int:
    return await counts() + await counts()


async def test_a_crash_at_any_moment_leaves_every_step_with_its_artifact():
    async def scenario(opened: Any) -> list[str]:
        run = await opened.start(counting)
        await opened.result(run)
        return [each.step for each in await run.artifacts()]

    tried = await crash_points(scenario, workflows=[counting])
    assert tried.calls.count("keep_artifact") == 4
