"""Blob stores for tests: each kind that we bring, and one with moods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stepfast import Stepfast
from stepfast.kernel.blobs import BlobKey
from stepfast.stores.blobs.folder import FolderBlobs
from tests.support.apps import QUICK

BIG = 5_000_000


class MoodyBlobs(FolderBlobs):
    """A folder that raises what the test wants, as long as the test wants it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.mood: Callable[[], Exception | None] = lambda: None
        self.puts: list[str] = []

    async def put(self, key: BlobKey, content: bytes) -> None:
        self.puts.append(key.name)
        self._sulk()
        await super().put(key, content)

    async def get(self, key: BlobKey) -> bytes | None:
        self._sulk()
        return await super().get(key)

    def _sulk(self) -> None:
        trouble = self.mood()
        if trouble is not None:
            raise trouble


def app_with(database, workflows, blobs, worker=QUICK) -> Stepfast:
    return Stepfast(database, workflows=workflows, worker=worker, blobs=blobs)
