"""Fixtures that every test may ask for."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from stepfast.testing.temporary import new_store
from tests.support.environment import forget_settings
from tests.support.places import keep_files_in_memory
from tests.support.postgres import drop_database, fresh_database, migrated_database, server_url, stop_server

POSTGRES_FOLDER = pytest.StashKey[Path]()

# How long an example takes says nothing on a busy machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    forget_settings()
    keep_files_in_memory()
    worker = getattr(config, "workerinput", None)
    folder = worker["postgres_folder"] if worker else tempfile.mkdtemp(prefix="stepfast-")
    config.stash[POSTGRES_FOLDER] = Path(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """Tell a process of pytest-xdist where the server that it shares with the others lives."""
    node.workerinput["postgres_folder"] = str(node.config.stash[POSTGRES_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        stop_server(config.stash[POSTGRES_FOLDER])


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> str:
    """The address of a running PostgreSQL server."""
    return server_url(pytestconfig.stash[POSTGRES_FOLDER])


@pytest.fixture
async def postgres_url(postgres_server: str) -> AsyncIterator[str]:
    """The address of an empty PostgreSQL database that is this test's own."""
    url = await fresh_database(postgres_server)
    yield url
    await drop_database(url, postgres_server)


@pytest.fixture
async def migrated_postgres_url(postgres_server: str) -> AsyncIterator[str]:
    """The same with the schema in it."""
    url = await migrated_database(postgres_server)
    yield url
    await drop_database(url, postgres_server)


STORES = ["sqlite", "postgres"]


@pytest.fixture(params=STORES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database of this test's own with nothing but the schema in it, one of each kind."""
    if request.param == "sqlite":
        yield await new_store(tmp_path / "app.db")
        return
    server = request.getfixturevalue("postgres_server")
    url = await migrated_database(server)
    yield url
    await drop_database(url, server)


@pytest.fixture
def nothing_left() -> None:
    """Steps that earlier tests have dropped are gone: closed apps hold theirs in cycles until a collection."""
    gc.collect()
