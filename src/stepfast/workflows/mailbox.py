"""What a run waits for and what has come for it, as its holder knows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from stepfast.kernel.decisions import CallId, Message, OpenWait, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.rules import COMMAND_KINDS
from stepfast.kernel.states import WaitKind
from stepfast.workflows.alarms import Alarms

T = TypeVar("T")

UNHEARD = (WaitKind.BACKOFF, WaitKind.OUTSIDE)
# Waits that surely end when their time is over.
ENDED_BY_TIME = (WaitKind.TIME, WaitKind.SIGNAL)


class Mailbox:
    """The open waits of a run, who in its code waits for each, and the messages that nobody has taken yet."""

    __slots__ = (
        *("_alarms", "_given_back", "_has_held_back", "_inbox", "_put_off", "_taken", "_waiters", "_waits"),
        *("is_gathering", "readings", "unheard"),
    )

    def __init__(self, waits: Sequence[OpenWait], inbox: Sequence[Message]) -> None:
        self._waits = {wait.wait_id: wait for wait in waits} if waits else {}
        self._inbox = {message.n: message for message in inbox} if inbox else {}
        self._given_back: dict[int, Message] = {}
        self._taken: set[int] = set()
        self._waiters: dict[int, Callable[[], None]] = {}
        self._put_off: dict[int, Wait] = {}
        self._alarms: Alarms | None = None
        self._has_held_back = False
        self.readings = 0
        """How many find out when something came that is there: nothing else is decided meanwhile."""
        self.is_gathering = False
        """Whether those who begin to wait leave it to others to let them look."""
        self.unheard: CallId | None = None
        """The call that has ended last, where the code must hear of that before anything else is decided."""

    @property
    def is_awaited(self) -> bool:
        """Whether some branch of the code waits for something that can come."""
        return bool(self._waiters)

    @property
    def has_waits(self) -> bool:
        """Whether anything is waited for in the store."""
        return bool(self._waits)

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
        self.go_on()

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Within the block calls go on to wait that did so before: they look at what has come when all are there.

        So what comes for several goes to the one that has waited longest, whenever it came.
        """
        self.is_gathering = True
        try:
            yield
        finally:
            self.is_gathering = False
        self.let_look()

    def by_time(self, calls: Sequence[tuple[OpenWait, T]]) -> Sequence[tuple[OpenWait, T]]:
        """Calls that go on to wait, those first that are over first."""
        return sorted(calls, key=lambda call: math.inf if call[0].due_at is None else call[0].due_at)

    def is_late(self, wait: OpenWait, now: Instant) -> bool:
        """Whether the time of a wait was over before anybody looked."""
        return wait.kind in ENDED_BY_TIME and wait.due_at is not None and wait.due_at <= now

    def forget(self, wait_id: int) -> None:
        """Nobody waits for it any more."""
        self._waiters.pop(wait_id, None)
        self._waits.pop(wait_id, None)
        self._put_off.pop(wait_id, None)

    def leave(self, wait_id: int) -> None:
        """Nobody waits for it now; it stays open, and somebody may wait for it later."""
        self._waiters.pop(wait_id, None)

    def note_end(self, call: CallId) -> None:
        """A wait of the code has ended. Where more of what is past is to be decided, the code hears of that first.

        What it calls off then gets nothing of what came later. Timers alone end in their order, whoever wants them.
        """
        is_past_left = self._has_held_back or (self._alarms is not None and self._alarms.has_rung)
        if is_past_left and (self._inbox or self._given_back or self._has_held_back):
            self.unheard = call

    def hear(self) -> None:
        """The code has heard of the last end, and every branch waits again."""
        self.unheard = None
        self.go_on()

    def go_on(self) -> None:
        """The end of a wait is on its way into the store: what had to come behind it may follow."""
        if self._has_held_back and self._may_go_on():
            # What is still behind something is held back again.
            self._has_held_back = False
            self.let_look()
        if self._alarms is not None:
            self._alarms.give_turns(self._may_go_on)

    def _may_go_on(self) -> bool:
        return self.unheard is None and not self.readings

    def take(self, kind: str, name: str, until: int | None, in_turn: bool = False) -> Message | None:
        """The oldest message of that name which came in time, now taken.

        One that came when another wait of the code was over is held back until that has ended, unless whoever takes it
        has the turn.
        """
        there = {**self._inbox, **self._given_back}
        for n in sorted(there):
            message = there[n]
            if message.kind == kind and message.name == name and (until is None or message.at <= until):
                if not in_turn and self.is_held_back(message.at):
                    return None
                self._inbox.pop(n, None)
                self._given_back.pop(n, None)
                self._taken.add(n)
                return message
        return None

    def is_held_back(self, at: Instant) -> bool:
        """Whether what came at that moment is behind something that is past and not decided: it is looked at again."""
        next_at = None if self._alarms is None else self._alarms.next_at
        if self.unheard is None and (next_at is None or at <= next_at):
            return False
        self._has_held_back = True
        return True

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
