"""Large values: put away before the commit that mentions them, and put back in place of their references."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stepfast.kernel.blobs import (
    DEFAULT_THRESHOLD,
    NO_RUN,
    BlobKey,
    Blobs,
    BlobsAway,
    Reference,
    completed,
    is_reference,
    parse_reference,
    reference_to,
    restored,
)
from stepfast.kernel.errors import BlobsFailed, StepfastError, StoreUnavailable
from stepfast.kernel.ids import RunId

T = TypeVar("T")

AT_ONCE = 4
# The largest value takes so long over a slow line; a mount that hangs, or a server that is gone, would take for ever.
ANSWER_S = 60.0
CLOSE_S = 5.0
NEVER_PUT = BlobKey("stepfast", NO_RUN, "nothing")


class Values:
    """Swaps texts of more characters than the threshold for references to blobs, and back.

    The blob is there before the row that mentions it; one whose row never came is an orphan, and is swept.
    """

    def __init__(self, blobs: Blobs, threshold: int = DEFAULT_THRESHOLD, are_apart: bool = True) -> None:
        self.blobs = blobs
        self.threshold = threshold
        self.are_apart = are_apart
        """Whether the blobs are elsewhere than in the store, and may be away while that is there."""
        self._room = asyncio.Semaphore(AT_ONCE)
        # Digests of megabytes take their time, and must not take the event loop's.
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="stepfast-values")

    async def open(self) -> None:
        await self.ask(self.blobs.open)

    async def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        await self.ask(self.blobs.close, CLOSE_S)

    async def keep(self, tenant: str, run_id: RunId, text: str) -> str:
        """The text itself, or, when it is large, the reference to it, which is now in the blob store."""
        if len(text) <= self.threshold:
            return text
        content, reference = await self._in_thread(_sealed, text)
        key = BlobKey(tenant, run_id, reference.name)
        await self.ask(lambda: self.blobs.put(key, content))
        return reference.text

    async def resolve(self, tenant: str, run_id: RunId, texts: Sequence[str | None]) -> Sequence[str | None]:
        """Each text as it was before it was put away; what several of them refer to is read once."""
        wanted = sorted({text for text in texts if is_reference(text)})
        if not wanted:
            return texts
        found = await asyncio.gather(*(self._get(tenant, run_id, text) for text in wanted))
        known: dict[str | None, str] = dict(zip(wanted, found, strict=True))
        return [known.get(text, text) for text in texts]

    async def reach(self) -> str:
        """Raise what keeps values from being read; where they are, if nothing does."""
        await self.ask(lambda: self.blobs.has(NEVER_PUT))
        return repr(self.blobs)

    async def ask(self, call: Callable[[], Awaitable[T]], limit_s: float | None = None) -> T:
        """Ask the blob store, which may be anybody's code, in turn with others; one that does not answer is away."""
        async with self._room:
            # What asks the database has a limit of its own for each statement.
            limit = asyncio.timeout((ANSWER_S if limit_s is None else limit_s) if self.are_apart else None)
            try:
                async with limit:
                    return await call()
            except StoreUnavailable as error:
                if not self.are_apart:
                    raise
                raise BlobsAway(*error.args) from error
            except StepfastError:
                raise
            except asyncio.CancelledError as error:
                if _is_called_off():
                    raise
                raise self._failed(error) from error
            except Exception as error:
                raise (self._silent() if limit.expired() else self._failed(error)) from error

    def _silent(self) -> BlobsAway:
        return BlobsAway(
            f"The blob store {self.blobs!r} does not answer. Check that it, or what is mounted there, is up."
        )

    def _failed(self, error: BaseException) -> BlobsFailed:
        told = f"{type(error).__name__}: {error}".rstrip(": ")
        return BlobsFailed(f"The blob store {self.blobs!r} failed with {told}. Check that it is up.")

    async def _get(self, tenant: str, run_id: RunId, text: str) -> str:
        reference = parse_reference(text, run_id)
        key = BlobKey(tenant, run_id, reference.name)
        content = await self.ask(lambda: self.blobs.get(key))
        return completed(text, await self._in_thread(restored, reference, content, run_id), run_id)

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)


def _is_called_off() -> bool:
    """Whether somebody has cancelled the task that asks, and not only what it asks for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _sealed(text: str) -> tuple[bytes, Reference]:
    content = text.encode()
    return content, reference_to(content)
