"""The way from blocking code to an event loop: calls, pages and whole methods in their blocking form."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from stepfast.kernel.errors import StepfastError, WrongCall
from stepfast.workflows.deterministic import refuse_in_workflow

T = TypeVar("T")
P = ParamSpec("P")
Inner = TypeVar("Inner")
Inner_co = TypeVar("Inner_co", covariant=True)


class Portal:
    """The way from blocking code to an event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    @property
    def is_of_another_process(self) -> bool:
        """Whether this process is a copy of the one that opened it: threads are not copied, so nobody would answer."""
        return self._loop is not None and self._pid != os.getpid()

    def open(self) -> None:
        self._refuse_copy()
        if self._loop is not None:
            raise StepfastError("This app is open already. Use it, or close it first.")
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="stepfast-sync", daemon=True)
        self._thread.start()

    def close(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        self._loop = self._thread = None

    def close_after(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do a last thing on the loop, and close it; where the waiting is interrupted both come to their end alone."""
        loop, thread = self._answering(), self._thread
        last: Future[None] | None = None
        try:
            last = asyncio.run_coroutine_threadsafe(_and_stop(work), loop)
            last.result()
        finally:
            self._loop = self._thread = None
            if thread is not None and last is not None and last.done():
                thread.join()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do it on the loop, and wait for it; given up when the waiting is interrupted."""
        loop = self._answering()
        future = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _answering(self) -> asyncio.AbstractEventLoop:
        """The loop, if it can answer whoever asks."""
        refuse_in_workflow("A blocking call")
        self._refuse_copy()
        if self._loop is None:
            raise StepfastError("The app is not open. Use it inside `with app:`.")
        if threading.current_thread() is self._thread:
            raise WrongCall(
                "A blocking call was made on the event loop that would have to answer it. In an `async def` step use "
                "the app of `stepfast`, or make the step a `def`."
            )
        return self._loop

    def _refuse_copy(self) -> None:
        if self.is_of_another_process:
            raise StepfastError(
                f"This app is open in process {self._pid}, of which this one, {os.getpid()}, is a copy (fork). "
                "Open this one only after the fork; on PostgreSQL this process may have an app of its own."
            )

    def call_plain(self, work: Callable[[], T]) -> T:
        """The same for a call that is no coroutine, but needs the loop."""

        async def call() -> T:
            return work()

        return self.call(call)

    def each(self, items: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """What an asynchronous iterator gives, one at a time."""
        iterator = self.call_plain(items)
        end: Any = object()

        async def next_item() -> T:
            return await anext(iterator, end)

        while (item := self.call(next_item)) is not end:
            yield item


async def _and_stop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do the last thing of a loop; it stops by itself, as whoever asked may be gone by then."""
    loop = asyncio.get_running_loop()
    try:
        await work()
    finally:
        loop.call_soon(loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and close it here: the thread that asks for it may have a loop that runs."""
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


class Facade(Protocol[Inner_co]):
    """Something that has an asynchronous counterpart."""

    _portal: Portal

    @property
    def _inner(self) -> Inner_co: ...


def blocking(
    method: Callable[Concatenate[Inner, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Facade[Inner], P], T]:
    """The blocking form of an asynchronous method."""

    def call(self: Facade[Inner], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.call(lambda: method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def paging(
    method: Callable[Concatenate[Inner, P], AsyncIterator[T]],
) -> Callable[Concatenate[Facade[Inner], P], Iterator[T]]:
    """The blocking form of a method that answers page by page."""

    def call(self: Facade[Inner], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._portal.each(lambda: method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call
