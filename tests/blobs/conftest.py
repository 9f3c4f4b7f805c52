"""Where the values of a test are kept: in its database, or in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["database", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "database" if request.param == "database" else str(tmp_path / "blobs")
