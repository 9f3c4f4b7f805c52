"""What a run's events come to: a fold over them that looks at no other row, one event at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepfast.kernel.durations import Instant
from stepfast.kernel.event_data import number_in, object_in, text_in, texts_in
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.rebuilt import Rebuilt
from stepfast.kernel.rebuilt_steps import STEP_ENDS, Steps
from stepfast.kernel.rebuilt_waits import Waits
from stepfast.kernel.rules import RELEASING_MS
from stepfast.kernel.states import ENDED, RunState, StepState, TaskState, WaitKind
from stepfast.kernel.texts import class_name
from stepfast.kernel.views import EventView, Progress

_ENDS = {
    EventType.COMPLETED: RunState.COMPLETED,
    EventType.PARTIAL: RunState.PARTIAL,
    EventType.FAILED: RunState.FAILED,
    EventType.CANCELLED: RunState.CANCELLED,
}


class Rebuilding:
    """Takes a run's events in, one after the other; `rebuilt` says at any time what they come to."""

    def __init__(self) -> None:
        self._run_id: RunId | None = None
        self._event, self._at = 0, Instant(0)
        self.generation = 1
        self._task: TaskState | None = TaskState.READY
        self._end: RunState | None = None
        self._hold = self._has_begun = self._is_put_off = False
        self._worker_id: WorkerId | None = None
        self._crashes = 0
        self._steps = Steps()
        self._waits = Waits()
        self._progress: Progress | None = None
        self._ended_at: Instant | None = None
        self._error: str | None = None
        self._damaged: list[int] = []

    def add(self, event: EventView) -> None:
        """One more event, which follows those before."""
        self._run_id, self._event, self._at = event.run_id, event.seq, event.at
        told = object_in(event.data)
        if told is None:
            self._damaged.append(event.seq)
            told = {}
        handle = _HANDLERS.get(event.type)
        if handle is not None:
            handle(self, event, told)
        elif event.step is not None and event.type not in _KNOWN:
            self._steps.recorded(event, StepState.COMPLETED)

    def rebuilt(self, now: Instant | None = None) -> Rebuilt:
        """What the events come to; `now` is the moment up to which time alone may have changed something."""
        return Rebuilt(
            run_id=self._run_id,
            event=self._event,
            at=self._at if self._event else None,
            state=self.state,
            possible=self._possible(self._at if now is None else now),
            generation=self.generation,
            worker_id=self._worker_id,
            crashes=self._crashes,
            steps=self._steps.counting(),
            superseded=self._steps.superseded(),
            waits=self._waits.open(),
            reviews=self._waits.reviews(),
            items=self._waits.items(),
            progress=self._progress,
            ended_at=self._ended_at,
            error=self._error,
            damaged=tuple(self._damaged),
        )

    @property
    def recorded(self) -> Sequence[tuple[str, int, int, StepState]]:
        """What was recorded so far, in order: of which step, in which generation and attempt, and what of it."""
        return self._steps.made

    @property
    def state(self) -> RunState:
        """The state as people see it; the same rule as that of the view `run_state`."""
        if self._end is not None:
            return self._end
        if self._hold and self._task is not TaskState.LEASED:
            return RunState.PAUSED
        if self._task is TaskState.WAITING:
            return RunState.PENDING if self._is_put_off else RunState.WAITING
        return RunState.RUNNING if self._has_begun else RunState.PENDING

    def _possible(self, now: Instant) -> frozenset[RunState]:
        """Time, the ends of children and questions after outside work wake a run, or park it, without an event."""
        state = self.state
        found = {state}
        if state in ENDED or not self._has_begun:
            return frozenset(found)
        if self._waits.has(WaitKind.OUTSIDE):
            found |= {RunState.RUNNING} if self._hold else {RunState.RUNNING, RunState.WAITING}
        if self._task is TaskState.WAITING and not self._hold and not self._waits.has(WaitKind.CODE):
            if self._waits.has_due(now) or self._waits.has(WaitKind.CHILDREN):
                found.add(RunState.RUNNING)
            if self._is_put_off and self._waits.is_of_run:
                # What it was handed back in spite of may be open: a child, or a review that nobody awaits.
                found.add(RunState.WAITING)
        return frozenset(found)

    def queued(self, event: EventView, told: dict[str, Any]) -> None:
        self.generation = event.generation

    def claimed(self, event: EventView, told: dict[str, Any]) -> None:
        worker_id = text_in(told, "worker")
        self._task, self._has_begun = TaskState.LEASED, True
        self._worker_id = None if worker_id is None else WorkerId(worker_id)
        self._waits.end(None)

    def waiting(self, event: EventView, told: dict[str, Any]) -> None:
        kind = text_in(told, "kind")
        self._release(TaskState.WAITING)
        self._crashes = 0
        self._is_put_off = kind == WaitKind.BACKOFF
        if kind == WaitKind.CODE:
            self._waits.wait(event, None, WaitKind.CODE, text_in(told, "reason"), None)

    def handed_back(self, event: EventView, told: dict[str, Any]) -> None:
        due_at = number_in(told, "due_at")
        self._release(TaskState.READY if due_at is None else TaskState.WAITING)
        if due_at is not None:
            self._is_put_off = self._waits.is_put_off
            self._waits.wait(event, None, WaitKind.BACKOFF, text_in(told, "reason"), due_at)

    def reaped(self, event: EventView, told: dict[str, Any]) -> None:
        self._release(TaskState.READY)
        self._crashes = number_in(told, "crashes") or self._crashes + 1

    def paused(self, event: EventView, told: dict[str, Any]) -> None:
        self._hold = self._end is None

    def resumed(self, event: EventView, told: dict[str, Any]) -> None:
        self._hold = False
        if self._task is TaskState.WAITING:
            stays = self._has_begun and text_in(told, "state") == RunState.PENDING
            self._task = TaskState.WAITING if stays else TaskState.READY
            # What it waited for besides may have been taken back while it was held.
            self._is_put_off = self._waits.is_put_off

    def signalled(self, event: EventView, told: dict[str, Any]) -> None:
        if self._waits.has(WaitKind.SIGNAL, text_in(told, "name") or ""):
            self._wake()

    def called_back(self, event: EventView, told: dict[str, Any]) -> None:
        if text_in(told, "outcome") in ("complete", "fail"):
            self._wake()

    def retry_scheduled(self, event: EventView, told: dict[str, Any]) -> None:
        due_at = number_in(told, "due_at")
        if event.step is None:
            self._begin(event.generation + 1, told)
            if due_at is not None and due_at > event.at:
                self._task, self._is_put_off = TaskState.WAITING, True
                self._waits.wait(event, None, WaitKind.BACKOFF, "", due_at)
            return
        self._steps.put_off(event, due_at)
        if due_at is not None and due_at - event.at >= RELEASING_MS:
            self._waits.wait(event, event.step, WaitKind.BACKOFF, "", due_at)

    def continued(self, event: EventView, told: dict[str, Any]) -> None:
        self._begin(event.generation + 1, {"all_steps": True})

    def reopened(self, event: EventView, told: dict[str, Any]) -> None:
        if event.generation > self.generation:
            self._hold = False
            self._begin(event.generation, told)
        else:
            self._supersede(told)
        self._hold = event.type == EventType.ROLLED_BACK

    def ended(self, event: EventView, told: dict[str, Any]) -> None:
        self._end, self._task, self._ended_at = _ENDS[EventType(event.type)], None, event.at
        self._worker_id, self._crashes = None, 0
        self._waits.clear()
        self._steps.cut_short(StepState.CANCELLED)
        if event.type == EventType.FAILED:
            parts = (class_name(text_in(told, "error_type") or ""), text_in(told, "message"))
            self._error = ": ".join(part for part in parts if part) or None
        elif event.type == EventType.CANCELLED:
            self._error = text_in(told, "reason")

    def step_started(self, event: EventView, told: dict[str, Any]) -> None:
        self._steps.started(event, told.get("recorded") is True)

    def step_waiting(self, event: EventView, told: dict[str, Any]) -> None:
        if event.step is None:
            return
        due_in_ms, kind = number_in(told, "due_in_ms"), text_in(told, "kind") or ""
        due_at = None if due_in_ms is None else Instant(event.at + due_in_ms)
        self._steps.recorded(event, StepState.WAITING, due_at)
        self._waits.wait(event, event.step, kind, text_in(told, "name"), due_at)

    def step_ended(self, event: EventView, told: dict[str, Any]) -> None:
        if told.get("by_hand") is True:
            self._supersede(told)
            self._task = TaskState.READY if self._task is TaskState.WAITING and not self._hold else self._task
        self._steps.recorded(event, STEP_ENDS[EventType(event.type)])
        if event.step is not None:
            self._waits.step_ended(event, event.step, told)

    def progressed(self, event: EventView, told: dict[str, Any]) -> None:
        done = told.get("done")
        if isinstance(done, int | float):
            total, note = told.get("total"), told.get("note")
            self._progress = Progress(done, total if isinstance(total, int | float) else None, note)

    def review_requested(self, event: EventView, told: dict[str, Any]) -> None:
        self._steps.recorded(event, StepState.COMPLETED)
        self._waits.ask(event, text_in(told, "title"))

    def review_ended(self, event: EventView, told: dict[str, Any]) -> None:
        self._waits.end_review(event.step or "")
        self._wake()

    def item_opened(self, event: EventView, told: dict[str, Any]) -> None:
        self._waits.open_item(event, told)
        borne_by = text_in(told, "borne_by")
        if borne_by is not None:
            self._steps.recorded(event, StepState.COMPLETED, address=borne_by)

    def item_resolved(self, event: EventView, told: dict[str, Any]) -> None:
        if self._waits.resolve_item(event, told) == "blocked":
            self._waits.end(None)
            if self._task is TaskState.WAITING:
                self._task = TaskState.READY

    def _release(self, task: TaskState) -> None:
        if self._end is None:
            self._task = task
        self._worker_id, self._is_put_off = None, False
        self._steps.cut_short(StepState.PENDING)

    def _wake(self) -> None:
        if self._task is TaskState.WAITING and not self._hold and not self._waits.has(WaitKind.CODE):
            self._task = TaskState.READY

    def _begin(self, generation: int, told: dict[str, Any]) -> None:
        """The next life of the run, without the records that count no more."""
        self.generation, self._end, self._ended_at, self._error = generation, None, None, None
        self._task, self._has_begun, self._is_put_off, self._progress = TaskState.READY, False, False, None
        self._worker_id, self._crashes = None, 0
        self._waits.clear()
        self._steps.cut_short(StepState.PENDING)
        self._supersede(told)

    def _supersede(self, told: dict[str, Any]) -> None:
        named = None if told.get("all_steps") else texts_in(told, "steps")
        self._waits.leave(self._steps.supersede(self.generation, named))


