"""Contents of assets and of steps' storage: put into the blob store before their rows, and proved when read."""

from __future__ import annotations

import asyncio

from stepfast.engine.values import Values
from stepfast.kernel.blobs import BlobKey, Reference, reference_to
from stepfast.kernel.errors import BlobDamaged
from stepfast.kernel.ids import RunId


class BlobContents:
    """Content as blobs, each named by its digest within a place, which is a run or stands for an asset."""

    def __init__(self, values: Values) -> None:
        self._values = values

    async def put(self, tenant: str, place: RunId, content: bytes) -> Reference:
        """Keep a content; putting it again keeps it from being swept meanwhile."""
        # Digests of megabytes take their time, and must not take the event loop's.
        reference = await asyncio.to_thread(reference_to, content)
        key = BlobKey(tenant, place, reference.name)
        await self._values.ask(lambda: self._values.blobs.put(key, content))
        return reference

    async def get(self, tenant: str, place: RunId, reference: Reference, what: str) -> bytes:
        """The content, once it is proved to be what was put."""
        key = BlobKey(tenant, place, reference.name)
        content = await self._values.ask(lambda: self._values.blobs.get(key))
        if content is None:
            raise BlobDamaged(
                f"{what} is blob {reference.name} of {place}, which is not in the blob store. Check that "
                f"STEPFAST_BLOBS names the store that it was put into, or put it back by a backup."
            )
        if await asyncio.to_thread(reference_to, content) != reference:
            raise BlobDamaged(
                f"{what} is not what was put there: blob {reference.name} of {place} has {len(content):,} bytes "
                f"with another digest, and had {reference.size:,}. Put it back by a backup."
            )
        return content
