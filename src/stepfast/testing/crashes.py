"""Crashes: the moments at which a process can die, and a store that dies with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from stepfast.kernel.commands import Request
from stepfast.kernel.decisions import Decision
from stepfast.kernel.errors import Invalid, StoreUnavailable
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ports import Store
from stepfast.kernel.texts import shown

# What people look at, and what ends of runs are asked with, changes nothing: to die after one of these is to die
# before the next call. Hints would only make other processes quicker, and there are none.
UNCOUNTED = frozenset(
    {"open", "close", "migrate", "now", "outcomes", "run", "runs", "steps", "events"}
    | {"dead_letters", "queues", "backlog", "family", "findings", "workers", "reviews", "review", "review_figures"}
    | {"endless_reviews", "exceptions", "exception_counts", "exception_groups", "exception_comments"}
    | {"asset", "assets", "collected_assets", "has_read", "lineage", "lineage_edges", "last_try", "artifacts"}
    | {"trail", "sealed_events", "find_events", "gaps", "count_behind", "last_seal", "seals", "leaves"}
    | {"annotations", "answered", "generations", "children", "transformations"}
    | {"policies", "ended_tenants", "ended_reach", "ended_roots", "kept_children"}
    | {"pruned_of_seal", "pruned_runs", "unswept"}
    | {"held_back", "events_between", "sinks", "sink_letters", "due_letters"}
)


class CrashPoint(NamedTuple):
    """A death at the nth call of the store: `answered` by the store, yet never heard of; or before it was made."""

    call: int
    answered: bool = True

    def __str__(self) -> str:
        return f"{'after' if self.answered else 'before'} store call {self.call}"


class StepPoint(NamedTuple):
    """A death when a step's record has just been saved, before its answer is heard."""

    step: str

    def __str__(self) -> str:
        return f"after the record of step {self.step!r}"


Point = int | str | CrashPoint | StepPoint


def point_of(given: Point) -> CrashPoint | StepPoint:
    """A point as people write it: a number of store calls, the name of a step, or the thing itself."""
    if isinstance(given, CrashPoint | StepPoint):
        return given
    if isinstance(given, str) and given:
        return StepPoint(given)
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return CrashPoint(given)
    raise Invalid(
        f"{shown(given)} is no point to crash at; give the name of a step, or which call of the store it is: 1 or more."
    )


class ProcessDied(StoreUnavailable):
    """The process that made this call is dead by the test's wish; nobody hears the answer."""


class MortalStore:
    """A store as one process sees it: at the crash point the process is dead, and nothing that it does counts any more.

    What was under way when it died has happened, or not; nobody is told. `around` may put a faulty store in between; it
    is asked anew for each life. `set_time` lets a database with a clock of its own follow the virtual one.
    """

    def __init__(
        self,
        store: Store,
        around: Callable[[Store], Store],
        set_time: Callable[[], Awaitable[None]],
        crash: Point | None,
    ) -> None:
        self._store = store
        self._around = around
        self._set_time = set_time
        self._living = around(store)
        self._life = 1
        self._under_way: set[asyncio.Task[Any]] = set()
        self._crash = None if crash is None else point_of(crash)
        self.calls: list[str] = []
        self.died: str | None = None
        """Where, while the process is dead."""
        self.deaths: list[str] = []
        """Where it has died so far."""
        self.on_death: Callable[[], None] = lambda: None
        self.on_change: Callable[[Sequence[Request]], None] = lambda requests: None
        """Called when commands were carried out."""

    def crash_at(self, point: Point) -> None:
        """Die at this point; calls are counted from here on."""
        self.calls.clear()
        self._crash = point_of(point)

    @property
    def may_die(self) -> bool:
        """Whether a crash is still to come."""
        return self._crash is not None

    def die(self, where: str) -> None:
        """From here on nothing that the process does counts any more."""
        self.died, self._crash = where, None
        self.deaths.append(where)
        self.on_death()

    async def revive(self) -> None:
        """A new process on the same database, once the database is through with what the dead one had sent it."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._life += 1
        self.died = None
        self._living = self._around(self._store)

    async def hint(self, topics: Sequence[str]) -> None:
        """There is no other process to tell."""

    async def hear(self, heard: Callable[[str], None]) -> None:
        """There is no other process to hear of."""

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        return partial(self._look if method in UNCOUNTED else self._call, method)

    async def _look(self, method: str, *args: Any, **named: Any) -> Any:
        await self._set_time()
        return await getattr(self._living, method)(*args, **named)

    async def _call(self, method: str, *args: Any, **named: Any) -> Any:
        life = self._life
        if self.died is not None:
            return _unheard(self.died, method, args)
        self.calls.append(method)
        number = len(self.calls)
        if self._crash == CrashPoint(number, answered=False):
            return self._die(method, args)
        answer = await self._sent(self._look(method, *args, **named))
        if self._is_over(life):
            return _unheard("meanwhile", method, args)
        if method == "change":
            self.on_change(args[0])
        if self._crash == CrashPoint(number) or self._is_step_saved(method, args):
            return self._die(method, args)
        return answer

    async def _sent(self, call: Coroutine[Any, Any, Any]) -> Any:
        # A statement that was sent is carried out whatever becomes of its sender.
        sent = asyncio.create_task(call)
        self._under_way.add(sent)
        sent.add_done_callback(self._ended)
        return await asyncio.shield(sent)

    def _ended(self, sent: asyncio.Task[Any]) -> None:
        self._under_way.discard(sent)
        if not sent.cancelled():
            # Whoever waits for it hears of its error; after a crash that is nobody.
            sent.exception()

    def _is_over(self, life: int) -> bool:
        return self.died is not None or self._life != life

    def _is_step_saved(self, method: str, args: tuple[Any, ...]) -> bool:
        if method != "save" or not isinstance(self._crash, StepPoint):
            return False
        decisions: Sequence[Decision] = args[0]
        return any(record.call.name == self._crash.step for decision in decisions for record in decision.records)

    def _die(self, method: str, args: tuple[Any, ...]) -> Any:
        where = f"{self._crash} ({method})"
        self.die(where)
        return _unheard(where, method, args)


def _unheard(where: str, method: str, args: tuple[Any, ...]) -> Any:
    # Of all that a dying worker does, saving alone would be tried again and again; told that it lost its runs it stops.
    if method == "save":
        return [Saving.LOST] * len(args[0])
    if method == "retire":
        return []
    raise ProcessDied(f"The process died {where}; this call of {method}() was heard by nobody.")
