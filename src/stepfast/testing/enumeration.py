"""Every point at which a process can die, one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from itertools import count
from typing import Any, NamedTuple, TypeVar

from stepfast.kernel.numbers import check_whole
from stepfast.testing.crashes import CrashPoint
from stepfast.testing.engine import Engine
from stepfast.testing.opening import engine
from stepfast.testing.temporary import temporary_store

T = TypeVar("T")

Scenario = Callable[[Engine], Awaitable[T]]
Databases = Callable[[], AbstractAsyncContextManager[str]]


class CrashPoints(NamedTuple):
    """What was tried: the store calls of the scenario when no crash came, and the points at which it was let die."""

    calls: list[str]
    points: list[CrashPoint]


async def crash_points(
    scenario: Scenario[Any], *, databases: Databases | None = None, every: int = 1, **options: Any
) -> CrashPoints:
    """Play a scenario once undisturbed, then once for each point at which its process can die, each on a fresh store.

    The points are before every call of the store, and after it but before its answer is heard. What the scenario
    returns must be the same each time; what else must hold it asserts itself. `databases` gives a fresh database each
    time, by default a temporary SQLite file; `every=7` takes every seventh point. Takes the options of `engine`.
    """
    check_whole("every", every, 1)
    fresh = databases or temporary_store
    expected = await _undisturbed(scenario, fresh, options)
    tried: list[CrashPoint] = []
    for point in _points(every):
        calls, result = await _disturbed(scenario, fresh, point, options)
        assert result == expected, f"A crash {point} changed the result: {result!r} instead of {expected!r}."
        if calls is not None:
            return CrashPoints(calls, tried)
        tried.append(point)
    raise AssertionError("unreachable: a scenario ends after a finite number of calls")


def _points(every: int) -> Iterator[CrashPoint]:
    for number in count(0, every):
        yield CrashPoint(number // 2 + 1, answered=number % 2 == 1)


async def _undisturbed(scenario: Scenario[T], fresh: Databases, options: dict[str, Any]) -> T:
    async with fresh() as database, engine(database=database, **options) as opened:
        return await scenario(opened)


async def _disturbed(
    scenario: Scenario[T], fresh: Databases, point: CrashPoint, options: dict[str, Any]
) -> tuple[list[str] | None, T]:
    """All store calls, if the scenario was over before the point came, and its result."""
    async with fresh() as database, engine(database=database, crash_at=point, **options) as opened:
        try:
            result = await scenario(opened)
        except BaseException as error:
            error.add_note(f"The process was let die {opened.died or point}.")
            raise
        return (None if opened.crashes else opened.store_calls), result
