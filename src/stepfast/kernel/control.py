"""What a command means for a run: the change it makes, or the refusal that leaves everything as it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stepfast.kernel.commands import (
    Cancel,
    Change,
    Discard,
    LockedRun,
    Pause,
    Reopen,
    Request,
    Rerun,
    Resume,
    RetryRun,
    StepMark,
    TimeOut,
)
from stepfast.kernel.decisions import CallId, DeadLetter, Outcome
from stepfast.kernel.definitions import code_of
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, Invalid, NothingBefore, RunCancelled, StepNotFound
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import DeadRun
from stepfast.kernel.item_judging import discard, judge_item, letter_resolved
from stepfast.kernel.items import AssignItem, CommentItem, ResolveItem
from stepfast.kernel.judging import judge
from stepfast.kernel.outside import CallBack, ExpireCall
from stepfast.kernel.outside_judging import judge_outside
from stepfast.kernel.rules import failing
from stepfast.kernel.states import STEP_CUT_OFF, STEP_ENDED, RunState, StepState, TaskState, check_move


class Life(NamedTuple):
    """What the next generation of a run is executed with."""

    version: int
    code: str
    definition: str | None


def _life(run: LockedRun, command: RetryRun | Rerun) -> Life:
    """The version that a command names, or the same as ever, down to the content of its definition."""
    version = command.version or run.version
    # A spread step has the code of the run that started it, which its own name does not tell.
    if run.kind == "step" or version == run.version:
        return Life(version, run.code, run.definition)
    return Life(version, code_of(run.workflow, version, command.definition), command.definition)


def decide(run: LockedRun, request: Request, now: Instant) -> Change:
    """The change that a command makes; what the run's state does not allow raises, and nothing is written."""
    match request.command:
        case Cancel():
            return cancel(run, request, now)
        case Pause():
            return pause(run, request, now)
        case Resume():
            return resume(run, request, now)
        case RetryRun(step) as command:
            return retry(run, request, step, _life(run, command), now)
        case Rerun(from_step) as command:
            return rerun(run, request, from_step, _life(run, command), now)
        case Discard():
            return discard(run, request, now)
        case TimeOut(verdict):
            return time_out(run, verdict, now)
        case AssignItem() | CommentItem() | ResolveItem():
            return judge_item(run, request, request.command, now)
        case CallBack() | ExpireCall():
            return judge_outside(run, request, request.command, now)
        case _:
            return judge(run, request, request.command, now)


def cancel(run: LockedRun, request: Request, now: Instant) -> Change:
    """The run ends here; its holder, if it has one, is fenced off and told."""
    check_move(run.run_id, run.state, "cancel")
    error = {"type": "stepfast.kernel.errors:RunCancelled", "message": request.reason or "", "code": RunCancelled.code}
    outcome = Outcome(RunState.CANCELLED, None, json.dumps(error), now, run.joins)
    return Change(RunState.CANCELLED, (_event(EventType.CANCELLED, request, now),), outcome=outcome)


def pause(run: LockedRun, request: Request, now: Instant) -> Change:
    """No further step begins; a run that is held goes on until its steps under way are recorded."""
    check_move(run.run_id, RunState.PAUSED if run.hold else run.state, "pause")
    if run.task is TaskState.LEASED:
        return Change(RunState.RUNNING, owed=(_event(EventType.PAUSED, request, now),), hold=True)
    return Change(RunState.PAUSED, (_event(EventType.PAUSED, request, now),), hold=True)


def resume(run: LockedRun, request: Request, now: Instant) -> Change:
    """The run's code looks at its waits again, unless it was put off and its time has not come."""
    check_move(run.run_id, RunState.PAUSED if run.hold else run.state, "resume")
    if run.task is TaskState.LEASED:
        return Change(RunState.RUNNING, owed=(_event(EventType.RESUMED, request, now),), hold=False)
    is_put_off = run.task is TaskState.WAITING and run.is_put_off
    state = RunState.PENDING if is_put_off or not run.has_begun else RunState.RUNNING
    return Change(state, (_event(EventType.RESUMED, request, now),), hold=False, ready=not is_put_off)


def retry(run: LockedRun, request: Request, step: str | None, life: Life, now: Instant) -> Change:
    """A run that failed, wholly or in part, goes on, as a new generation, without the failures that ended it so."""
    check_move(run.run_id, run.state, "retry")
    if step is None:
        superseded = _failed_calls(run)
    else:
        chosen = find_step(run, step)
        if chosen.state is not StepState.FAILED:
            raise IllegalMove(
                f"Step {chosen.call.address} of run {run.run_id} is {chosen.state}, so it cannot be retried. "
                f"Run it again with `stepfast runs rerun {run.run_id} --from {chosen.seq}`."
            )
        # Steps of a run that ended in part rest on their inputs alone: what others made is found again by these.
        in_part = run.state is RunState.PARTIAL
        superseded = [chosen.call, *_cut_off(run)] if in_part else _from_on(run.steps, chosen.seq)
    return _reopened(run, request, EventType.RETRIED, life, superseded, {"step": step}, now)


