"""What a program pays for that defines workflows and makes an app of them: little of what an open app needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from stepfast import Stepfast, step, workflow

@step
async def double(number: int) -> int:
    return 2 * number

@workflow
async def quadruple(number: int) -> int:
    return await double(await double(number))

Stepfast("sqlite:///never-opened.db", workflows=[quadruple])
print(*sys.modules)
"""
# Each of these brings others along, and is at hand once an app is open or a run is performed.
LATER = [
    "apsw",
    "asyncpg",
    "pydantic",
    "stepfast.bulk",
    "stepfast.engine.committer",
    "stepfast.filters",
    "stepfast.kernel.commands",
    "stepfast.kernel.ports",
    "stepfast.kernel.views",
    "stepfast.parts",
    "stepfast.runs",
    "stepfast.stores.sqlite.store",
    "stepfast.worker.worker",
]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    command = [sys.executable, "-c", SCRIPT]
    home = tmp_path_factory.mktemp("first-use")
    return set(subprocess.run(command, cwd=home, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("name", LATER)
def test_whoever_defines_workflows_and_opens_no_app_does_not_import(imported, name):
    assert "stepfast.app" in imported
    assert name not in imported
