"""The threads that the code of `def` workflows runs in: one that does not end is nobody's loss but its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Work = Callable[[], None]


class CodeThreads(Executor):
    """As many threads as there is code to run, kept for what comes next.

    Code that catches whatever is to end it stays in its thread for ever. Those of a `ThreadPoolExecutor` would then be
    fewer for all others, and be waited for when the process ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._counting = threading.Lock()
        self._made = self._idle = 0
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._counting:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._work.put(partial(self._perform, future, partial(fn, *args, **kwargs)))
            if self._idle:
                self._idle -= 1
            else:
                self._add_thread()
        return future

    def _add_thread(self) -> None:
        self._made += 1
        threading.Thread(target=_work_off, args=(self._work,), name=f"{self._name}_{self._made}", daemon=True).start()

    def _perform(self, future: Future[T], call: Callable[[], T]) -> None:
        give: Work | None = None
        if future.set_running_or_notify_cancel():
            try:
                give = partial(future.set_result, call())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the future
                give = partial(future.set_exception, error)
        # Before anybody hears of the end: who gives the next work then finds this thread.
        with self._counting:
            self._idle += 1
        if give is not None:
            give()
        # An error knows this frame by its traceback; let go, it is freed at once.
        del give, future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Have every thread end behind the code that it runs. Nobody waits for that, and no code is left to cancel."""
        with self._counting:
            self._is_shut = True
            for _ in range(self._made):
                self._work.put(None)
            self._made = 0

    def __del__(self) -> None:
        self.shutdown()


def _work_off(given: SimpleQueue[Any]) -> None:
    """What a thread does; while it is idle it holds on to nothing but the queue."""
    while (work := given.get()) is not None:
        work()
        del work
