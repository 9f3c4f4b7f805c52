"""kill -9 of those who work for several tenants: nothing of one is with another, and no secret is left anywhere."""

from __future__ import annotations

import asyncio
import base64
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepfast import Stepfast
from tests.faults.tenant_victim import TENANTS, parrot
from tests.support.apps import migrated
from tests.support.dumps import dump
from tests.support.sql import fetch
from tests.support.victims import died, ear, victim

RUNS, DEATHS, LONGEST_S = 12, 5, 100
OWNED = (
    "event",
    "step",
    "outcome",
    "wait",
    "inbox",
    "run_tag",
    "generation",
    "dead_letter",
    "blob",
    "leaf",
    "sink_letter",
)
KEY = base64.b64encode(secrets.token_bytes(32)).decode()
SECRET = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()

LEFT = """
select (select count(*) from stepfast.event e join stepfast.sink s on e.position > s.cursor where s.name <> 'hook'),
       (select count(*) from stepfast.sink s where s.name = 'hook' and s.error is null)
"""
STRAYS = """
select t.run_id from stepfast.{table} t join stepfast.run r on r.run_id = t.run_id where r.tenant <> t.tenant
"""


class Office:
    """Processes that work for two tenants and die again and again, and all that they leave behind."""

    def __init__(self, database: str, folder: Path, twin: str | None = None) -> None:
        self._database = database
        self._folder = folder
        self._ears = folder / "ears"
        told = {"folder": str(folder), "ears": str(self._ears), "secret": SECRET, "twin": twin}
        self._options = {"database": database, **told}
        self._lives = 0

    async def work(self, deaths: int = DEATHS) -> None:
        """Until so many have died, all runs have ended, and all was delivered."""
        await migrated(self._database)
        async with Stepfast(self._database, workflows=[parrot], worker=False) as app:
            runs = [await app.start(parrot, f"{whose}-only", tenant=whose) for _ in range(RUNS) for whose in TENANTS]
            with ExitStack() as stack:
                others = stack.enter_context(ear(self._ears))
                async with asyncio.timeout(LONGEST_S):
                    for number in range(deaths):
                        process = stack.enter_context(self._victim(dies_after=3 + 2 * number))
                        await died(process)
                        runs += [await app.start(parrot, f"{whose}-only", tenant=whose) for whose in TENANTS]
                    stack.enter_context(self._victim())
                    await asyncio.gather(*(run.result() for run in runs))
                    await others.until(self._is_all_delivered)

    @contextmanager
    def _victim(self, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
        self._lives += 1
        keys = {"STEPFAST_SEAL_KEYS": f"1:{KEY}", "STEPFAST_SEAL_FILE": str(self._folder / "seals")}
        with (
            (self._folder / f"log-{self._lives}").open("wb") as log,
            victim("tests.faults.tenant_victim", {**self._options, **options}, log, **keys) as process,
        ):
            yield process

    async def _is_all_delivered(self) -> bool:
        # The webhook cannot be reached, and what it says of that is kept.
        (left,) = await fetch(self._database, LEFT)
        return not any(left)

    async def strays(self) -> list[str]:
        """Rows and deliveries of a tenant that belong to another, or say what is another's."""
        found = []
        for table in OWNED:
            rows = await fetch(self._database, STRAYS.format(table=table))
            found += [f"{table}: {row[0]}" for row in rows]
        for whose, other in (TENANTS, TENANTS[::-1]):
            lines = (self._folder / f"{whose}.events").read_text().splitlines()
            found += [line for line in lines if not line.startswith(f"{whose} ") or f"{other}-only" in line]
        return found

    async def leaks(self) -> list[str]:
        """Where a secret stands: in the database, in a log, in a file that was written."""
        places = await dump(self._database)
        places |= {file.name: file.read_bytes() for file in self._folder.iterdir() if file.is_file()}
        hidden = {"key of seals": KEY, "secret of a webhook": SECRET.removeprefix("whsec_")}
        return [
            f"{what} in {place}"
            for place, text in places.items()
            for what, word in hidden.items()
            if word.encode() in text
        ]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "office").mkdir()
    return tmp_path / "office"


async def test_whoever_is_killed_when_nothing_crosses_tenants_and_no_secret_is_left(database, folder):
    office = Office(database, folder)
    await office.work()
    assert await office.strays() == []
    assert await office.leaks() == []


async def test_the_broken_twin_whose_sinks_tell_everybody_is_found_out(database, folder):
    office = Office(database, folder, "tells_everybody")
    await office.work(1)
    assert await office.strays()


async def test_the_broken_twin_whose_sink_tells_its_secret_is_found_out(database, folder):
    office = Office(database, folder, "tells_its_secret")
    await office.work(1)
    assert await office.leaks()
