"""Coroutines that code handed to asyncio, which was then refused: nobody is left to await them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any


def close_refused(caller: FrameType | None, arguments: tuple[Any, ...]) -> None:
    """Close what a refused call was given, so that Python does not say of it, too, that it was never awaited."""
    _close_all((*arguments, *_given_to_wait_for(caller)))


def comes_from_as_completed(frame: FrameType | None) -> bool:
    """Whether a task is made by `asyncio.as_completed`, which goes through coroutines in the order of a set."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("asyncio"):
        if frame.f_code.co_qualname.startswith(("as_completed", "_AsCompletedIterator")):
            # Where Python has comprehensions of their own, the set that it goes through; else what it was given.
            _close_all(next((frame.f_locals[name] for name in (".0", "aws", "fs") if name in frame.f_locals), ()))
            return True
        frame = frame.f_back
    return False


def _close_all(rest: Iterable[object]) -> None:
    for given in rest:
        if asyncio.iscoroutine(given):
            given.close()


def _given_to_wait_for(frame: FrameType | None) -> Iterator[object]:
    """What `asyncio.wait_for` would have awaited: it asks for its timer first, with the coroutine in its hands."""
    code = asyncio.wait_for.__code__
    while frame is not None and frame.f_globals.get("__name__", "").startswith("asyncio"):
        if frame.f_code is code:
            yield frame.f_locals[code.co_varnames[0]]
        frame = frame.f_back
