"""Opening the next generation of a run: what it is executed with, and which records it does without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, assert_never

from stepfast.kernel.code_waits import looking_again, try_code_again
from stepfast.kernel.commands import (
    Change,
    LockedRun,
    Reopen,
    Request,
    Rerun,
    RetryRun,
    Rollback,
    Skip,
    StepCommand,
    command_event,
)
from stepfast.kernel.decisions import CallId, Record
from stepfast.kernel.definitions import code_of
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, Invalid, NothingBefore, StepNotFound, WorkflowNotFound
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.item_judging import letter_resolved, steps_resolved
from stepfast.kernel.marks import cut_off, ending_calls, failed_calls, find_step, from_on, not_reached, unended_calls
from stepfast.kernel.plan_control import Chosen, Ties, calls_after, calls_of, given_call, owner_of
from stepfast.kernel.plan_rules import GIVEN
from stepfast.kernel.rolling_back import check_reachable, ended_after
from stepfast.kernel.states import ENDED, RunState, StepState, TaskState, check_move


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
        return _same_life(run)
    if command.lacks is not None:
        raise WorkflowNotFound(command.lacks)
    return Life(version, code_of(run.workflow, version, command.definition), command.definition)


def _same_life(run: LockedRun) -> Life:
    return Life(run.version, run.code, run.definition)


def judge_steps(run: LockedRun, request: Request, command: StepCommand, now: Instant) -> Change:
    """The change that a command makes of a run's records."""
    match command:
        case RetryRun():
            return retry(run, request, command, now)
        case Rerun():
            return rerun(run, request, command, now)
        case Skip():
            return skip(run, request, command, now)
        case Rollback():
            return rollback(run, request, command, now)
        case _:
            assert_never(command)


def retry(run: LockedRun, request: Request, command: RetryRun, now: Instant) -> Change:
    """A run that failed, wholly or in part, goes on, as a new generation, without the failures that ended it so."""
    if run.state is RunState.WAITING and run.lacks_code:
        return try_code_again(run, request, command, now)
    check_move(run.run_id, run.state, "retry")
    if command.step is None:
        superseded = failed_calls(run)
    elif command.ties is not None:
        superseded = _failed_of(run, command.step, command.ties)
    else:
        chosen = find_step(run, command.step)
        if chosen.state is not StepState.FAILED:
            raise IllegalMove(
                f"Step {chosen.call.address} of run {run.run_id} is {chosen.state}, so it cannot be retried. "
                f"{_again(run, Rerun(str(chosen.seq)))}"
            )
        # Steps of a run that ended in part rest on their inputs alone: what others made is found again by these.
        in_part = run.state is RunState.PARTIAL
        superseded = [chosen.call, *cut_off(run)] if in_part else from_on(run.steps, chosen.seq)
    return _reopened(run, request, EventType.RETRIED, _life(run, command), superseded, {"step": command.step}, now)


def _failed_of(run: LockedRun, wanted: str, ties: Ties) -> list[CallId]:
    """What has failed of a step of a plan, and what was skipped or done for that; the rest of the run stays."""
    chosen = chosen_of(run, wanted, ties)
    own = calls_of(run.steps, ties, chosen, with_rest=False)
    newest = {mark.call: mark.state for mark in run.steps}
    failed = [call for call in newest if call in own and newest[call] is StepState.FAILED]
    if not failed:
        raise IllegalMove(
            f"Step {wanted} of run {run.run_id} has not failed, so it cannot be retried. "
            f"{_again(run, Rerun(wanted, ties=ties))}"
        )
    ending = ending_calls(run)
    found = calls_after(run.steps, ties, [*failed, *ending]).union(unended_calls(run, ending))
    return _in_order(run, found)


def _again(run: LockedRun, command: Rerun) -> str:
    """How to do a step again that cannot be retried: from there on, or, with nothing to keep, the run as a whole."""
    try:
        _rerun_calls(run, command)
    except (NothingBefore, StepNotFound):
        return f"Run all of it again with `stepfast runs rerun {run.run_id}`."
    return f"Run it again with `stepfast runs rerun {run.run_id} --from {command.from_step}`."


def rerun(run: LockedRun, request: Request, command: Rerun, now: Instant) -> Change:
    """An ended run starts over, as a new generation, from a step or from the beginning."""
    check_move(run.run_id, run.state, "rerun")
    superseded = _rerun_calls(run, command)
    data: dict[str, object] = {"from_step": command.from_step}
    return _reopened(run, request, EventType.RERUN, _life(run, command), superseded, data, now)


def _rerun_calls(run: LockedRun, command: Rerun) -> list[CallId]:
    every = list(dict.fromkeys(mark.call for mark in run.steps))
    if command.from_step is None:
        return every
    if command.ties is None:
        chosen = find_step(run, command.from_step)
        found, name = set(from_on(run.steps, chosen.seq)), chosen.call.address
    else:
        found, name = _resting_on(run, command.from_step, command.ties), command.from_step
    if len(found) == len(every):
        raise NothingBefore(
            f"Nothing of run {run.run_id} finished before step {name}. "
            f"Run all of it again with `stepfast runs rerun {run.run_id}`."
        )
    return _in_order(run, found)


def _resting_on(run: LockedRun, wanted: str, ties: Ties) -> set[CallId]:
    """The calls of a step of a plan and of what rests on it, and those that keep the run from going on."""
    chosen = chosen_of(run, wanted, ties)
    if not calls_of(run.steps, ties, chosen, with_rest=False):
        raise not_reached(run, wanted)
    failing = ending_calls(run)
    return calls_of(run.steps, ties, chosen).union(calls_after(run.steps, ties, failing), unended_calls(run, failing))


