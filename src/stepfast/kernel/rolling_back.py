"""How far a run can be taken back, and what counts no more when it is."""

from __future__ import annotations

from stepfast.kernel.commands import LockedRun, Rollback
from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import EventNotFound, IllegalMove
from stepfast.kernel.marks import find_step, not_reached
from stepfast.kernel.plan_control import Chosen, Ties, calls_of, is_undo, undone_by
from stepfast.kernel.states import STEP_ENDED


def check_reachable(run: LockedRun, command: Rollback) -> None:
    """Refuse an event that never was, and one that nothing leads back to."""
    if command.state is not None and command.event is None:
        raise EventNotFound(
            f"Run {run.run_id} was never {command.state} before, so it cannot be rolled back to that. "
            f"`stepfast runs events {run.run_id}` shows its history."
        )
    if command.beyond is not None:
        raise IllegalMove(command.beyond)
    # What a record's number means rests on the life that it was looked up in.
    if command.life not in (None, run.generation):
        raise IllegalMove(
            f"Run {run.run_id} began another life while its history was read, so it was not rolled back. "
            f"See `stepfast runs events {run.run_id}`, and give the command again."
        )


def ended_after(run: LockedRun, command: Rollback) -> set[CallId]:
    """The calls that had not ended by then, which count no more."""
    newest = {mark.call: mark for mark in run.steps}
    last = command.seq if command.step is None else _end_of(run, command.step, command.ties)
    calls = {call for call, mark in newest.items() if mark.state not in STEP_ENDED or mark.seq > last}
    ties = command.ties
    if ties is None:
        return calls
    # What was undone since is not there any more, though it is recorded as done.
    undone = [Chosen(step_id) for step_id in undone_by(calls) if step_id in ties]
    return calls.union(*(calls_of(run.steps, ties, chosen) for chosen in undone))


def _end_of(run: LockedRun, wanted: str, ties: Ties | None) -> int:
    """The number of the record by which a step ended."""
    if ties is None or wanted not in ties:
        own = [find_step(run, wanted)]
    else:
        calls = {call for call in calls_of(run.steps, ties, Chosen(wanted), with_rest=False) if not is_undo(call)}
        own = [mark for mark in {mark.call: mark for mark in run.steps}.values() if mark.call in calls]
    if not own:
        raise not_reached(run, wanted)
    unended = next((mark for mark in own if mark.state not in STEP_ENDED), None)
    if unended is not None:
        raise IllegalMove(
            f"Step {unended.call.address} of run {run.run_id} is {unended.state} and has not ended, so the run cannot "
            f"be rolled back to its end. Name a step before it."
        )
    return max(mark.seq for mark in own)
