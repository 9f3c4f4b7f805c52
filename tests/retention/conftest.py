"""An engine whose runs have ended and whose time can pass, on either kind of database."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from stepfast.signing import KeyedSigner, read_seal_keys
from stepfast.testing import engine
from tests.retention.workflows import ALL
from tests.stores.conftest import harness, postgres_harness, sqlite_harness

__all__ = ["harness", "postgres_harness", "sqlite_harness"]

KEY_TEXT = "1:" + "c2VjcmV0" * 8
KEYS = read_seal_keys(KEY_TEXT)


@asynccontextmanager
async def keeping(database: str, **options):
    """An engine that seals nothing."""
    async with engine(database=database, workflows=ALL, **options) as opened:
        yield opened


@pytest.fixture
async def opened(database):
    async with keeping(database) as opened:
        yield opened


@pytest.fixture
async def sealing(database):
    """The same with keys: what goes must be sealed."""
    async with keeping(database) as opened:
        opened.app.signer = KeyedSigner(KEYS)
        yield opened
