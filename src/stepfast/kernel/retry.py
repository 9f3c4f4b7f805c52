"""When a failed attempt is tried again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid
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
        """Whether another attempt follows attempt number `attempt`, which raised `error`."""
        return attempt < self.attempts and isinstance(error, self.on) and not isinstance(error, self.never)

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


def _check_between(what: str, number: object, lowest: int, highest: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not lowest <= number <= highest:
        raise Invalid(f"{what} is {shown(number)}; it must lie between {lowest:,} and {highest:,}.")


def _check_errors(what: str, classes: object) -> None:
    several = classes if isinstance(classes, tuple) else (classes,)
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in several):
        raise Invalid(f"{what} is {shown(classes)}; give exception classes, as in (ConnectionError, TimeoutError).")


def _share(seed: str, attempt: int) -> float:
    # Jitter is a hash of the call, not a random number: the rule stays pure and a replay computes the same pause.
    digest = hashlib.blake2b(f"{seed}:{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
