"""Blobs as files in a folder: one for each tenant, in it one for each run, in it a file for each blob."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, check_key
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StoreUnavailable
from stepfast.stores.blobs import listing
from stepfast.stores.blobs.files import Files
from stepfast.stores.blobs.memory import Memory
from stepfast.stores.blobs.problems import explained

T = TypeVar("T")

THREADS = 4


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class FolderBlobs:
    """Blobs in a folder, which several processes and, on a shared file system, several machines may use at once.

    The first put makes it. From then on it is remembered by its identity: whatever else is in its place is not written
    to, and what is not found there is not taken to be gone. An app has that remembered in its database; without one a
    folder is ours once it was looked into.
    """

    def __init__(self, folder: str | Path, clock: Callable[[], int] = _wall_clock) -> None:
        self._folder = Path(folder)
        self._clock = clock
        self._files: Files | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._identity: str | None = None
        self.memory: Memory | None = None

    def __repr__(self) -> str:
        return f"<blobs in {self._folder}>"

    async def open(self) -> None:
        """See that there is a folder, or can be one; nothing is made before there is something to put."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="stepfast-blobs")
        try:
            self._files = files = Files(self._folder)
            self._identity = None
            identity = await self._recalled(files)
            await self._in_thread(lambda: files.prepare(identity))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the threads; the folder is held by nobody between calls."""
        threads, self._threads, self._files = self._threads, None, None
        if threads is not None:
            await _ended(threads)

    async def put(self, key: BlobKey, content: bytes) -> None:
        """Keep the content; it is on disk when this returns."""
        check_key(key)
        files = self._open_files()
        identity = await self._recalled(files) or await self._made(files)
        await self._in_thread(lambda: files.write(key, content, self._clock(), identity))

    async def get(self, key: BlobKey) -> bytes | None:
        """The content, or None when there is none of that key."""
        check_key(key)
        files = self._open_files()
        identity = await self._recalled(files)
        return await self._in_thread(lambda: files.read(key, identity))

    async def has(self, key: BlobKey) -> bool:
        """Whether there is a blob of that key."""
        check_key(key)
        files = self._open_files()
        identity = await self._recalled(files)
        return await self._in_thread(lambda: files.info(key, identity)) is not None

    async def delete(self, key: BlobKey, put_before: Instant | None = None) -> bool:
        """Remove a blob, with `put_before` only if it was not put again since."""
        check_key(key)
        files = self._open_files()
        identity = await self._recalled(files)
        # A folder that nothing was put into yet may be somebody else's.
        return identity is not None and await self._in_thread(lambda: files.remove(key, put_before, identity))

    async def list(self, where: BlobFilter) -> list[BlobInfo]:
        """A page of blobs, by the names of their folders and files."""
        files = self._open_files()
        identity = await self._recalled(files)
        return [] if identity is None else await self._in_thread(lambda: _page(where, files, identity))

    def _open_files(self) -> Files:
        if self._files is None:
            raise StoreUnavailable(f"The blob folder {self._folder} is not open. Open it first.")
        return self._files

    async def _recalled(self, files: Files) -> str | None:
        """Which folder is ours; once there is one, it stays."""
        if self._identity is None and self.memory is not None:
            self._identity = await self.memory.recall()
        elif self._identity is None:
            self._identity = await self._in_thread(files.identity)
        return self._identity

    async def _made(self, files: Files) -> str:
        """Something is put for the first time: the folder that is there now, or is made, is ours."""
        made = await self._in_thread(files.make)
        self._identity = made if self.memory is None else await self.memory.remember(made)
        return self._identity

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(self._explained, call))

    def _explained(self, call: Callable[[], T]) -> T:
        with explained(self._folder):
            return call()


async def _ended(threads: ThreadPoolExecutor) -> None:
    """Wait beside the event loop, and no longer than whoever asks: a thread may hang in a mount that is gone."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end() -> None:
        threads.shutdown(cancel_futures=True)
        with suppress(RuntimeError):  # nobody waited for so long, and the loop is closed
            loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(None))

    threading.Thread(target=end, name="stepfast-blobs-end", daemon=True).start()
    await ended


def _page(where: BlobFilter, files: Files, identity: str) -> list[BlobInfo]:
    with files.whole(identity) as (root, _):
        return list(islice(listing.walk(root, where), where.limit))
