"""Runs that wait for code that fits their records: how a person has one look again, and what is told of that."""

from __future__ import annotations

from stepfast.kernel.commands import Change, LockedRun, Request, RetryRun, command_event
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove
from stepfast.kernel.events import EventType
from stepfast.kernel.item_judging import item_event
from stepfast.kernel.items import LockedItem, blocked_cause
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.rules import CODE_WAIT_ID
from stepfast.kernel.states import RunState, check_move


def try_code_again(run: LockedRun, request: Request, command: RetryRun, now: Instant) -> Change:
    """A run that waits for code that fits meets what there is by now, in the same generation and with all records."""
    check_move(run.run_id, run.state, "retry_open")
    if command.step is not None or command.version not in (None, run.version):
        raise IllegalMove(
            f"Run {run.run_id} waits for code of {run.code} that fits, so it can be retried as a whole only, and under "
            f"no other version. Let it look at the code again with `stepfast runs retry {run.run_id}`."
        )
    told = command_event(EventType.RESUMED, request, now, {"state": RunState.RUNNING})
    return looking_again(run, request, Change(RunState.RUNNING, (told,), hold=False, ready=True), now)


def looking_again(run: LockedRun, request: Request, change: Change, now: Instant) -> Change:
    """A change by which a run goes on, with the end of its wait for code that fits, if it has one, and of the item."""
    if not run.lacks_code:
        return change
    item = LockedItem(blocked_cause(run.generation), ItemKind.BLOCKED, None, None)
    told = item_event(EventType.EXCEPTION_RESOLVED, item, request, now, resolution="taken up")
    return change._replace(events=(told, *change.events), closed=(*change.closed, CODE_WAIT_ID))
