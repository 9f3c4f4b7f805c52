"""How the tests of the suite become plain ones: each has a loop and a store of its own, and each case is a test."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from stepfast.conformance.store.acts import NOON
from stepfast.conformance.store.harness import Harness
from stepfast.kernel.durations import Instant
from stepfast.kernel.ports import Clock, Store
from stepfast.testing.clock import VirtualClock

StoreMaker = Callable[[Clock], Store]
Test = Callable[..., Coroutine[Any, Any, None]]

T = TypeVar("T", bound=Test)
S = TypeVar("S", bound="StoreSuite")

_CASES: dict[Test, list[tuple[str, dict[str, object]]]] = {}


class StoreSuite:
    """What all parts of the suite have in common: how a store is made, and told the time."""

    async def set_clock(self, store: Store, moment: Instant) -> None:
        """Tell an open store what time it is from now on; one that goes by the clock it was given knows it."""

    async def rows(self, store: Store) -> object:
        """Everything that the store holds of runs, to be compared besides what the port tells."""
        return None

    @asynccontextmanager
    async def opened(self, make_store: StoreMaker) -> AsyncIterator[Harness]:
        """A store that stands at noon, open for a while."""
        clock = VirtualClock(NOON)
        async with opened(make_store, clock) as store:

            async def set_clock(moment: int) -> None:
                clock.advance((moment - clock.now()) / 1_000)
                await self.set_clock(store, Instant(moment))

            await set_clock(NOON)
            rows, another = functools.partial(self.rows, store), functools.partial(opened, make_store, clock)
            yield Harness(store, set_clock, rows, another)


@asynccontextmanager
async def opened(make_store: StoreMaker, clock: Clock) -> AsyncIterator[Store]:
    """A store whose schema is up to date, open for a while."""
    store = make_store(clock)
    try:
        await store.migrate()
        await store.open()
        yield store
    finally:
        await store.close()


def cases(**parameters: Mapping[str, object]) -> Callable[[T], T]:
    """One test for each value of a parameter, by the name that it has here; of several parameters, each combination."""

    def marked(method: T) -> T:
        _CASES[method] = [
            ("-".join(labels), dict(zip(parameters, values, strict=True)))
            for chosen in itertools.product(*(named.items() for named in parameters.values()))
            for labels, values in [zip(*chosen, strict=True)]
        ]
        return method

    return marked


def on_fresh_stores(suite: type[S]) -> type[S]:
    """Make plain tests of a class's coroutine functions: they take `make_store`, and need no plugin."""
    for name, method in list(vars(suite).items()):
        if name.startswith("test_") and inspect.iscoroutinefunction(method):
            delattr(suite, name)
            for label, arguments in _CASES.get(method, [("", {})]):
                full_name = f"{name}[{label}]" if label else name
                setattr(suite, full_name, _plain(method, full_name, arguments))
    return suite


def _plain(method: Test, name: str, arguments: dict[str, object]) -> Callable[[StoreSuite, StoreMaker], None]:
    def test(self: StoreSuite, make_store: StoreMaker) -> None:
        async def run() -> None:
            async with self.opened(make_store) as harness:
                await method(self, harness, **arguments)

        asyncio.run(run())

    # Without `__wrapped__`, by which pytest would take the harness and the case for fixtures.
    test.__name__, test.__doc__, test.__module__ = name, method.__doc__, method.__module__
    test.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{name}"
    return test
