"""What a run waits for and what has come for it, as its holder knows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from stepfast.kernel.decisions import CallId, Message, OpenWait, Record, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.rules import COMMAND_KINDS
from stepfast.kernel.states import WaitKind
from stepfast.workflows.alarms import Alarms

T = TypeVar("T")

UNHEARD = (WaitKind.BACKOFF, WaitKind.OUTSIDE)


class Mailbox:
    """The open waits of a run, who in its code waits for each, and the messages that nobody has taken yet."""

    __slots__ = ("_alarms", "_given_back", "_has_held_back", "_inbox", "_put_off", "_taken", "_waiters", "_waits")

    def __init__(self, waits: Sequence[OpenWait], inbox: Sequence[Message]) -> None:
        self._waits = {wait.wait_id: wait for wait in waits} if waits else {}
        self._inbox = {message.n: message for message in inbox} if inbox else {}
        self._given_back: dict[int, Message] = {}
        self._taken: set[int] = set()
        self._waiters: dict[int, Callable[[], None]] = {}
        self._put_off: dict[int, Wait] = {}
        self._alarms: Alarms | None = None
        self._has_held_back = False

    @property
    def is_awaited(self) -> bool:
        """Whether some branch of the code waits for something that can come."""
        return bool(self._waiters)

    @property
    def open_kinds(self) -> set[WaitKind]:
        """What is waited for in the store, whether a branch of the code awaits it now or not."""
        return {wait.kind for wait in self._waits.values()}

    @property
    def next_due_at(self) -> Instant | None:
        """When the first of the waits is over by itself."""
        return min((wait.due_at for wait in self._waits.values() if wait.due_at is not None), default=None)

    @property
    def has_commands(self) -> bool:
        """Whether commands have come that nobody has told of."""
        return bool(self._inbox) and any(message.kind in COMMAND_KINDS for message in self._inbox.values())

    def wait(self, wait_id: int) -> OpenWait | None:
        """A wait as the store last had it."""
        return self._waits.get(wait_id)

    def waits_of(self, kind: WaitKind) -> list[OpenWait]:
        """The waits of a kind that are open."""
        return [wait for wait in self._waits.values() if wait.kind is kind]

    def open(self, wait: OpenWait) -> None:
        """A wait that is open in the store from now on; somebody may wait for it later."""
        self._waits.setdefault(wait.wait_id, wait)

    def await_(self, wait: OpenWait, check: Callable[[], None]) -> None:
        """From now on `check` is called whenever something has come."""
        self.open(wait)
        self._waiters[wait.wait_id] = check
        # When the next try of a step begins, or outside work is asked after, the code hears nothing.
        if wait.due_at is not None and wait.kind not in UNHEARD:
            self._alarms = self._alarms or Alarms(self._waiters)
            self._alarms.set(wait.wait_id, wait.due_at)

    def put_off(self, wait: OpenWait, call: CallId) -> None:
        """A wait is to last longer; the store hears of it when the run is parked, and not before."""
        self._waits[wait.wait_id] = wait
        join = (wait.need, wait.spare, wait.total)
        self._put_off[wait.wait_id] = Wait(wait.wait_id, wait.kind, wait.name, call, None, *join, is_numbered=True)

    def waits_put_off(self, now: Instant) -> list[Wait]:
        """The waits that are to last longer, as of now."""
        return [
            wait._replace(due_in_ms=max(due_at - now, 0)) if (due_at := self._waits[wait_id].due_at) else wait
            for wait_id, wait in self._put_off.items()
        ]

    def ring(self, wait: OpenWait, end: Callable[[], None]) -> None:
        """The time of a wait is over: `end` is called when all that were over before have ended."""
        assert self._alarms is not None
        self._alarms.ring(wait, end)

    def by_time(self, calls: Sequence[tuple[T, Record | None]]) -> Sequence[tuple[T, Record | None]]:
        """Calls that go on from their records, those first that are over first."""
        return sorted(calls, key=self._due_of) if self._waits else calls

    def _due_of(self, call: tuple[Any, Record | None]) -> float:
        record = call[1]
        wait = None if record is None else self._waits.get(record.seq)
        return math.inf if wait is None or wait.due_at is None else wait.due_at

    def forget(self, wait_id: int) -> None:
        """Nobody waits for it any more."""
        self._waiters.pop(wait_id, None)
        self._waits.pop(wait_id, None)
        self._put_off.pop(wait_id, None)

    def leave(self, wait_id: int) -> None:
        """Nobody waits for it now; it stays open, and somebody may wait for it later."""
        self._waiters.pop(wait_id, None)

    def go_on(self) -> None:
        """The end of a wait is on its way into the store: what had to come behind it may follow."""
        if self._alarms is not None:
            self._alarms.give_turns()
        if self._has_held_back:
            self._has_held_back = False
            self.let_look()

    def take(self, kind: str, name: str, until: int | None, in_turn: bool = False) -> Message | None:
        """The oldest message of that name which came in time, now taken.

        One that came when another wait of the code was over is held back until that has ended, unless whoever takes it
        has the turn.
        """
        there = {**self._inbox, **self._given_back}
        for n in sorted(there):
            message = there[n]
            if message.kind == kind and message.name == name and (until is None or message.at <= until):
                if not in_turn and self._is_too_early(message):
                    self._has_held_back = True
                    return None
                self._inbox.pop(n, None)
                self._given_back.pop(n, None)
                self._taken.add(n)
                return message
        return None

    def _is_too_early(self, message: Message) -> bool:
        first_at = None if self._alarms is None else self._alarms.first_at
        return first_at is not None and first_at < message.at

    def give_back(self, message: Message) -> None:
        """Whoever took it does not want it any more: it is for the next one, in its old place."""
        self._given_back[message.n] = message._replace(told=True)
        self.let_look()

    def take_back(self, n: int) -> None:
        """A message that was given back has been taken by somebody."""
        self._given_back.pop(n, None)

    def take_commands(self, wakes: int) -> list[Message]:
        """The commands that have come for the run up to its last look, in order of arrival, now taken.

        The inbox may be read a little later than the rest: what `hold` says does not hold for what came between.
        """
        inbox = sorted(self._inbox.items())
        commands = [message for n, message in inbox if n <= wakes and message.kind in COMMAND_KINDS]
        for command in commands:
            del self._inbox[command.n]
            self._taken.add(command.n)
        return commands

    def update(self, waits: Iterable[OpenWait], inbox: Iterable[Message]) -> None:
        """The store was asked again; those who wait have yet to look."""
        for wait in waits:
            if wait.wait_id in self._put_off:
                continue
            self._waits[wait.wait_id] = wait
            if self._alarms is not None and wait.due_at is not None:
                # This process may have taken it to be due a little earlier or later.
                self._alarms.move(wait.wait_id, wait.due_at)
        self._inbox = {message.n: message for message in inbox if message.n not in self._taken}

    def let_look(self) -> None:
        """Let everyone who waits look at what has come, in the order in which they began to wait."""
        for wait_id in sorted(self._waiters):
            check = self._waiters.get(wait_id)
            if check is not None:
                check()
