"""What an annotation from outside means for a run: a fact is told, and nothing else changes."""

from __future__ import annotations

from stepfast.kernel.annotations import Annotate, annotated, nearest_steps
from stepfast.kernel.commands import Change, LockedRun, Request, telling
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepNotFound
from stepfast.kernel.marks import find_step


def judge_annotation(run: LockedRun, request: Request, command: Annotate, now: Instant) -> Change:
    """Note a fact, of an open run as of an ended one."""
    step = None if command.step is None else _address(run, command.step)
    facts = (command.label, command.value, command.scope, now)
    return telling(run, (annotated(*facts, step=step, actor=request.actor, reason=request.reason),))


def _address(run: LockedRun, wanted: str) -> str:
    try:
        return find_step(run, wanted).call.address
    except StepNotFound:
        addresses = list(dict.fromkeys(mark.call.address for mark in run.steps))
        nearest = ", ".join(nearest_steps(wanted, addresses))
        has = f"nearest are {nearest}" if nearest else "it has recorded none yet"
        raise StepNotFound(
            f"Run {run.run_id} has no step {wanted!r}; {has}. See all with `stepfast runs show {run.run_id}`."
        ) from None
