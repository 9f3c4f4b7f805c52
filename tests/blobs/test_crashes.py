"""A process that dies around a large value: before it is put away, before its row is committed, after."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from stepfast import receive, step, workflow
from stepfast.engine.values import Values
from stepfast.kernel.blobs import reference_to
from stepfast.testing import crash_after, crash_points
from tests.blobs import victim
from tests.blobs.places import BIG, app_with
from tests.support.apps import Bodies

LARGE = 100_000

bodies = Bodies()


@step
async def make(letter: str) -> str:
    bodies.ran("make")
    return letter * LARGE


@step
async def measure(text: str) -> int:
    bodies.ran("measure")
    return len(text)


@workflow
async def turn(text: str) -> str:
    return text[::-1]


@workflow
async def every_way(text: str) -> int:
    made = await make("a")
    sent = await receive("text", str)
    turned = await turn(made + sent)
    return await measure(turned + text)


@workflow
async def chain() -> int:
    return await measure(await make("a"))


@pytest.fixture(autouse=True)
def nothing_has_run():
    bodies.clear()


async def through_every_way(opened: Any) -> int:
    run = await opened.start(every_way, "b" * LARGE)
    await opened.signal(run, "text", "c" * LARGE)
    return int(await opened.result(run))


async def test_a_crash_at_any_moment_loses_no_large_value():
    tried = await crash_points(through_every_way, every=3, workflows=[every_way, turn])
    assert tried.calls.count("put_blob") >= 8


async def test_a_result_of_megabytes_survives_a_crash_right_behind_its_record(database):
    async with crash_after("make", database=database, workflows=[chain]) as opened:
        assert await opened.run(chain) == LARGE
    assert bodies == {"make": 1, "measure": 1}


async def test_the_broken_twin_that_commits_before_it_puts_away_is_found_out(database, monkeypatch):
    async def refer(self: Values, tenant: str, run_id: str, text: str) -> str:
        """The crash comes before the put."""
        return text if len(text) <= self.threshold else reference_to(text.encode()).text

    monkeypatch.setattr(Values, "keep", refer)
    async with crash_after("make", database=database, workflows=[chain]) as opened:
        run = await opened.start(chain)
        await opened.run_until_idle()
        reasons = [event.data or "" for event in await opened.events(run) if event.type == "handed_back"]
        assert any("E-BLOB-001: " in reason for reason in reasons)
    assert bodies == {"make": 1}


async def test_a_result_of_megabytes_survives_a_killed_process(database, place, tmp_path):
    victim.Trace.path = trace = tmp_path / "trace"
    subprocess.run([sys.executable, "-m", "tests.blobs.victim", database, place, str(trace)], check=False)
    assert trace.read_text().split() == ["make", "measure"]
    async with app_with(database, [victim.chain], place) as app:
        run = await app.start(victim.chain, BIG, key=victim.KEY)
        assert await run.result(timeout="30s") == BIG
    assert trace.read_text().split() == ["make", "measure", "measure"]
