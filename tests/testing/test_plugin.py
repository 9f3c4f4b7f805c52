"""The fixtures that pytest finds where stepfast is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

TESTS = """
from stepfast import sleep, workflow
from stepfast.testing import Engine

@workflow
async def nap() -> str:
    await sleep("24h")
    return "rested"

async def test_async(stepfast_engine, stepfast_clock):
    run = await stepfast_engine.start(nap)
    await stepfast_engine.run_until_idle()
    stepfast_clock.advance("24h")
    await stepfast_engine.run_until_idle()
    assert await run.result() == "rested"

def test_blocking(stepfast_blocking_engine, stepfast_clock):
    begun = stepfast_clock.now()
    assert stepfast_blocking_engine.run(nap) == "rested"
    assert stepfast_clock.now() - begun == 24 * 3_600_000
"""

STRICT = TESTS.replace("async def test_async", "import pytest\n\n@pytest.mark.asyncio\nasync def test_async")


@pytest.mark.parametrize(("mode", "text"), [("auto", TESTS), ("strict", STRICT)])
def test_the_fixtures_work_in_async_and_in_blocking_tests(tmp_path, mode, text):
    (tmp_path / "test_nap.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"asyncio_mode={mode}", "--rootdir", str(tmp_path)]
    done = subprocess.run([*command, "test_nap.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "2 passed" in done.stdout, done.stdout
