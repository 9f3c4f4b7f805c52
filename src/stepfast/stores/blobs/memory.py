"""Where it is remembered which folder large values are in, so that no other is taken for it."""

from __future__ import annotations

from typing import Protocol

from stepfast.kernel.blobs import NO_RUN, BlobKey
from stepfast.kernel.ports import Store

# A name of this form is no value's: nobody sweeps it.
_KEY = BlobKey("stepfast", NO_RUN, "folder")


class Memory(Protocol):
    """Remembers the identity of one folder: the first that it is told of."""

    async def recall(self) -> str | None:
        """The identity of the folder that values are in; None before the first."""
        ...

    async def remember(self, identity: str) -> str:
        """Values are about to be put into a folder; which one it is to be, if another was told of before."""
        ...


class StoreMemory:
    """Remembers in the database whose rows refer to what is in the folder, as a blob of no run."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def recall(self) -> str | None:
        found = await self._store.get_blob(_KEY)
        return None if found is None else found.decode()

    async def remember(self, identity: str) -> str:
        return (await self._store.put_blob_once(_KEY, identity.encode())).decode()
