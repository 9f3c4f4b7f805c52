"""What a step's body says of work that goes on outside: that it was started, that it is not done yet."""

from __future__ import annotations

import functools
import operator
import types
import typing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.numbers import check_whole

T = TypeVar("T")

# Each question costs a claim and a park: whoever must know sooner has a callback.
SHORTEST_INTERVAL_MS = 1_000
LONGEST_MS = 10 * 366 * 24 * 3_600_000


@dataclass(frozen=True)
class Outside(Generic[T]):
    """Returned by a step's body: the work was started outside, and goes on there while nobody waits here.

    `handle` is JSON, and is what the other side knows the work by. `poll` is a step that is called with it from time to
    time, and answers `Pending()` or the step's result; the method `poll` of a class executor needs not be named. With
    `callback` the other side says itself how it ended, by the token that `callback_token()` gave. `cancel` is a step
    that is called with the handle when nobody waits for the work any more. Without a `deadline` it may take for ever.
    """

    handle: Any
    poll: Any = None
    every: Duration = "30s"
    deadline: Duration | None = None
    callback: bool = False
    cancel: Any = None

    @property
    def every_ms(self) -> int:
        """How long after one question the next is asked."""
        return check_whole("every, in milliseconds,", span_ms(self.every, "every"), SHORTEST_INTERVAL_MS, LONGEST_MS)

    @property
    def deadline_ms(self) -> int | None:
        """How long the work may take."""
        if self.deadline is None:
            return None
        return check_whole("deadline, in milliseconds,", span_ms(self.deadline, "deadline"), 1, LONGEST_MS)


Progress = float | tuple[float, float | None] | None


@dataclass(frozen=True)
class Pending:
    """Answered by a poll: not yet. `progress` is how much is done, or that and how much there is."""

    progress: Progress = None


def result_hint(hint: Any) -> Any:
    """What a result is in the end: `int` of `int | Outside[int]`, of `Outside[int]` and of `Pending | int`."""
    # A step that always raises has no result, and its body is to run all the same.
    if any(hint is each for each in (Outside, Pending, typing.NoReturn, typing.Never)):
        return Any
    if typing.get_origin(hint) is Outside:
        return typing.get_args(hint)[0]
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    parts = [part for part in typing.get_args(hint) if part is not Outside and part is not Pending]
    plain = [part for part in parts if typing.get_origin(part) is not Outside]
    inner = [typing.get_args(part)[0] for part in parts if typing.get_origin(part) is Outside]
    if len(plain) == len(typing.get_args(hint)):
        return hint
    return functools.reduce(operator.or_, plain or inner) if plain or inner else Any
