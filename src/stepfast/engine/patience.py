"""How long somebody waits for the end of a run, and for a store that does not say whether it has come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from stepfast.kernel.durations import Duration, span_ms, told_span
from stepfast.kernel.errors import StoreUnavailable, WaitTimeout

T = TypeVar("T")

# A time that is too short for any answer, like 0, is made up for by this; one that is over lasts no longer.
LAST_LOOK_S = 1.0


class Patience:
    """The time that somebody gives a run to end; None is all the time in the world."""

    def __init__(self, run_id: str, timeout: Duration | None) -> None:
        self._run_id = run_id
        self._within = "" if timeout is None else f" within {told_span(timeout)}"
        self.ends_at = None if timeout is None else _now() + span_ms(timeout, "timeout") / 1_000

    async def answer(self, look: Awaitable[T]) -> T:
        """What the store answers; raises WaitTimeout where it has not when the time and a last look are over."""
        left_s = None if self.ends_at is None else max(self.ends_at - _now(), 0)
        try:
            async with asyncio.timeout(None if left_s is None else left_s + LAST_LOOK_S):
                return await look
        except TimeoutError as error:
            raise self._unanswered() from error
        except StoreUnavailable as error:
            # Before the time is over it is told as what it is, and not as a wait that nobody has waited.
            if self.ends_at is None or _now() < self.ends_at:
                raise
            raise self._unanswered() from error

    def over(self) -> WaitTimeout:
        """What is raised where the run goes on."""
        return WaitTimeout(f"Run {self._run_id} has not ended{self._within}. It goes on; ask for it again.")

    def _unanswered(self) -> WaitTimeout:
        return WaitTimeout(
            f"Whether run {self._run_id} has ended could not be read{self._within}: the store did not answer. Ask for "
            f"it again, or look at the store with `stepfast doctor`."
        )


def _now() -> float:
    return asyncio.get_running_loop().time()
