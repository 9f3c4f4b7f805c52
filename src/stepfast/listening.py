"""Callbacks in this process for what happens to runs through its workers and commands, each after its commit."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, assert_never

from stepfast.kernel.commands import Cancel, Changed, Discard, Pause, Request, Rerun, Resume, RetryRun, TimeOut
from stepfast.kernel.decisions import Decision
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import DeadRun
from stepfast.kernel.ids import RunId
from stepfast.kernel.rules import failing
from stepfast.kernel.texts import check_text
from stepfast.log import Log

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


Callback = Callable[[RunEvent], Any]


class Listeners:
    """Everybody in this process who wants to hear of runs."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, types: tuple[str, ...], callback: Callback) -> None:
        self._listeners.append(Listener(check_types(types), callback))

    def tell_decision(self, decision: Decision) -> None:
        """What the holder of a run decided has been committed."""
        run_id, generation = decision.fence.run_id, decision.generation
        for type_, at, step, attempt, actor, data in decision.events:
            self.tell(RunEvent(run_id, generation, type_, at, step, attempt, actor, data))

    def tell_change(self, request: Request, changed: Changed) -> None:
        """A command has been committed."""
        event_type = _type_of(request, changed)
        if event_type is not None:
            data = None if request.reason is None else json.dumps({"reason": request.reason})
            event = RunEvent(changed.run_id, changed.generation, event_type, changed.at, actor=request.actor, data=data)
            self.tell(event)

    def tell_failure(self, run_id: RunId, generation: int, at: Instant, verdict: DeadRun, is_letter: bool) -> None:
        """A run that nobody held has failed for good; what the store wrote of that."""
        events, _ = failing(is_letter, verdict.error_type, verdict.message, at)
        for event in events:
            self.tell(RunEvent(run_id, generation, event.type, at, data=event.data))

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
            self.task = asyncio.get_running_loop().create_task(self._hear_all(), name="stepfast-listener")

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


def _type_of(request: Request, changed: Changed) -> EventType | None:
    """The event that a command wrote; None where its run's holder writes it, or where it was carried out before.

    What a time-out wrote is told with the other failures of runs that nobody held.
    """
    if changed.repeated:
        return None
    match request.command:
        case Pause():
            return EventType.PAUSED if changed.worker_id is None else None
        case Resume():
            return EventType.RESUMED if changed.worker_id is None else None
        case Cancel():
            return EventType.CANCELLED
        case RetryRun():
            return EventType.RETRIED
        case Rerun():
            return EventType.RERUN
        case Discard():
            return EventType.DLQ_DISCARDED
        case TimeOut():
            return None
        case _:
            assert_never(request.command)
