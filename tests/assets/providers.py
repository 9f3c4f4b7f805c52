"""Providers of assets for tests: ours, as one that opens by itself."""

from __future__ import annotations

from pathlib import Path

from stepfast.engine.clock import SystemClock
from stepfast.engine.contents import BlobContents
from stepfast.engine.values import Values
from stepfast.stores.assets import DatabaseAssets
from stepfast.stores.blobs.urls import blobs_for
from stepfast.stores.urls import store_for


class OwnAssets:
    """Assets in a database of their own, which opens and closes with them; opened on whatever loop asks."""

    def __init__(self, url: str, blobs: str | Path = "database") -> None:
        self._url = url
        self._blobs = blobs

    async def open(self) -> None:
        clock = SystemClock()
        self.store = store_for(self._url, clock)
        await self.store.migrate()
        await self.store.open()
        self._values = Values(blobs_for(self._blobs, self.store, clock.now))
        await self._values.open()
        self._inner = DatabaseAssets(self.store, BlobContents(self._values))

    async def close(self) -> None:
        await self._values.close()
        await self.store.close()

    def __getattr__(self, name: str):
        return getattr(self._inner, name)
