"""What a run waits for and what has come for it, as its holder knows it."""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from stepfast.kernel.decisions import CallId, Message, OpenWait, Record, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.rules import COMMAND_KINDS
from stepfast.kernel.states import WaitKind
from stepfast.workflows.alarms import Alarms

T = TypeVar("T")

UNHEARD = (WaitKind.BACKOFF, WaitKind.OUTSIDE)
# Waits that surely end when their time is over.
ENDED_BY_TIME = (WaitKind.TIME, WaitKind.SIGNAL)

Address = tuple[str, str]
"""The kind and the name of messages."""

RECEIVE = "receive"

# Of those for whom nothing has come.
NEVER = (math.inf, 0)
# From here on are numbered those who do not wait yet, and so come behind all others.
NEWCOMER = sys.maxsize


class Waiter(NamedTuple):
    """Whoever waits for something: called when anything has come."""

    check: Callable[[], None]
    wants: Address | None = None
    """The messages that it takes, if it takes any."""
    came_at: Callable[[], Instant | None] | None = None
    """When what it waits for came, where that is no message; 0 where it must look before that is known."""


class Mailbox:
    """The open waits of a run, who in its code waits for each, and the messages that nobody has taken yet."""

    __slots__ = (
        *("_alarms", "_given_back", "_has_held_back", "_inbox", "_is_looking", "_on_the_way", "_put_off", "_sorted"),
        *("_taken", "_waiters", "_waits", "is_gathering", "newcomers", "readings", "unheard"),
    )

    def __init__(self, waits: Sequence[OpenWait], inbox: Sequence[Message], records: Sequence[Record] = ()) -> None:
        self._waits = {wait.wait_id: wait for wait in waits} if waits else {}
        self._inbox = {message.n: message for message in inbox} if inbox else {}
        self._given_back: dict[int, Message] = {}
        self._on_the_way: dict[int, Message] = {}
        self._sorted: dict[Address, deque[Message]] | None = None
        self._taken: set[int] = set()
        if inbox and records:
            self._put_on_the_way(records)
        self._waiters: dict[int, Waiter] = {}
        self._put_off: dict[int, Wait] = {}
        self._alarms: Alarms | None = None
        self._has_held_back = self._is_looking = False
        self.newcomers: Callable[[], Sequence[Waiter]] = list
        """Those whose calls are still to be begun, and who would take what is there already."""
        self.readings = 0
        """How many find out when something came that is there: nothing else is decided meanwhile."""
        self.is_gathering = False
        """Whether those who begin to wait leave it to others to let them look."""
        self.unheard: CallId | None = None
        """The call that has ended last, where the code must hear of that before anything else is decided."""

    def _put_on_the_way(self, records: Sequence[Record]) -> None:
        """What calls have received is theirs, though the store has it still: their end was saved, and no more."""
        received = {number_of(each) for each in records if each.kind == RECEIVE}
        self._taken = {n for n in self._inbox if n in received}
        self._on_the_way = {n: self._inbox.pop(n) for n in self._taken}

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
    def next_end_at(self) -> Instant | None:
        """When the first wait of the code is over that time alone ends, if nothing else does before.

        One that the code has not come to yet would bring the run back for nothing, again and again.
        """
        waits = [wait for wait_id in self._waiters if (wait := self._waits[wait_id]).kind in ENDED_BY_TIME]
        return min((wait.due_at for wait in waits if wait.due_at is not None), default=None)

    @property
    def has_messages(self) -> bool:
        """Whether something has come that nobody has taken."""
        return bool(self._inbox or self._given_back)

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

    @property
    def awaits_more_than_time(self) -> bool:
        """Whether some branch of the code waits for something that others bring."""
        return any(self._waits[wait_id].kind is not WaitKind.TIME for wait_id in self._waiters)

    def await_(self, wait: OpenWait, waiter: Waiter) -> None:
        """From now on the waiter is called whenever something has come."""
        self.open(wait)
        self._waiters[wait.wait_id] = waiter
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

    def note_end(self, call: CallId, now: Instant) -> None:
        """A wait of the code has ended. Where more of what is past is to be decided, the code hears of that first.

        What it calls off then gets nothing of what came later, and what it asks for next may have come before the time
        of another was over. Timers alone end in their order, whoever wants them.
        """
        next_at = None if self._alarms is None else self._alarms.next_at
        is_past_left = self._has_held_back or (next_at is not None and next_at <= now)
        if is_past_left and (self.has_messages or self._has_held_back or self._is_joined_unawaited()):
            self.unheard = call

    def _is_joined_unawaited(self) -> bool:
        """Whether a join is decided that nobody has asked for yet."""
        if len(self._waits) == len(self._waiters):
            return False
        return any(wait.is_joined for wait_id, wait in self._waits.items() if wait_id not in self._waiters)

    def look_again(self) -> None:
        """Somebody has found out when something came: all look again when nobody has to find that out any more."""
        self._has_held_back = True

    def go_on(self) -> None:
        """The end of a wait is on its way into the store: what had to come behind it may follow."""
        if self._is_looking:
            # Those who have yet to look may come before a timer.
            return
        if self._has_held_back and self._may_go_on():
            # What is still behind something is held back again.
            self._has_held_back = False
            self._look_in_order()
        self._give_turns()

    def _give_turns(self) -> None:
        if self._alarms is not None:
            self._alarms.give_turns(self._may_go_on)

    def _may_go_on(self) -> bool:
        return self._is_heard() and not self.readings

    def _is_heard(self) -> bool:
        return self.unheard is None

    def take(self, kind: str, name: str, until: int | None, in_turn: bool = False) -> Message | None:
        """The oldest message of that name which came in time, now taken.

        One that came when another wait of the code was over is held back until that has ended, unless whoever takes it
        has the turn.
        """
        there = self._there().get((kind, name), ()) if self.has_messages else ()
        message = next((message for message in there if until is None or message.at <= until), None)
        if message is None or (not in_turn and self.is_held_back(message.at)):
            return None
        self._there()[kind, name].remove(message)
        self._inbox.pop(message.n, None)
        self._given_back.pop(message.n, None)
        self._taken.add(message.n)
        self._on_the_way[message.n] = message
        return message

    def _there(self) -> dict[Address, deque[Message]]:
        """What has come and was not taken, by its address and in the order in which it came."""
        if self._sorted is None:
            there: dict[Address, deque[Message]] = defaultdict(deque)
            for _, message in sorted({**self._inbox, **self._given_back}.items()):
                there[message.kind, message.name].append(message)
            self._sorted = there
        return self._sorted

    def is_held_back(self, at: Instant) -> bool:
        """Whether what came at that moment is behind something that is past and not decided: it is looked at again."""
        next_at = None if self._alarms is None else self._alarms.next_at
        if self._may_go_on() and (next_at is None or at <= next_at):
            return False
        self._has_held_back = True
        return True

    def give_back(self, n: int) -> None:
        """Whoever took it does not want it any more: it is for the next one, in its old place."""
        message = self._on_the_way.pop(n, None)
        if message is not None:
            self._given_back[n] = message
            self._sorted = None
            self.let_look()

    def take_back(self, n: int) -> None:
        """A message that was given back has been taken by somebody."""
        message = self._given_back.pop(n, None)
        if message is not None:
            self._on_the_way[n] = message
            self._sorted = None

    def hear(self, n: int) -> Message | None:
        """The code has been given what came; None: the store has it no more, for anybody else to take."""
        return self._on_the_way.pop(n, None)

    def take_commands(self, wakes: int) -> list[Message]:
        """The commands that have come for the run up to its last look, in order of arrival, now taken.

        The inbox may be read a little later than the rest: what `hold` says does not hold for what came between.
        """
        inbox = sorted(self._inbox.items())
        commands = [message for n, message in inbox if n <= wakes and message.kind in COMMAND_KINDS]
        for command in commands:
            del self._inbox[command.n]
            self._taken.add(command.n)
            self._sorted = None
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
        self._sorted = None

    def let_look(self) -> None:
        """Let everyone who waits look at what has come, in the order in which it came, whoever began to wait first."""
        self._look_in_order()
        self._give_turns()

    def _look_in_order(self) -> None:
        if not self._is_heard():
            # Nobody would be given anything. Of a thousand timers that are over each lets a thousand look.
            self._has_held_back = True
            return
        newcomers = dict(enumerate(self.newcomers(), NEWCOMER)) if self.has_messages else {}
        arrivals = self._arrivals(newcomers)
        self._is_looking = True
        try:
            wait_ids = [*self._waiters, *newcomers]
            for wait_id in sorted(wait_ids, key=lambda wait_id: (arrivals.get(wait_id, NEVER), wait_id)):
                if (waiter := self._waiters.get(wait_id) or newcomers.get(wait_id)) is not None:
                    waiter.check()
                if not self._is_heard():
                    # One has ended, and all others must wait until the code has heard of it.
                    self._has_held_back = True
                    break
        finally:
            self._is_looking = False

    def _arrivals(self, newcomers: Mapping[int, Waiter]) -> dict[int, tuple[float, int]]:
        """When that came which those who wait would take: of several who want the same, the first gets the first."""
        found: dict[int, tuple[float, int]] = {}
        wanting: dict[Address, deque[int]] = defaultdict(deque)
        for wait_id, waiter in (*sorted(self._waiters.items()), *newcomers.items()):
            if waiter.wants is not None:
                wanting[waiter.wants].append(wait_id)
            if waiter.came_at is not None and (at := waiter.came_at()) is not None:
                found[wait_id] = (at, 0)
        there = self._there() if self.has_messages else {}
        for address, waiting in wanting.items():
            for message in there.get(address, ()):
                while waiting and self._ends_before(waiting[0], message.at):
                    waiting.popleft()
                if waiting:
                    found[waiting.popleft()] = (message.at, message.n)
        return found

    def _ends_before(self, wait_id: int, at: Instant) -> bool:
        wait = self._waits.get(wait_id)
        return wait is not None and wait.due_at is not None and wait.due_at < at


def number_of(record: Record) -> int | None:
    """The number of the message that a call has received, if it has received one."""
    number: int | None = json.loads(record.input).get("n")
    return number
