"""What code that has ended in a thread still holds: generators and context managers, by the frames of its error."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from stepfast.workflows.branches import Parked

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

Hook = Callable[["UnraisableHookArgs"], object]


def let_go(error: BaseException) -> None:
    """End the generators that the frames of an error still hold, here and now, in the branch that they belong to.

    Whoever frees the error later ends them in a thread of its own, where a step in their `finally` would be a plain
    function, done at every park and never recorded.
    """
    for each in _chain(error):
        traceback.clear_frames(each.__traceback__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            left += [other for other in (each.__cause__, each.__context__, *inner) if other is not None]


def keep_parks_quiet() -> None:
    """Have Python say nothing of a park that meets a generator which is just being ended: it is nobody's error."""
    hook = sys.unraisablehook
    if not (isinstance(hook, partial) and hook.func is _tell_others):
        sys.unraisablehook = partial(_tell_others, hook)


def _tell_others(hook: Hook, told: UnraisableHookArgs, /) -> None:
    if not isinstance(told.exc_value, Parked):
        hook(told)
