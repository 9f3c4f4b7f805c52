"""What a command means for a run: the change it makes, or the refusal that leaves everything as it is."""

from __future__ import annotations

import json

from stepfast.kernel.annotating import judge_annotation
from stepfast.kernel.annotations import Annotate
from stepfast.kernel.code_waits import looking_again
from stepfast.kernel.commands import (
    Cancel,
    Change,
    Discard,
    LockedRun,
    Pause,
    Request,
    Rerun,
    Resume,
    RetryRun,
    Rollback,
    Skip,
    TimeOut,
    command_event,
)
from stepfast.kernel.decisions import DeadLetter, Outcome
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, RunCancelled
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import DeadRun
from stepfast.kernel.item_judging import discard, judge_item
from stepfast.kernel.items import AssignItem, CommentItem, ResolveItem
from stepfast.kernel.judging import judge
from stepfast.kernel.origins import caused_by
from stepfast.kernel.outside import CallBack, ExpireCall
from stepfast.kernel.outside_judging import judge_outside
from stepfast.kernel.reopening import judge_steps
from stepfast.kernel.rules import failing
from stepfast.kernel.states import RunState, TaskState, check_move


def decide(run: LockedRun, request: Request, now: Instant) -> Change:
    """The change that a command makes; what the run's state does not allow raises, and nothing is written."""
    change = _decide(run, request, now)
    if request.key is None:
        return change
    return change._replace(events=caused_by(request.key, change.events), owed=caused_by(request.key, change.owed))


def _decide(run: LockedRun, request: Request, now: Instant) -> Change:
    match request.command:
        case Cancel():
            return cancel(run, request, now)
        case Pause():
            return pause(run, request, now)
        case Resume():
            return resume(run, request, now)
        case RetryRun() | Rerun() | Skip() | Rollback() as command:
            return judge_steps(run, request, command, now)
        case Discard():
            return discard(run, request, now)
        case TimeOut(verdict):
            return time_out(run, verdict, now)
        case AssignItem() | CommentItem() | ResolveItem():
            return judge_item(run, request, request.command, now)
        case CallBack() | ExpireCall():
            return judge_outside(run, request, request.command, now)
        case Annotate() as command:
            return judge_annotation(run, request, command, now)
        case _:
            return judge(run, request, request.command, now)


def cancel(run: LockedRun, request: Request, now: Instant) -> Change:
    """The run ends here; its holder, if it has one, is fenced off and told."""
    check_move(run.run_id, run.state, "cancel")
    error = {"type": "stepfast.kernel.errors:RunCancelled", "message": request.reason or "", "code": RunCancelled.code}
    outcome = Outcome(RunState.CANCELLED, None, json.dumps(error), now, run.joins)
    return Change(RunState.CANCELLED, (command_event(EventType.CANCELLED, request, now),), outcome=outcome)


def pause(run: LockedRun, request: Request, now: Instant) -> Change:
    """No further step begins; a run that is held goes on until its steps under way are recorded."""
    is_held = run.task is TaskState.LEASED
    if is_held and run.hold:
        raise IllegalMove(
            f"Run {run.run_id} was asked to pause before, and is paused as soon as its steps under way are recorded. "
            f"Let it go on instead with `stepfast runs resume {run.run_id}`."
        )
    check_move(run.run_id, RunState.PAUSED if run.hold else run.state, "pause")
    if is_held:
        return Change(RunState.RUNNING, owed=(command_event(EventType.PAUSED, request, now),), hold=True)
    return Change(RunState.PAUSED, (command_event(EventType.PAUSED, request, now),), hold=True)


def resume(run: LockedRun, request: Request, now: Instant) -> Change:
    """The run's code looks at its waits again, unless it was put off and its time has not come."""
    check_move(run.run_id, RunState.PAUSED if run.hold else run.state, "resume")
    if run.task is TaskState.LEASED:
        return Change(RunState.RUNNING, owed=(command_event(EventType.RESUMED, request, now),), hold=False)
    is_put_off = run.task is TaskState.WAITING and run.is_put_off
    state = RunState.PENDING if is_put_off or not run.has_begun else RunState.RUNNING
    told = command_event(EventType.RESUMED, request, now, {"state": state})
    change = Change(state, (told,), hold=False, ready=not is_put_off)
    return looking_again(run, request, change, now) if change.ready else change


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
