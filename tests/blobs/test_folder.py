"""Blobs in a folder: whole files, for their owner alone, never outside the folder, and clear words when it will not."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from stepfast.engine.clock import SystemClock
from stepfast.kernel.blobs import BlobFilter, BlobKey
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, StoreUnavailable, StoreUnusable
from stepfast.kernel.ids import RunId
from stepfast.stores.blobs import files
from stepfast.stores.blobs.folder import FolderBlobs
from stepfast.stores.blobs.names import folder_of, tenant_of
from stepfast.stores.blobs.problems import IDENTITY
from stepfast.stores.blobs.urls import blobs_for
from stepfast.stores.urls import store_for
from tests.support.rights import open_folder, without_rights

RUN = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")
KEY = BlobKey("acme", RUN, "report")
OTHER_KEY = KEY._replace(name="other")


@pytest.fixture
async def blobs(tmp_path):
    found = FolderBlobs(tmp_path / "blobs")
    await found.open()
    yield found
    await found.close()


def everything(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name not in (files.LOCK, files.UNFINISHED, IDENTITY)]


async def test_a_blob_is_a_file_below_its_tenant_and_run(blobs, tmp_path):
    await blobs.put(KEY, b"content")
    assert (tmp_path / "blobs" / "acme" / RUN / "report").read_bytes() == b"content"


async def test_files_and_folders_are_their_owner_s_alone(blobs, tmp_path):
    await blobs.put(KEY, b"content")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in everything(tmp_path / "blobs")}
    assert modes == {0o600, 0o700}
    assert stat.S_IMODE((tmp_path / "blobs").stat().st_mode) == 0o700


async def test_the_moment_of_a_blob_is_that_of_the_clock(tmp_path):
    blobs = FolderBlobs(tmp_path, lambda: 1_700_000_000_123)
    await blobs.open()
    await blobs.put(KEY, b"content")
    assert [info.put_at for info in await blobs.list(BlobFilter())] == [1_700_000_000_123]
    await blobs.close()


async def test_the_last_blob_of_a_run_takes_its_folder_along(blobs, tmp_path):
    await blobs.put(KEY, b"content")
    await blobs.delete(KEY)
    assert everything(tmp_path / "blobs") == [tmp_path / "blobs" / "acme"]


async def test_a_link_in_place_of_a_run_leads_nowhere(blobs, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "report").write_bytes(b"secret")
    await blobs.put(KEY, b"content")
    await blobs.delete(KEY)
    (tmp_path / "blobs" / "acme" / RUN).symlink_to(outside)
    for call in (blobs.get(KEY), blobs.put(KEY, b"content"), blobs.delete(KEY), blobs.has(KEY)):
        with pytest.raises(StoreUnusable, match="link"):
            await call
    assert (outside / "report").read_bytes() == b"secret"
    assert await blobs.list(BlobFilter()) == []


async def test_a_link_in_place_of_a_blob_is_not_read_and_is_replaced_by_a_put(blobs, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    await blobs.put(KEY, b"content")
    file = tmp_path / "blobs" / "acme" / RUN / "report"
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    with pytest.raises(StoreUnusable, match="link"):
        await blobs.get(KEY)
    assert not await blobs.has(KEY)
    await blobs.put(KEY, b"content")
    assert await blobs.get(KEY) == b"content"
    assert (tmp_path / "secret").read_bytes() == b"secret"


async def test_what_is_no_blob_is_passed_over(blobs, tmp_path):
    root = tmp_path / "blobs"
    await blobs.put(KEY, b"content")
    (root / "README").write_text("files of somebody else")
    (root / "Other").mkdir()
    (root / "%ff").mkdir()
    (root / "~short").mkdir()
    (root / "acme" / "notes").mkdir()
    (root / "acme" / "notes" / "a").write_text("x")
    (root / "acme" / RUN / "Capital").write_text("x")
    (root / "acme" / RUN / "folder").mkdir()
    assert [info.key for info in await blobs.list(BlobFilter())] == [KEY]


async def test_a_put_that_fails_leaves_the_old_content_and_nothing_else(blobs, tmp_path, monkeypatch):
    await blobs.put(KEY, b"content")
    monkeypatch.setattr(os, "rename", failing(errno.EIO))
    with pytest.raises(StoreUnusable):
        await blobs.put(KEY, b"other content")
    assert await blobs.get(KEY) == b"content"
    assert os.listdir(tmp_path / "blobs" / files.UNFINISHED) == []


@pytest.mark.parametrize(("number", "advice"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only")])
async def test_a_disk_that_will_not_have_it_is_named_with_the_next_step(blobs, tmp_path, monkeypatch, number, advice):
    monkeypatch.setattr(os, "fsync", failing(number))
    with pytest.raises(StoreUnusable, match=advice) as raised:
        await blobs.put(KEY, b"content")
    assert str(tmp_path / "blobs") in str(raised.value)
    assert raised.value.code == "E-STORE-003"


async def test_what_a_crash_left_unfinished_long_ago_is_cleared_away(tmp_path, monkeypatch):
    unfinished = tmp_path / files.UNFINISHED
    unfinished.mkdir()
    (unfinished / "half").write_bytes(b"hal")
    blobs = FolderBlobs(tmp_path)
    await blobs.open()
    await blobs.put(KEY, b"content")
    assert os.listdir(unfinished) == ["half"]
    await blobs.close()
    monkeypatch.setattr(files, "LEFT_BEHIND_S", -1)
    await blobs.open()
    assert os.listdir(unfinished) == []
    await blobs.close()


async def test_a_removal_never_takes_what_was_put_since(tmp_path):
    """Two stores on one folder, as in two processes: a removal of the old content races with a put of the new."""
    moments = itertools.count(1)
    one, other = FolderBlobs(tmp_path, lambda: next(moments)), FolderBlobs(tmp_path)
    await one.open()
    await other.open()
    for _ in range(100):
        await one.put(KEY, b"old")
        ((_, _, put_at),) = await other.list(BlobFilter())
        await asyncio.gather(one.put(KEY, b"new"), other.delete(KEY, put_before=Instant(put_at + 1)))
        assert await other.get(KEY) == b"new"
    await one.close()
    await other.close()


async def test_a_folder_that_was_removed_and_put_back_is_seen(blobs, tmp_path):
    folder, away = tmp_path / "blobs", tmp_path / "away"
    await blobs.put(KEY, b"content")
    shutil.copytree(folder, away)
    shutil.rmtree(folder)
    with pytest.raises(StoreUnavailable, match="Put it back"):
        await blobs.get(KEY)
    shutil.copytree(away, folder)
    assert (await blobs.get(KEY), await blobs.has(KEY)) == (b"content", True)
    await blobs.put(KEY, b"other content")
    assert (folder / "acme" / RUN / "report").read_bytes() == b"other content"


CALLS = {
    "put": lambda blobs: blobs.put(KEY, b"other content"),
    "get": lambda blobs: blobs.get(KEY),
    "has": lambda blobs: blobs.has(KEY),
    "delete": lambda blobs: blobs.delete(KEY),
    "list": lambda blobs: blobs.list(BlobFilter()),
}


def nothing(folder: Path) -> None:
    """Where the folder was, nothing is."""


def an_empty_one(folder: Path) -> None:
    folder.mkdir()


def one_that_was_begun(folder: Path) -> None:
    (folder / files.UNFINISHED).mkdir(parents=True)


def somebody_elses(folder: Path) -> None:
    folder.mkdir()
    (folder / IDENTITY).write_text("another")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("put_there", [nothing, an_empty_one, one_that_was_begun, somebody_elses])
async def test_a_folder_that_is_away_is_told_of_by_every_call_and_nothing_is_made(blobs, tmp_path, call, put_there):
    folder, away = tmp_path / "blobs", tmp_path / "away"
    await blobs.put(KEY, b"content")
    folder.rename(away)
    put_there(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(StoreUnavailable, match=rf"{folder} is away.*Put it back"):
        await call(blobs)
    assert (sorted(folder.rglob("*")), folder.exists()) == (before, put_there is not nothing)
    assert (away / "acme" / RUN / "report").read_bytes() == b"content"


async def test_opening_makes_nothing_and_reading_neither(tmp_path):
    blobs = FolderBlobs(tmp_path / "blobs")
    await blobs.open()
    found = [await blobs.get(KEY), await blobs.has(KEY), await blobs.delete(KEY), await blobs.list(BlobFilter())]
    await blobs.close()
    assert (found, (tmp_path / "blobs").exists()) == ([None, False, False, []], False)


async def test_a_folder_that_is_given_the_identity_of_ours_takes_its_place(blobs, tmp_path):
    folder = tmp_path / "blobs"
    await blobs.put(KEY, b"content")
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(StoreUnavailable, match="To go on") as told:
        await blobs.get(KEY)
    (command,) = re.findall("`(echo .*)`", str(told.value))
    subprocess.run(command, shell=True, check=True)
    assert await blobs.get(KEY) is None
    await blobs.put(KEY, b"content")
    assert await blobs.get(KEY) == b"content"


async def test_several_that_put_first_at_once_make_one_folder(tmp_path):
    many = [FolderBlobs(tmp_path / "blobs") for _ in range(8)]
    for blobs in many:
        await blobs.open()
    await asyncio.gather(*(blobs.put(KEY._replace(name=f"blob-{n}"), b"content") for n, blobs in enumerate(many)))
    found = [len(await blobs.list(BlobFilter())) for blobs in many]
    for blobs in many:
        await blobs.close()
    assert found == [8] * 8


async def put_while_another_is_there(blobs: FolderBlobs, folder: Path) -> None:
    """An empty folder is where ours was, as when a disk is not mounted, and ours is back by the next try."""
    mounted = folder.with_name("mounted")
    await blobs.put(OTHER_KEY, b"content")
    folder.rename(mounted)
    folder.mkdir()
    try:
        await blobs.put(KEY, b"content")
    except StoreUnavailable:
        folder.rmdir()
        mounted.rename(folder)
        await blobs.put(KEY, b"content")
    else:
        shutil.rmtree(folder)
        mounted.rename(folder)


async def test_an_empty_folder_in_the_place_of_ours_gets_nothing(blobs, tmp_path):
    await put_while_another_is_there(blobs, tmp_path / "blobs")
    assert await blobs.get(KEY) == b"content"


async def test_twin_a_folder_of_any_identity_gets_what_is_not_found_later(blobs, tmp_path, monkeypatch):
    monkeypatch.setattr(files.Files, "_check", lambda *_: None)
    await put_while_another_is_there(blobs, tmp_path / "blobs")
    assert await blobs.get(KEY) is None


async def test_a_change_of_the_working_directory_does_not_change_the_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    blobs = FolderBlobs("blobs")
    await blobs.open()
    monkeypatch.chdir(tmp_path / "elsewhere")
    await blobs.put(KEY, b"content")
    await blobs.close()
    assert (tmp_path / "blobs" / "acme" / RUN / "report").read_bytes() == b"content"


@pytest.mark.parametrize("tenant", ["acme", "A", "..", "a/b", "\u00e9", "%41", "a\nb", "\N{PILE OF POO}"])
def test_a_tenant_s_folder_tells_the_tenant(tenant):
    assert tenant_of(folder_of(tenant)) == tenant
    assert "/" not in folder_of(tenant)
    assert not folder_of(tenant).startswith(".")


def test_a_long_tenant_has_a_folder_that_every_file_system_takes():
    assert len(folder_of("\N{PILE OF POO}" * 1_000)) < 255


@pytest.mark.parametrize("text", ["s3://bucket/x", "file://host/x", "file:///", "postgresql://host/db"])
def test_a_blob_store_that_is_not_understood_is_refused(text, tmp_path):
    store = store_for(f"sqlite:///{tmp_path}/app.db", SystemClock())
    with pytest.raises(Invalid, match="write `database`"):
        blobs_for(text, store, lambda: 0)


@pytest.fixture
def guarded():
    """A folder that everybody may look into and nobody write."""
    with open_folder() as folder:
        folder.chmod(0o555)
        yield folder


async def test_a_folder_that_may_not_be_written_is_refused_when_it_is_opened(guarded):
    with without_rights(), pytest.raises(StoreUnusable, match="Allow"):
        await FolderBlobs(guarded).open()


def failing(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail
