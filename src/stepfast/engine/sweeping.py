"""Sweeping orphans: blobs that were put away for a commit that never came."""

from __future__ import annotations

from collections.abc import Sequence

from stepfast.engine.values import Values
from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, reference_of
from stepfast.kernel.durations import Instant
from stepfast.kernel.ports import Clock, Store

# Between a put and the commit that mentions it lie seconds, or however long the store is away while a lease is kept.
ORPHAN_AGE_MS = 24 * 3_600_000
PAGE = 200


class Sweep:
    """A walk through all blobs, a page with each pass, over and over.

    A row that mentions a blob stays, so a blob that was judged once is not judged by the same process again.
    """

    def __init__(self, store: Store, values: Values, clock: Clock, age_ms: int = ORPHAN_AGE_MS) -> None:
        self._store = store
        self._values = values
        self._clock = clock
        self._age_ms = age_ms
        self._after: BlobKey | None = None
        self._began_with = Instant(0)
        self._judged_before = Instant(0)

    async def make_pass(self) -> int:
        """Look at the next page, and remove the orphans in it; how many there were."""
        ripe_before = Instant(self._clock.now() - self._age_ms)
        if self._after is None:
            self._began_with = ripe_before
        where = BlobFilter(after=self._after, limit=PAGE)
        page = await self._values.ask(lambda: self._values.blobs.list(where))
        ripe = [info for info in page if self._judged_before <= info.put_at < ripe_before]
        removed = [orphan for orphan in await self._orphans(ripe) if await self._remove(orphan.key, ripe_before)]
        self._move_on(page)
        return len(removed)

    async def _orphans(self, blobs: Sequence[BlobInfo]) -> list[BlobInfo]:
        """Those that hold a value which no row mentions; what else is kept in the blob store is let alone."""
        references = [(info, reference) for info in blobs if (reference := reference_of(info)) is not None]
        if not references:
            return []
        runs = sorted({(info.key.tenant, info.key.run_id) for info, _ in references})
        mentions = await self._store.mentions(runs)
        return [info for info, reference in references if (info.key.run_id, reference.text) not in mentions]

    async def _remove(self, key: BlobKey, put_before: Instant) -> bool:
        # One that was put again meanwhile may be mentioned by a commit under way, and stays.
        return await self._values.ask(lambda: self._values.blobs.delete(key, put_before))

    def _move_on(self, page: Sequence[BlobInfo]) -> None:
        if len(page) == PAGE:
            self._after = page[-1].key
        else:
            self._after, self._judged_before = None, self._began_with