Handler = Callable[[Rebuilding, EventView, dict[str, Any]], None]

_HANDLERS: dict[str, Handler] = {
    EventType.QUEUED: Rebuilding.queued,
    EventType.CLAIMED: Rebuilding.claimed,
    EventType.WAITING: Rebuilding.waiting,
    EventType.HANDED_BACK: Rebuilding.handed_back,
    EventType.REAPED: Rebuilding.reaped,
    EventType.PAUSED: Rebuilding.paused,
    EventType.RESUMED: Rebuilding.resumed,
    EventType.SIGNALLED: Rebuilding.signalled,
    EventType.CALLBACK_SUBMITTED: Rebuilding.called_back,
    EventType.RETRY_SCHEDULED: Rebuilding.retry_scheduled,
    EventType.CONTINUED: Rebuilding.continued,
    EventType.RETRIED: Rebuilding.reopened,
    EventType.RERUN: Rebuilding.reopened,
    EventType.ROLLED_BACK: Rebuilding.reopened,
    EventType.STEP_STARTED: Rebuilding.step_started,
    EventType.STEP_WAITING: Rebuilding.step_waiting,
    EventType.STEP_PROGRESS: Rebuilding.progressed,
    EventType.REVIEW_REQUESTED: Rebuilding.review_requested,
    EventType.REVIEW_DECIDED: Rebuilding.review_ended,
    EventType.REVIEW_EXPIRED: Rebuilding.review_ended,
    EventType.EXCEPTION_OPENED: Rebuilding.item_opened,
    EventType.EXCEPTION_RESOLVED: Rebuilding.item_resolved,
    **dict.fromkeys(_ENDS, Rebuilding.ended),
    **dict.fromkeys(STEP_ENDS, Rebuilding.step_ended),
}
_KNOWN = frozenset(EventType)


def rebuild(events: Iterable[EventView], now: Instant | None = None) -> Rebuilt:
    """What a run's events, in order, come to."""
    rebuilding = Rebuilding()
    for event in events:
        rebuilding.add(event)
    return rebuilding.rebuilt(now)
