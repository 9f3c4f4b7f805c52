"""Who may do what, from end to end: engines and auditors that connect as roles which do not own the schema."""

from __future__ import annotations

import pytest

from stepfast.stores.grants import RoleKind
from tests.audit.trails import PAIR
from tests.cli.invoking import Office, invoke
from tests.support.apps import app_on
from tests.support.roles import granted
from tests.support.workflows import say


@pytest.fixture
async def urls(migrated_postgres_url, monkeypatch, tmp_path):
    """The database as an engine and as an auditor see it, sealed by the former with a key that the latter lacks."""
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", PAIR.private)
    monkeypatch.setenv("STEPFAST_SEAL_FILE", str(tmp_path / "seals.jsonl"))
    async with (
        granted(migrated_postgres_url, RoleKind.ENGINE) as engine,
        granted(migrated_postgres_url, RoleKind.READER) as reader,
    ):
        async with app_on(engine, [say]) as app:
            await (await app.start(say, "hello")).result(timeout="30s")
            await app.audit.seal()
        monkeypatch.setenv("STEPFAST_SEAL_KEYS", PAIR.public)
        yield engine, reader


async def test_an_auditor_verifies_with_a_role_that_only_reads_and_a_key_that_only_proves(urls):
    report = await Office(urls[1]).json("audit", "verify")
    assert (report["ok"], report["seals"], report["uncopied"]) == (True, 1, 0)


async def test_an_auditor_takes_the_trail_along(urls, tmp_path):
    file = tmp_path / "trail.jsonl"
    assert (await Office(urls[1])("audit", "export", "--whole", str(file))).code == 0
    assert (await invoke("audit", "verify", "--file", str(file))).code == 0


async def test_an_auditor_reads_runs_and_changes_none(urls):
    office = Office(urls[1])
    (run,) = (await office.json("runs", "list"))["items"]
    done = await office("runs", "rerun", run["run_id"])
    assert (done.code, "E-STORE-003" in done.err, "--grant" in done.err) == (1, True, True)


async def test_an_auditor_is_told_what_a_command_would_do(urls):
    office = Office(urls[1])
    (run,) = (await office.json("runs", "list"))["items"]
    for chosen in ([run["run_id"]], ["--state", "completed"]):
        assert (await office.json("runs", "rerun", *chosen, "--dry-run"))["changed"] == [run["run_id"]]
    assert (await office("runs", "cancel", run["run_id"], "--dry-run")).code == 4


async def test_an_auditor_seals_nothing(urls):
    done = await Office(urls[1])("audit", "seal")
    assert (done.code, "private key" in done.err) == (2, True)


async def test_the_engine_goes_on_as_its_role(urls):
    engine, reader = urls
    async with app_on(engine, [say]) as app:
        run = await app.start(say, "once more")
        assert await run.result(timeout="30s") == "once more"
        await run.rerun()
        assert await run.result(timeout="30s") == "once more"
    assert (await Office(reader).json("audit", "verify"))["unsealed"] > 0
