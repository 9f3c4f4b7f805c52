"""The records that commands go by: which of them a person means, which ended a run, and what came before one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from stepfast.kernel.commands import LockedRun, StepMark
from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import Invalid, StepNotFound
from stepfast.kernel.numbers import written
from stepfast.kernel.plan_rules import GIVEN
from stepfast.kernel.states import STEP_CUT_OFF, STEP_ENDED, RunState, StepState
from stepfast.kernel.views import StepView

SHOWN_CANDIDATES = 10


def failed_calls(run: LockedRun) -> list[CallId]:
    """The calls whose failures ended a run, or made its end a partial one, and all that must be done again for it."""
    failed, newest = failing_steps(run.error), {mark.call: mark for mark in run.steps}
    if run.state is RunState.PARTIAL and not failed:
        failed = frozenset(call.address for call, mark in newest.items() if mark.state is StepState.FAILED)
    return [*(call for call in newest if call.address in failed), *cut_off(run)]


def cut_off(run: LockedRun) -> list[CallId]:
    """The calls that had come to no end that the code could go on from, or were not done for what came of others."""
    newest = {mark.call: mark for mark in run.steps}
    return [call for call, mark in newest.items() if mark.state in STEP_CUT_OFF and mark.kind != GIVEN]


def ending_calls(run: LockedRun) -> list[CallId]:
    """The calls whose failures ended a run; none of a run that came to another end."""
    failing = failing_steps(run.error) if run.state is RunState.FAILED else frozenset()
    return [call for call in {mark.call: None for mark in run.steps} if call.address in failing]


def caught_calls(error: str | None, steps: Iterable[StepView]) -> list[CallId]:
    """The calls of a failed run whose failures its code went on from, in the order in which they ended."""
    newest = {step.call: step for step in steps if step.superseded_by is None}
    failed = sorted((step.seq, call) for call, step in newest.items() if step.state is StepState.FAILED)
    ending = failing_steps(error)
    return [call for _, call in failed if call.address not in ending]


def unended_calls(run: LockedRun, failing: Sequence[CallId]) -> list[CallId]:
    """The calls that had not ended when their run did, and those that its failure has called off."""
    newest = {mark.call: mark for mark in run.steps}
    failed_at = min((newest[call].seq for call in failing), default=None)
    return [call for call, mark in newest.items() if _is_unended(mark, failed_at)]


def _is_unended(mark: StepMark, failed_at: int | None) -> bool:
    if mark.state is StepState.CANCELLED:
        return failed_at is not None and mark.seq > failed_at
    return mark.state not in STEP_ENDED


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
    number = written(wanted)
    if number is not None:
        numbered = {mark.seq: newest[mark.call] for mark in run.steps}
        found = [numbered[number]] if number in numbered else []
    else:
        found = [mark for mark in newest.values() if wanted in (mark.call.address, mark.call.name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise StepNotFound(
            f"Run {run.run_id} has no step {wanted!r}. See those it has with `stepfast runs show {run.run_id}`."
        )
    # Not by its number: a rollback would take that for the number of an event.
    raise Invalid(f"Run {run.run_id} has several steps {wanted!r}: say which by its address: {_candidates(found)}.")


def _candidates(found: Iterable[StepMark]) -> str:
    names = [mark.call.address for mark in found]
    return ", ".join(names[:SHOWN_CANDIDATES]) + (", ..." if len(names) > SHOWN_CANDIDATES else "")


def from_on(steps: Sequence[StepMark], seq: int) -> list[CallId]:
    """The calls that had not ended when the record of that number was handed out, itself included."""
    ended_before = {mark.call for mark in steps if mark.seq < seq and mark.state in STEP_ENDED}
    return [mark.call for mark in steps if mark.call not in ended_before]


def not_reached(run: LockedRun, wanted: str) -> StepNotFound:
    """The refusal of a step of which nothing is recorded."""
    return StepNotFound(
        f"Nothing is recorded of step {wanted!r} of run {run.run_id}: it was not reached. "
        f"See what is with `stepfast runs show {run.run_id}`."
    )
