"""Exit codes: which error ends a command with which number."""

from __future__ import annotations

from stepfast.kernel.errors import (
    IllegalMove,
    Invalid,
    InvalidDefinition,
    KeyInProgress,
    KeyReused,
    NotFound,
    NothingBefore,
    RoleNotAllowed,
    StepfastError,
    StepNotFound,
    TokenExpired,
    TokenForeign,
    TokenUsed,
    TokenWrong,
    VerdictNotAllowed,
    WaitTimeout,
)
from stepfast.kernel.outside import CallbackExpired, CallbackForeign, CallbackUsed, CallbackWrong

OK = 0
ERROR = 1
USAGE = 2
NOT_FOUND = 3
REFUSED = 4
PARTLY_DONE = 5
TIMED_OUT = 124
# Nobody reads the rest of the output, as behind `| head -1`; as a shell would say it.
UNREAD = 141
# A worker process that has done its number of runs, or grown too large, asks its supervisor for a fresh one.
REPLACE_ME = 75

_CODES: dict[type[StepfastError], int] = {
    Invalid: USAGE,
    InvalidDefinition: ERROR,
    NotFound: NOT_FOUND,
    StepNotFound: NOT_FOUND,
    IllegalMove: REFUSED,
    NothingBefore: REFUSED,
    RoleNotAllowed: REFUSED,
    TokenExpired: REFUSED,
    TokenForeign: REFUSED,
    TokenUsed: REFUSED,
    TokenWrong: REFUSED,
    VerdictNotAllowed: REFUSED,
    CallbackExpired: REFUSED,
    CallbackForeign: REFUSED,
    CallbackUsed: REFUSED,
    CallbackWrong: REFUSED,
    KeyReused: REFUSED,
    KeyInProgress: REFUSED,
    WaitTimeout: TIMED_OUT,
}


def exit_code_of(error: StepfastError) -> int:
    """The exit code for an error, by the nearest class that has one."""
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), ERROR)
