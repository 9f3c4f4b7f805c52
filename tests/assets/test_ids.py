"""Ids of assets that somebody means harm with: refused with one code, or kept where nothing of them is a path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stepfast import RunFailed, Stepfast, step, storage, workflow
from stepfast.kernel.assets import parse_asset, uri_of
from stepfast.kernel.errors import Invalid
from tests.support.apps import app_on

REFUSED = {
    "nothing": "",
    "blanks": "  ",
    "up": "../secret",
    "up in the middle": "a/../../secret",
    "up alone": "..",
    "here": "./a",
    "absolute": "/etc/passwd",
    "absolute twice": "//host/share",
    "folder": "a/",
    "backslashes": "..\\secret",
    "drive": "C:\\secret",
    "NUL": "a\0b",
    "new line": "a\nb",
    "escape": "\x1b[31mred",
    "right to left": "a\u202eb",
    "no width": "a\u200bb",
    "lone surrogate": "a\ud800",
    "version": "a@1",
    "address": "asset:a",
    "too long": "x" * 201,
    "ten kilobytes": "x" * 10_240,
    "no text": 7,
    "bytes": b"a",
}

SAFE = {
    "escaped dots": "%2e%2e%2fsecret",
    "escaped twice": "%252e%252e%252f",
    "wide slash": "..\uff0fsecret",
    "one dot leader": "\u2024\u2024/secret",
    "look-alike": "r\u0435port",
    "its twin": "report",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "device": "CON",
    "device with a type": "NUL.txt",
    "dot at the end": "a.",
    "stream": "a:b",
    "drive": "C:/secret",
    "home": "~/secret",
    "wild": "*?<>|\"'",
    "query": "a?b#c",
    "as long as may be": "\U0001f4c4" * 125,
}


@pytest.fixture(params=["database", "folder"])
async def app_and_folder(request, database, tmp_path):
    folder = tmp_path / "around" / "blobs"
    folder.parent.mkdir()
    blobs = "database" if request.param == "database" else str(folder)
    async with Stepfast(database, workflows=[], worker=False, blobs=blobs) as app:
        yield app, folder


def files_around(folder: Path) -> list[str]:
    """What there is beside the folder, and what in it is not where a blob is."""
    beside = [str(path) for path in folder.parent.iterdir() if path != folder]
    out = [str(path) for path in folder.rglob("*") if folder.resolve() not in path.resolve().parents]
    return beside + out


@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
async def test_an_id_that_no_place_should_see_is_refused_everywhere(app_and_folder, name: Any):
    app, folder = app_and_folder
    asks = (
        lambda: app.assets.put(b"x", name),
        lambda: app.assets.put(b"x", name, fresh=True),
        lambda: app.assets.get(name),
        lambda: app.assets.read(name),
        lambda: app.assets.lineage(name),
        lambda: app.assets.upstream(name),
        lambda: app.assets.downstream(name),
        lambda: app.assets.collect("mine", [name]),
    )
    for ask in asks:
        with pytest.raises(Invalid) as refused:
            await ask()
        assert refused.value.code == "E-VAL-001"
    assert await app.assets.list() == []
    assert not folder.exists() or files_around(folder) == []


async def test_an_id_that_only_looks_bad_is_kept_apart_and_inside(app_and_folder):
    app, folder = app_and_folder
    before = set(os.listdir(folder.parent.parent))
    put = {name: await app.assets.put(name.encode(), name, fresh=True) for name in SAFE.values()}
    assert [asset.id for asset in put.values()] == list(SAFE.values())
    for name, asset in put.items():
        assert await app.assets.read(name) == name.encode()
        assert parse_asset(asset.uri) == (name, 1)
        assert (await app.assets.put(b"other", name, fresh=True)).id != name
        assert await app.assets.read(name) == name.encode()
    assert not folder.exists() or files_around(folder) == []
    assert set(os.listdir(folder.parent.parent)) == before


ADDRESSES = {
    "escaped way up": "asset:%2e%2e%2fsecret@1",
    "escaped root": "asset:%2fetc%2fpasswd",
    "escaped NUL": "asset:a%00b@1",
    "nothing": "asset:@1",
    "no number": "asset:a@one",
    "minus": "asset:a@-1",
    "nought": "asset:a@0",
    "too great": f"asset:a@{2**31}",
    "endless": "a@" + "9" * 5_000,
    "two versions": "a@1@2",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_that_leads_nowhere_good_is_refused(address):
    with pytest.raises(Invalid) as refused:
        parse_asset(address)
    assert refused.value.code == "E-VAL-001"


def test_an_address_of_an_id_with_escapes_leads_to_that_id():
    assert parse_asset(uri_of("%2e%2e%2fsecret", 3)) == ("%2e%2e%2fsecret", 3)


@step
async def write(name: str) -> None:
    await storage.write_asset(name, b"x")


@step
async def read(name: str) -> None:
    await storage.read_asset(name)


@workflow
async def writing(name: str) -> None:
    await write(name)


@workflow
async def reading(name: str) -> None:
    await read(name)


@pytest.mark.parametrize("flow", [writing, reading], ids=["write", "read"])
@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", "x" * 10_240])
async def test_a_step_with_a_bad_id_fails_with_the_same_code(database, flow, name):
    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed) as failed:
            await (await app.start(flow, name))
        assert getattr(failed.value.__cause__, "code", None) == "E-VAL-001"
        assert await app.assets.list() == []
