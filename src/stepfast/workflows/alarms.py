"""When the waits of a run's code are over: those whose time has passed end in the order of their moments."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container

from stepfast.kernel.decisions import OpenWait
from stepfast.kernel.durations import Instant


class Alarms:
    """The moments of the waits that somebody waits for.

    While no worker was there several may have passed. Which of them ends first decides races and timeouts, and must not
    depend on when somebody looked: it goes by the stored moments.
    """

    def __init__(self, awaited: Container[int]) -> None:
        self._awaited = awaited
        self._due: dict[int, Instant] = {}
        self._moments: list[tuple[Instant, int]] = []
        self._turns: list[tuple[Instant, int, Callable[[], None]]] = []
        self._is_giving = False

    def set(self, wait_id: int, due_at: Instant) -> None:
        """A wait will be over at that moment, as far as is known now, unless nobody waits for it by then."""
        if self._due.get(wait_id) != due_at:
            self._due[wait_id] = due_at
            heapq.heappush(self._moments, (due_at, wait_id))

    def move(self, wait_id: int, due_at: Instant) -> None:
        """The store says when a wait is really over."""
        if wait_id in self._due:
            self.set(wait_id, due_at)

    @property
    def first_at(self) -> Instant | None:
        """The earliest moment of a wait whose alarm has not rung."""
        while self._moments and not self._is_set(*self._moments[0]):
            heapq.heappop(self._moments)
        return self._moments[0][0] if self._moments else None

    @property
    def next_at(self) -> Instant | None:
        """The earliest moment of a wait that has not ended, whether its alarm has rung or not."""
        while self._turns and self._turns[0][1] not in self._awaited:
            # Nobody waits for it any more: its end would do nothing.
            heapq.heappop(self._turns)
        first_at, rung_at = self.first_at, self._turns[0][0] if self._turns else None
        return min((at for at in (first_at, rung_at) if at is not None), default=None)

    def _is_next(self, at: Instant, wait_id: int) -> bool:
        # Of two that are over in the same moment, the one that was opened first.
        return self.first_at is None or (at, wait_id) <= self._moments[0]

    def _is_set(self, due_at: Instant, wait_id: int) -> bool:
        return wait_id in self._awaited and self._due.get(wait_id) == due_at

    def ring(self, wait: OpenWait, end: Callable[[], None]) -> None:
        """The time of a wait is over: it ends when all that were over before have ended."""
        assert wait.due_at is not None
        self._due.pop(wait.wait_id, None)
        heapq.heappush(self._turns, (wait.due_at, wait.wait_id, end))

    def give_turns(self, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """End what need not wait for another, one by one as long as that may go on."""
        # The end of one gives the turn to the next: in a loop, for there may be thousands.
        if self._is_giving:
            return
        self._is_giving = True
        try:
            while self._turns and may_go_on() and self._is_next(*self._turns[0][:2]):
                _, _, end = heapq.heappop(self._turns)
                end()
        finally:
            self._is_giving = False