def _failed_calls(run: LockedRun) -> list[CallId]:
    """The calls whose failures ended a run, or made its end a partial one, and all that must be done again for it."""
    failed, newest = failing_steps(run.error), {mark.call: mark for mark in run.steps}
    if run.state is RunState.PARTIAL and not failed:
        failed = frozenset(call.address for call, mark in newest.items() if mark.state is StepState.FAILED)
    return [*(call for call in newest if call.address in failed), *_cut_off(run)]


def _cut_off(run: LockedRun) -> list[CallId]:
    newest = {mark.call: mark for mark in run.steps}
    return [call for call, mark in newest.items() if mark.state in STEP_CUT_OFF]


def rerun(run: LockedRun, request: Request, from_step: str | None, life: Life, now: Instant) -> Change:
    """An ended run starts over, as a new generation, from a step or from the beginning."""
    check_move(run.run_id, run.state, "rerun")
    if from_step is None:
        superseded = [mark.call for mark in run.steps]
    else:
        chosen = find_step(run, from_step)
        superseded = _from_on(run.steps, chosen.seq)
        if len(set(superseded)) == len({mark.call for mark in run.steps}):
            raise NothingBefore(
                f"Nothing of run {run.run_id} finished before step {chosen.call.address}. "
                f"Run all of it again with `stepfast runs rerun {run.run_id}`."
            )
    return _reopened(run, request, EventType.RERUN, life, superseded, {"from_step": from_step}, now)


def time_out(run: LockedRun, verdict: DeadRun, now: Instant) -> Change:
    """The run did not end in time; a run that no other run awaits becomes a dead letter."""
    check_move(run.run_id, run.state, "time_out")
    if run.deadline_at is None or run.deadline_at > now:
        raise IllegalMove(
            f"Run {run.run_id} is {run.state} and its deadline has not passed, so it cannot be timed out. "
            f"Call it off with `stepfast runs cancel {run.run_id}`."
        )
    events, is_letter = failing(run.joins is None or run.leave, verdict.error_type, verdict.message, now)
    letter = DeadLetter(run.workflow, run.version, verdict.error_type, verdict.message, None) if is_letter else None
    outcome = Outcome(RunState.FAILED, None, verdict.error, now, run.joins)
    return Change(RunState.FAILED, events, outcome=outcome, dead_letter=letter)


def failing_steps(error: str | None) -> frozenset[str]:
    """The addresses of the steps whose failure ended a run, and of those that handled it, by its stored error."""
    found: set[str] = set()
    pending = [json.loads(error)] if error else []
    while pending:
        failure = pending.pop()
        if failure.get("step"):
            found.add(failure["step"])
        found.update(failure.get("unheard", ()))
        found.update(failure.get("handlers", ()))
        found.update(failure.get("borne", ()))
        pending += [inner for inner in (failure.get("cause"), *failure.get("inner", ())) if inner]
    return frozenset(found)


def find_step(run: LockedRun, wanted: str) -> StepMark:
    """The newest record of the step that a person means: by its number, its address, or its name if it is the only."""
    newest = {mark.call: mark for mark in run.steps}
    if wanted.isdigit():
        numbered = {mark.seq: newest[mark.call] for mark in run.steps}
        found = [numbered[int(wanted)]] if int(wanted) in numbered else []
    else:
        found = [mark for mark in newest.values() if wanted in (mark.call.address, mark.call.name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise StepNotFound(
            f"Run {run.run_id} has no step {wanted!r}. See those it has with `stepfast runs show {run.run_id}`."
        )
    raise Invalid(f"Run {run.run_id} has several steps {wanted!r}: say which by its number: {_candidates(found)}.")


def _candidates(found: Iterable[StepMark]) -> str:
    names = [f"{mark.seq} ({mark.call.address})" for mark in found]
    return ", ".join(names[:SHOWN_CANDIDATES]) + (", ..." if len(names) > SHOWN_CANDIDATES else "")


SHOWN_CANDIDATES = 10


def _from_on(steps: Sequence[StepMark], seq: int) -> list[CallId]:
    """The calls that had not ended when the record of that number was handed out, itself included."""
    ended_before = {mark.call for mark in steps if mark.seq < seq and mark.state in STEP_ENDED}
    return [mark.call for mark in steps if mark.call not in ended_before]


def _reopened(
    run: LockedRun,
    request: Request,
    event_type: EventType,
    life: Life,
    superseded: Sequence[CallId],
    data: dict[str, object],
    now: Instant,
) -> Change:
    if run.is_awaited:
        raise IllegalMove(
            f"Run {run.run_id} is {run.state} and has been counted by its parent {run.joins and run.joins.parent_id}, "
            f"which still waits for others. Retry or rerun the parent when it has ended."
        )
    calls = tuple(dict.fromkeys(superseded))
    told = {**data, "version": life.version, "superseded": len(calls)}
    seen_to = (letter_resolved(run, request, "replayed", now),) if run.has_letter else ()
    return Change(
        RunState.PENDING,
        (*seen_to, _event(event_type, request, now, told)),
        reopen=Reopen(life.version, life.code, run.input, request.command.name, calls, life.definition),
        resolution="replayed" if run.has_letter else None,
    )


def _event(event_type: EventType, request: Request, now: Instant, data: dict[str, object] | None = None) -> Event:
    told = {name: value for name, value in {**(data or {}), "reason": request.reason}.items() if value is not None}
    return Event(event_type, now, actor=request.actor, data=json.dumps(told) if told else None)
