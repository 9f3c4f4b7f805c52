"""What tests of annotations may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stepfast.testing.temporary import new_store
from tests.conftest import STORES
from tests.support.postgres import drop_database, migrated_database


@pytest.fixture(params=STORES)
def databases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Empty databases of one kind, as many as a test wants, one after the other."""
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None

    @asynccontextmanager
    async def fresh() -> AsyncIterator[str]:
        if server is None:
            yield await new_store(tmp_path_factory.mktemp("annotations") / "app.db")
            return
        url = await migrated_database(server)
        yield url
        await drop_database(url, server)

    return fresh
