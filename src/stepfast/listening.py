"""Callbacks in this process for what happens to runs through its workers and commands, each after its commit."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfast.errands import begin_errand
from stepfast.kernel.decisions import Decision, HeldRun, NewRun, Started
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.origins import causation_of, correlation_of, queued_cause
from stepfast.kernel.rules import failing
from stepfast.kernel.texts import check_text
from stepfast.log import Log

if TYPE_CHECKING:
    from stepfast.kernel.commands import Changed, Request
    from stepfast.kernel.exchange import DeadRun
    from stepfast.kernel.views import RunView

log = Log("listening")

# Written by the store itself, where no process can tell of them.
UNHEARD = frozenset({EventType.CLAIMED, EventType.REAPED})
CLOSING_S = 5.0


class RunEvent(NamedTuple):
    """Something that happened to a run; `data` is JSON, as in the run's history."""

    run_id: RunId
    generation: int
    type: str
    at: Instant
    step: str | None = None
    attempt: int | None = None
    actor: str | None = None
    data: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    """What brought it about and what it belongs to, as in the history."""


Callback = Callable[[RunEvent], Any]


class Listeners:
    """Everybody in this process who wants to hear of runs."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, types: tuple[str, ...], callback: Callback) -> None:
        self._listeners.append(Listener(check_types(types), callback))

    def tell_queued(self, run: NewRun, started: Started) -> None:
        """A run was started."""
        cause = causation_of(run.run_id, queued_cause(run), None)
        belongs_to = correlation_of(run.run_id, run.correlation_id)
        event = RunEvent(run.run_id, 1, EventType.QUEUED, started.queued_at, actor=run.actor)
        self.tell(event._replace(causation_id=cause, correlation_id=belongs_to))

    def tell_decision(self, run: HeldRun, decision: Decision) -> None:
        """What the holder of a run decided has been committed."""
        self._tell_all(run.run_id, decision.generation, decision.events, run.correlation_id)

    def tell_change(self, request: Request, changed: Changed, correlation_id: str | None) -> None:
        """A command has been committed; what a time-out wrote is told with the other failures of runs nobody held."""
        from stepfast.kernel.commands import TimeOut

        if not changed.repeated and not isinstance(request.command, TimeOut):
            self._tell_all(changed.run_id, changed.generation, changed.told, correlation_id)

    def tell_failure(self, run: RunView, at: Instant, verdict: DeadRun, is_letter: bool) -> None:
        """A run that nobody held has failed for good; what the store wrote of that."""
        events, _ = failing(is_letter, verdict.error_type, verdict.message, at)
        self._tell_all(run.run_id, run.generation, events, run.correlation_id)

    def _tell_all(self, run_id: RunId, generation: int, events: Iterable[Event], correlation_id: str | None) -> None:
        belongs_to = correlation_of(run_id, correlation_id)
        for event in events:
            cause = causation_of(run_id, None, event.data)
            self.tell(RunEvent(run_id, generation, *event, causation_id=cause, correlation_id=belongs_to))

    def tell(self, event: RunEvent) -> None:
        for listener in self._listeners:
            if event.type in listener.types:
                listener.hear(event)

    async def close(self) -> None:
        """Let everybody hear what is left, for a while."""
        tasks = [listener.task for listener in self._listeners if listener.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSING_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class Listener:
    """One callback; it hears one event after the other, and a slow one holds up nobody else."""

    def __init__(self, types: frozenset[str], callback: Callback) -> None:
        self.types = types
        self.task: asyncio.Task[None] | None = None
        self._callback = callback
        self._unheard: deque[RunEvent] = deque()

    def hear(self, event: RunEvent) -> None:
        self._unheard.append(event)
        if self.task is None:
            self.task = begin_errand(self._hear_all(), "stepfast-listener")

    async def _hear_all(self) -> None:
        try:
            while self._unheard:
                await self._hear_one(self._unheard.popleft())
        finally:
            self.task = None

    async def _hear_one(self, event: RunEvent) -> None:
        try:
            answer = self._callback(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            log.exception("listener_failed", run_id=event.run_id, type=event.type)


def check_types(types: tuple[str, ...]) -> frozenset[str]:
    """The types that somebody wants to hear of; refuses none at all, and those that cannot be heard here."""
    if not types:
        raise Invalid('app.on() names no type of event. Name those to hear of, like @app.on("completed", "failed").')
    wanted = frozenset(check_text("The event's type", given) for given in types)
    if unheard := sorted(wanted & UNHEARD):
        raise Invalid(f"Events of type {', '.join(unheard)} are written by the store and cannot be heard in a process.")
    return wanted
