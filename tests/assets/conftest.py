"""Apps with a database of each kind, and both places where content is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepfast import Stepfast


@pytest.fixture(params=["database", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "database" if request.param == "database" else str(tmp_path / "blobs")


@pytest.fixture
async def app(database: str) -> AsyncIterator[Stepfast]:
    """An open app without a worker."""
    async with Stepfast(database, workflows=[], worker=False) as opened:
        yield opened
