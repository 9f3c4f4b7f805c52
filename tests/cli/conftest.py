"""Fixtures for commands that look after a database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stepfast import Stepfast
from tests.cli.invoking import Office
from tests.cli.office import WORKFLOWS
from tests.support.apps import app_on


@pytest.fixture
async def client(database: str) -> AsyncIterator[Stepfast]:
    """An app without a worker on the database that the commands are for."""
    async with app_on(database, WORKFLOWS, worker=False) as app:
        yield app


@pytest.fixture
def office(client: Stepfast) -> Office:
    """The command line on the same database, which the client has made ready."""
    return Office(client.database)
