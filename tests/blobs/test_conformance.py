"""Our own blob stores and clocks, held to the suites that the package offers."""

from __future__ import annotations

import pytest

from stepfast.conformance import BlobsConformance, ClockConformance
from stepfast.conformance import blobs as blobs_suite
from stepfast.engine.clock import SystemClock
from stepfast.kernel.durations import Instant
from stepfast.kernel.ports import Store
from stepfast.stores.blobs.database import DatabaseBlobs
from stepfast.stores.blobs.folder import FolderBlobs
from stepfast.stores.urls import store_for
from stepfast.testing import VirtualClock


class StoreBlobs(DatabaseBlobs):
    """The blobs of a store that is opened and closed with them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._store = store

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()


class TestBlobsInTheDatabase(BlobsConformance):
    @pytest.fixture
    def blobs(self, database):
        return StoreBlobs(store_for(database, SystemClock()))


class StandingBlobs(StoreBlobs):
    """Blobs of a store whose clock stands."""

    async def list(self, where):
        return [info._replace(put_at=Instant(1)) for info in await super().list(where)]


def test_a_clock_that_stands_is_told_of_and_not_waited_for(database, monkeypatch):
    monkeypatch.setattr(blobs_suite, "PATIENCE_S", 0.0)
    blobs = StandingBlobs(store_for(database, SystemClock()))
    with pytest.raises(AssertionError, match="its put_at stays 1"):
        BlobsConformance().test_the_same_put_again_is_one_blob_that_was_put_now(blobs)


class TestBlobsInAFolder(BlobsConformance):
    @pytest.fixture
    def blobs(self, tmp_path):
        return FolderBlobs(tmp_path / "blobs")


class TestSystemClock(ClockConformance):
    @pytest.fixture
    def clock(self):
        return SystemClock()


class TestVirtualClock(ClockConformance):
    follows = False

    @pytest.fixture
    def clock(self):
        return VirtualClock()

    def advance(self, clock, span_ms):
        clock.advance(span_ms / 1_000)
