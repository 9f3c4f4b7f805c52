"""`stepfast audit`: sealing, verifying and exporting the trail from the command line."""

from __future__ import annotations

import base64

import pytest

from tests.cli.office import checkout
from tests.support.sql import execute


@pytest.fixture(autouse=True)
def key(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", "1:" + base64.b64encode(bytes(range(32))).decode())
    monkeypatch.setenv("STEPFAST_SEAL_FILE", str(tmp_path / "seals.jsonl"))


@pytest.fixture
async def runs(client):
    """Two runs that wait for a worker."""
    return [(await client.start(checkout, f"order-{number}")).id for number in (1, 2)]


async def test_what_was_written_is_sealed_and_verified(office, runs):
    assert (await office.json("audit", "seal"))["sealed"] >= len(runs)
    report = await office.json("audit", "verify")
    assert (report["ok"], report["seals"], report["unsealed"], report["findings"]) == (True, 1, 0, [])


async def test_what_is_wrong_is_told_and_ends_with_an_exit_code(office, runs, database):
    await office("audit", "seal")
    await execute(database, "update stepfast.event set actor = 'eve' where seq = 1")
    done = await office("audit", "verify")
    assert done.code == 1
    assert "changed" in done.out
    assert "2 things are wrong" in done.err


async def test_an_exported_run_is_verified_without_the_database(office, runs, tmp_path):
    await office("audit", "seal")
    file = tmp_path / "trail.jsonl"
    assert (await office("audit", "export", "--run", runs[0], str(file))).code == 0
    done = await office("audit", "verify", "--file", str(file))
    assert (done.code, "is what was written" in done.err) == (0, True)
    file.write_text(file.read_text().replace("queued", "paused"))
    assert (await office("audit", "verify", "--file", str(file))).code == 1


async def test_copies_that_lie_elsewhere_are_compared(office, runs, tmp_path):
    await office("audit", "seal")
    done = await office("audit", "verify", "--copies", str(tmp_path / "nothing.jsonl"))
    assert (done.code, "copy_missing" in done.out) == (1, True)


async def test_without_a_key_the_command_says_what_to_set(office, runs, monkeypatch):
    monkeypatch.delenv("STEPFAST_SEAL_KEYS")
    done = await office("audit", "verify")
    assert (done.code, "STEPFAST_SEAL_KEYS" in done.err) == (2, True)
