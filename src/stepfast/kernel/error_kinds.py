"""Errors by name: how a definition that is data says which errors it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeVar, cast

from stepfast.kernel.errors import Invalid, RunTimeout, StepTimeout, StoreUnavailable, WaitTimeout
from stepfast.kernel.executor_errors import HttpFailed

E = TypeVar("E", bound=BaseException)

TRANSIENT, TIMEOUT = "transient", "timeout"

MARK = "transient"
"""The attribute by which an error, or its class, says that it will pass."""

# What the operating system says of a thing that is not there, or not ours, it will say again.
_LASTING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError, Invalid)

# In Python a TimeoutError is trouble of the operating system, which a limit of ours that was too short is not.
_OUR_LIMITS = (StepTimeout, WaitTimeout, RunTimeout)


class _Named(type):
    """The class of classes that take errors for their own by what these are, not by how they were defined."""

    covers: Callable[[BaseException], bool]

    def __instancecheck__(cls, error: object) -> bool:
        return isinstance(error, BaseException) and cls.covers(error)


def is_transient(error: BaseException) -> bool:
    """Whether an error will pass by itself: it is marked so, or the network or the operating system had trouble."""
    marked = getattr(error, MARK, None)
    if isinstance(marked, bool):
        return marked
    return isinstance(error, OSError | StoreUnavailable | HttpFailed) and not isinstance(error, _LASTING + _OUR_LIMITS)


def mark_transient(error: E) -> E:
    """The error, which from now on says that it will pass; so does its record."""
    setattr(error, MARK, True)
    return error


def is_timeout(error: BaseException) -> bool:
    """Whether something took too long."""
    return isinstance(error, TimeoutError)


@cache
def error_kind(name: str) -> type[BaseException]:
    """The class that stands for all errors of a name, for `Retry`.

    The name is `transient`, `timeout`, the name of an error's class or of one of its bases, with or without the module,
    or a code such as E-STEP-002.
    """
    covers = {TRANSIENT: is_transient, TIMEOUT: is_timeout}.get(name) or _called(name)
    return cast(type[BaseException], _Named(name, (Exception,), {"covers": staticmethod(covers)}))


def error_kinds(names: Iterable[str]) -> tuple[type[BaseException], ...]:
    """The same for several names."""
    return tuple(map(error_kind, names))


def kind_names(kinds: type[BaseException] | tuple[type[BaseException], ...]) -> list[str]:
    """The names by which `error_kinds` takes the errors of these classes."""
    several = kinds if isinstance(kinds, tuple) else (kinds,)
    return [each.__name__ if isinstance(each, _Named) else f"{each.__module__}.{each.__qualname__}" for each in several]


def _called(name: str) -> Callable[[BaseException], bool]:
    def covers(error: BaseException) -> bool:
        if getattr(error, "code", None) == name:
            return True
        return any(name in (kind.__name__, f"{kind.__module__}.{kind.__qualname__}") for kind in type(error).__mro__)

    return covers
