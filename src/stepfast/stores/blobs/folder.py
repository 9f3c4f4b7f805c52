"""Blobs as files in a folder: one for each tenant, in it one for each run, in it a file for each blob."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, check_key
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StoreUnavailable
from stepfast.stores.blobs import listing
from stepfast.stores.blobs.files import Files
from stepfast.stores.blobs.problems import explained

T = TypeVar("T")

THREADS = 4


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class FolderBlobs:
    """Blobs in a folder, which several processes and, on a shared file system, several machines may use at once."""

    def __init__(self, folder: str | Path, clock: Callable[[], int] = _wall_clock) -> None:
        self._folder = Path(folder)
        self._clock = clock
        self._files: Files | None = None
        self._threads: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"<blobs in {self._folder}>"

    async def open(self) -> None:
        """Make the folder where there is none, and see that it can be written."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="stepfast-blobs")
        try:
            self._files = await self._in_thread(partial(Files.open, self._folder))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the threads; the folder is held by nobody between calls."""
        threads, self._threads, self._files = self._threads, None, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    async def put(self, key: BlobKey, content: bytes) -> None:
        """Keep the content; it is on disk when this returns."""
        check_key(key)
        await self._run(lambda files: files.write(key, content, self._clock()))

    async def get(self, key: BlobKey) -> bytes | None:
        """The content, or None when there is none of that key."""
        check_key(key)
        return await self._run(lambda files: files.read(key))

    async def has(self, key: BlobKey) -> bool:
        """Whether there is a blob of that key."""
        check_key(key)
        return await self._run(lambda files: files.info(key)) is not None

    async def delete(self, key: BlobKey, put_before: Instant | None = None) -> bool:
        """Remove a blob, with `put_before` only if it was not put again since."""
        check_key(key)
        return await self._run(lambda files: files.remove(key, put_before))

    async def list(self, where: BlobFilter) -> list[BlobInfo]:
        """A page of blobs, by the names of their folders and files."""
        return await self._run(partial(_page, where))

    async def _run(self, work: Callable[[Files], T]) -> T:
        files = self._files
        if files is None:
            raise StoreUnavailable(f"The blob folder {self._folder} is not open. Open it first.")
        return await self._in_thread(lambda: work(files))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(self._explained, call))

    def _explained(self, call: Callable[[], T]) -> T:
        with explained(self._folder):
            return call()


def _page(where: BlobFilter, files: Files) -> list[BlobInfo]:
    with files.whole() as (root, _):
        return list(islice(listing.walk(root, where), where.limit))
