"""Recordings: what a run did, kept as plain data, and whether today's code would still do it."""

from __future__ import annotations

from typing import Any, TypeVar

from stepfast.base import definition_of
from stepfast.checks import held_from
from stepfast.kernel.decisions import CallId, History, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid
from stepfast.kernel.generations import epoch_of
from stepfast.kernel.ids import parse_run_id
from stepfast.kernel.states import GOOD_ENDS, RunState, StepState
from stepfast.kernel.views import RunView, StepView
from stepfast.runs import Run
from stepfast.workflows import failures
from stepfast.workflows.codec import digest
from stepfast.workflows.fitting import Fit, Verdict, fit
from stepfast.workflows.functions import AnyWorkflow
from stepfast.workflows.perform import Continued, Ending, Raised, Returned, ReturnedInPart, Stopped

V = TypeVar("V", RunView, StepView)

Recording = dict[str, Any]
"""JSON values alone: `run`, the run as people see it, `records`, its records that are not superseded, in order, and
`epoch`, its newest generation that began anew."""


async def record(run: Run[Any]) -> Recording:
    """What a run has done so far, to be kept beside the tests and replayed with later code."""
    view = await _whole(run, await run.info())
    steps = [await _whole(run, step) for step in await run.steps() if step.superseded_by is None]
    epoch = 1 if view.generation == 1 else epoch_of((await run.reconstruct()).generations)
    return {"run": view._asdict(), "records": [step._asdict() for step in steps], "epoch": epoch}


async def replay(workflow: AnyWorkflow, recording: Recording) -> Fit:
    """Whether a workflow's code makes the calls of a recording, in the same places and with the same arguments.

    Nothing is written and no step's body runs. A run that had ended must come to the same end.
    """
    definition = definition_of(workflow)
    view, records, base_seq, epoch = _read(recording)
    if (view.workflow, view.version) != (definition.name, definition.version):
        code = f"{view.workflow}@{view.version}"
        return Fit(Verdict.UNKNOWN_CODE, None, f"The recording is of {code}, which {definition.code} is not.")
    found = await fit(definition, held_from(view, base_seq, epoch), History(records, [], []))
    return _compared(found, view) if found.is_good else found


def _read(recording: Recording) -> tuple[RunView, list[Record], int, int]:
    """The run, its records, up to which of them they are of earlier generations, and the newest that began anew."""
    try:
        view, items = RunView(**recording["run"]), recording["records"]
        kept = [item["seq"] for item in items if item["generation"] < view.generation]
        records = [_record_of(item) for item in items]
        return view._replace(run_id=parse_run_id(view.run_id)), records, max(kept, default=0), int(recording["epoch"])
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise Invalid(f"This is no recording ({problem}). Give what `await record(run)` has made, whole.") from error


def _compared(found: Fit, view: RunView) -> Fit:
    end = None if found.ending is None else _end_of(found.ending)
    state = RunState(view.state)
    recorded = (state, failures.from_text(view.error or "{}").message if state is RunState.FAILED else view.value)
    if state not in GOOD_ENDS | {RunState.FAILED} or end in (None, recorded):
        return found
    return Fit(Verdict.MISMATCH, None, f"The run was recorded as {_told(*recorded)}; the code now is {_told(*end)}.")


def _end_of(ending: Ending) -> tuple[RunState, str | None] | None:
    match ending:
        case Returned(value):
            return RunState.COMPLETED, value
        case ReturnedInPart(value):
            return RunState.PARTIAL, value
        case Raised(error):
            return RunState.FAILED, failures.describe(error).message
        case Continued() | Stopped():
            return None


def _told(state: RunState, value: str | None) -> str:
    return f"{state} with {value}"


async def _whole(run: Run[Any], view: V) -> V:
    """The same with its large values in place: a recording outlives their store."""
    value = None if view.value is None else await run.read(view.value)
    return view._replace(input=await run.read(view.input), value=value)


def _record_of(item: dict[str, Any]) -> Record:
    return Record(
        call=CallId(*item["call"]),
        kind=item["kind"],
        state=StepState(item["state"]),
        attempt=item["attempt"],
        # That of a step without key=; where there is one, the stored input itself is compared.
        digest=digest(item["input"]),
        input=item["input"],
        value=item["value"],
        error=item["error"],
        started_at=Instant(item["started_at"]),
        ended_at=Instant(item["ended_at"]),
        due_at=item["due_at"],
        seq=item["seq"],
    )