def chosen_of(run: LockedRun, wanted: str, ties: Ties) -> Chosen:
    """The step of a plan that a person means: by its id, or by the number or address of one of its records."""
    if wanted in ties:
        return Chosen(wanted)
    mark = find_step(run, wanted)
    step_id, address = owner_of(mark.call), mark.call.address
    if step_id not in ties:
        raise StepNotFound(f"The plan of run {run.run_id} has no step {step_id!r}, which {address} belongs to.")
    return Chosen(step_id, mark.call.path, mark.kind)


def skip(run: LockedRun, request: Request, command: Skip, now: Instant) -> Change:
    """A step counts as done with what a person gave for it; the run goes on from there."""
    ties = command.ties
    if ties is None:
        raise Invalid(
            f"Run {run.run_id} is of {run.code}, which is a function: its code alone knows what its steps are for. "
            f"Steps of graphs and templates can be skipped by hand."
        )
    _check_untouched(run, "skip" if run.state in ENDED else "skip_open")
    chosen = chosen_of(run, command.step, ties)
    call = given_call(run, chosen, ties)
    if command.misfit is not None:
        raise Invalid(f"Step {command.step} of run {run.run_id} cannot be skipped with this output: {command.misfit}")
    calls = calls_of(run.steps, ties, chosen)
    record = Record(call, GIVEN, StepState.SKIPPED, 1, "", "{}", command.value, None, now, now)
    told = {"by_hand": True} | ({"reason": request.reason} if request.reason else {})
    # A run that has ended tells with its next generation what counts no more.
    gone = {} if run.state in ENDED else _superseding(run, calls)
    event = Event(EventType.STEP_SKIPPED, now, call.address, 1, request.actor, json.dumps(told | gone))
    if run.state not in ENDED:
        state = RunState.PAUSED if run.hold else RunState.RUNNING
        change = Change(state, (event,), hold=run.hold, ready=not run.hold)
        change = change._replace(events=(*steps_resolved(run, calls, request, now), *change.events))
        change = _without(run, change, calls)._replace(records=(record,))
        return looking_again(run, request, change, now) if change.ready else change
    failing = ending_calls(run)
    found = calls.union(calls_after(run.steps, ties, failing), unended_calls(run, failing))
    life, data = _same_life(run), dict[str, object](step=command.step)
    change = _reopened(run, request, EventType.RETRIED, life, _in_order(run, found), data, now)
    return change._replace(events=(*change.events, event), records=(record,))


def rollback(run: LockedRun, request: Request, command: Rollback, now: Instant) -> Change:
    """What ended after a moment counts no more, and the run is held until somebody resumes it."""
    _check_untouched(run, "rollback")
    check_reachable(run, command)
    calls = ended_after(run, command)
    data: dict[str, object] = {"to": command.step or command.state or command.event}
    if command.state is not None:
        data["event"] = command.event
    if run.state in ENDED:
        change = _reopened(run, request, EventType.ROLLED_BACK, _same_life(run), _in_order(run, calls), data, now)
        return change._replace(state=RunState.PAUSED, hold=True)
    event = command_event(EventType.ROLLED_BACK, request, now, data | _superseding(run, calls))
    resolved = steps_resolved(run, calls, request, now)
    change = _without(run, Change(RunState.PAUSED, (*resolved, event), hold=True), calls)
    return looking_again(run, request, change, now)


def _check_untouched(run: LockedRun, move: str) -> None:
    """Records are changed while nobody makes any, and when some can have been made."""
    check_move(run.run_id, run.state, move)
    if run.task is TaskState.LEASED:
        raise IllegalMove(
            f"Run {run.run_id} is held by a worker, so its records cannot be changed. "
            f"Pause it first with `stepfast runs pause {run.run_id}`."
        )
    if run.state not in ENDED and not run.has_begun and run.generation == 1:
        raise IllegalMove(f"Run {run.run_id} has not begun, so there is nothing to change. Let it begin first.")


def _without(run: LockedRun, change: Change, calls: set[CallId]) -> Change:
    """A change of a run that goes on in its generation without some of its calls, and without what they wait for."""
    # A question to people is open under the record of the call that asked it, which has ended.
    closed = tuple(mark.seq for mark in run.steps if mark.call in calls)
    return change._replace(superseded=tuple(_in_order(run, calls)), closed=closed)


def _in_order(run: LockedRun, calls: set[CallId]) -> list[CallId]:
    return [call for call in dict.fromkeys(mark.call for mark in run.steps) if call in calls]


def _superseding(run: LockedRun, calls: AbstractSet[CallId]) -> dict[str, object]:
    """What is told of the calls that count no more: how many, and which, unless that is all."""
    every = {mark.call: None for mark in run.steps}
    is_all = len(calls) == len(every)
    which: dict[str, object] = {"all_steps": True} if is_all else {"steps": [c.address for c in every if c in calls]}
    return {"superseded": len(calls)} | which


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
    calls = dict.fromkeys(superseded).keys()
    cause = "rerun_from" if data.get("from_step") else request.command.name
    told = data | {"version": life.version} | _superseding(run, calls)
    letter = (letter_resolved(run, request, "replayed", now),) if run.has_letter else ()
    return Change(
        RunState.PENDING,
        (*letter, *steps_resolved(run, calls, request, now), command_event(event_type, request, now, told)),
        reopen=Reopen(life.version, life.code, run.input, cause, tuple(calls), life.definition),
        resolution="replayed" if run.has_letter else None,
    )
