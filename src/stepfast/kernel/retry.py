"""When a failed attempt is tried again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, InvalidDefinition
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.texts import shown

MAX_ATTEMPTS = 1_000_000
MAX_FACTOR = 1_000_000


@dataclass(frozen=True)
class Retry:
    """How often, how soon and for which errors a step is tried again; `attempts` includes the first."""

    attempts: int = 4
    base: Duration = "1s"
    factor: float = 2
    cap: Duration = "1m"
    jitter: float = 0.2
    on: tuple[type[BaseException], ...] = (Exception,)
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        check_whole("Retry.attempts", self.attempts, 1, MAX_ATTEMPTS)
        _check_between("Retry.factor", self.factor, 1, MAX_FACTOR)
        _check_between("Retry.jitter", self.jitter, 0, 1)
        span_ms(self.base, "Retry.base")
        span_ms(self.cap, "Retry.cap")
        _check_errors("Retry.on", self.on)
        _check_errors("Retry.never", self.never)

    def allows(self, attempt: int, error: BaseException) -> bool:
        """Whether another attempt follows attempt number `attempt`, which raised `error`.

        A group is judged by the errors in it: each must be one that is tried again, and none one that never is.
        """
        return attempt < self.attempts and not self.forbids(error) and self._covers(error)

    def forbids(self, error: BaseException) -> bool:
        """Whether it is, or holds, an error that is never tried again."""
        return any(isinstance(each, self.never) for each in _with_inner(error))

    def _covers(self, error: BaseException) -> bool:
        # A group is an Exception itself, which says nothing of what is in it; its own class counts if it is named.
        groups = tuple(each for each in _several(self.on) if issubclass(each, BaseExceptionGroup))
        leaves = (each for each in _with_inner(error, groups) if not isinstance(each, BaseExceptionGroup))
        return all(isinstance(each, self.on) for each in leaves)

    def delay_ms(self, attempt: int, seed: str) -> int:
        """The pause after attempt number `attempt`: never shorter than the plain backoff, finite for any number."""
        plain = self._plain_ms(attempt)
        return plain + int(plain * self.jitter * _share(seed, attempt))

    def _plain_ms(self, attempt: int) -> int:
        base, cap = span_ms(self.base), span_ms(self.cap)
        if base == 0:
            return 0
        try:
            grown = base * float(self.factor) ** (attempt - 1)
        except OverflowError:
            return cap
        return int(min(grown, cap))


def check_retry(owner: str, retry: object) -> Retry | None:
    """Refuse a policy that is none where it is written, not when the first failure asks for it."""
    if retry is None or isinstance(retry, Retry):
        return retry
    raise InvalidDefinition(f"The retry of {owner} is {shown(retry)}; use Retry(attempts=...), or leave it out.")


def _check_between(what: str, number: object, lowest: int, highest: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not lowest <= number <= highest:
        raise Invalid(f"{what} is {shown(number)}; it must lie between {lowest:,} and {highest:,}.")


def _check_errors(what: str, classes: object) -> None:
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in _several(classes)):
        raise Invalid(f"{what} is {shown(classes)}; give exception classes, as in (ConnectionError, TimeoutError).")


def _several(classes: Any) -> tuple[Any, ...]:
    return classes if isinstance(classes, tuple) else (classes,)


def _with_inner(error: BaseException, whole: tuple[type[BaseException], ...] = ()) -> Iterator[BaseException]:
    """An error, and if it is a group every error in it at any depth; of a group that counts as a whole, none."""
    pending = [error]
    while pending:
        each = pending.pop()
        yield each
        if isinstance(each, BaseExceptionGroup) and not isinstance(each, whole):
            # Past whatever the group's class makes of it.
            pending += BaseExceptionGroup.exceptions.__get__(each)


def _share(seed: str, attempt: int) -> float:
    # Jitter is a hash of the call, not a random number: the rule stays pure and a replay computes the same pause.
    digest = hashlib.blake2b(f"{seed}:{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
