"""Blobs in the store itself: nothing else to set up, and one backup for all."""

from __future__ import annotations

from stepfast.kernel.ports import Store


class DatabaseBlobs:
    """The blobs of a store; they open and close with it."""

    def __init__(self, store: Store) -> None:
        self.put = store.put_blob
        self.get = store.get_blob
        self.has = store.has_blob
        self.delete = store.delete_blob
        self.list = store.list_blobs

    def __repr__(self) -> str:
        return "<blobs in the database>"

    async def open(self) -> None:
        """The store is open."""

    async def close(self) -> None:
        """The store closes by itself."""
