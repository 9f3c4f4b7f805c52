"""What the suites have in common: tests that need no plugin, and a way to say what must be refused."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec

P = ParamSpec("P")


def in_a_loop(method: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that has an event loop of its own."""

    @functools.wraps(method)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(method(*args, **kwargs))

    return test


@contextmanager
def refused(error: type[Exception], what: object, naming: str = "") -> Iterator[None]:
    """Fail unless the code within raises this error, with a message in which `naming` stands."""
    try:
        yield
    except error as raised:
        if naming in str(raised):
            return
        raise AssertionError(f"{what!r} was refused with a message that does not name {naming}: {raised}") from raised
    raise AssertionError(f"{what!r} was not refused with {error.__name__}.")
