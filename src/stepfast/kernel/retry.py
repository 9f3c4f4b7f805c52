"""When a failed attempt is tried again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid

MAX_ATTEMPTS = 1_000_000


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
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise Invalid(f"Retry.attempts is {self.attempts!r}; allowed are 1 (no retry) to {MAX_ATTEMPTS:,}.")
        if not self.factor >= 1:
            raise Invalid(f"Retry.factor is {self.factor!r}; it must be 1 or more.")
        if not 0 <= self.jitter <= 1:
            raise Invalid(f"Retry.jitter is {self.jitter!r}; it must lie between 0 and 1.")
        span_ms(self.base, "Retry.base")
        span_ms(self.cap, "Retry.cap")

    def allows(self, attempt: int, error: BaseException) -> bool:
        """Whether another attempt follows attempt number `attempt`, which raised `error`."""
        return attempt < self.attempts and isinstance(error, self.on) and not isinstance(error, self.never)

    def delay_ms(self, attempt: int, seed: str) -> int:
        """The pause after attempt number `attempt`: never shorter than the plain backoff, finite for any number."""
        plain = self._plain_ms(attempt)
        return plain + int(plain * self.jitter * _share(seed, attempt))

    def _plain_ms(self, attempt: int) -> int:
        base, cap = span_ms(self.base), span_ms(self.cap)
        try:
            grown = base * float(self.factor) ** (attempt - 1)
        except OverflowError:
            return cap
        return int(min(grown, cap))


def _share(seed: str, attempt: int) -> float:
    # Jitter is a hash of the call, not a random number: the rule stays pure and a replay computes the same pause.
    digest = hashlib.blake2b(f"{seed}:{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
