"""Runs and their assets in the words of OpenLineage 2.0.2, as plain JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from stepfast.kernel.assets import LineageView, Role
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.views import EventView, RunView

PRODUCER = "https://pypi.org/project/stepfast/"
SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = "https://openlineage.io/spec/facets"

START, COMPLETE, FAIL, ABORT = "START", "COMPLETE", "FAIL", "ABORT"
ENDS = {
    EventType.COMPLETED: COMPLETE,
    EventType.PARTIAL: COMPLETE,
    EventType.CONTINUED: COMPLETE,
    EventType.FAILED: FAIL,
    EventType.CANCELLED: ABORT,
}
TOLD = frozenset({EventType.STARTED, *ENDS})

# Each claim has a token of its own, and so has what ends a run that nobody holds: the first was no claim.
CALLED_OFF_FIRST = 1

# Which call of its name, and which item of how many: jobs are known by what they do, not by how often.
_COUNTS = re.compile(r"#\d+$")

JsonObject = dict[str, Any]


class Telling(NamedTuple):
    """A run to be told of: what it is, whose child, and what of it."""

    namespace: str
    run: RunView
    parent: RunView | None
    event: EventView
    rows: Sequence[LineageView] = ()
    with_messages: bool = False
    is_cut: bool = False

    @property
    def place(self) -> str:
        """Whose ids they are: two tenants may use the same."""
        return f"{self.namespace}/{self.run.tenant}"


def run_events(told: Telling) -> list[JsonObject]:
    """What is told of one event: of an end also what its steps have read and written, as runs of their own."""
    if told.event.type == EventType.STARTED:
        return [_run_event(told, START)]
    end = ENDS[EventType(told.event.type)]
    begun = [_run_event(told, START)] if _never_began(told.event) else []
    return [*begun, *_step_events(told, end), _run_event(told, end)]


def _never_began(event: EventView) -> bool:
    """Whether it was called off before any worker took it; an end without a beginning would be no run."""
    return event.type == EventType.CANCELLED and event.token == CALLED_OFF_FIRST


def run_uuid(run_id: RunId, generation: int) -> str:
    """The id of one generation of a run: the run's own for the first, as each has a beginning and an end."""
    return run_id if generation == 1 else str(uuid5(UUID(run_id), str(generation)))


def _run_event(told: Telling, kind: str) -> JsonObject:
    event, run = told.event, told.run
    is_end = kind != START
    written = [row for row in told.rows if row.role is Role.WRITE]
    own = {(row.asset_id, row.version) for row in written}
    read = [row for row in told.rows if row.role is Role.READ and (row.asset_id, row.version) not in own]
    return {
        "eventType": kind,
        "eventTime": moment(event.at),
        "producer": PRODUCER,
        "schemaURL": SPEC,
        "run": {"runId": run_uuid(run.run_id, event.generation), "facets": _run_facets(told, kind)},
        "job": {"namespace": told.place, "name": run.workflow, "facets": _job_facets("WORKFLOW")},
        "inputs": _datasets(told, read) if is_end else [],
        "outputs": _datasets(told, written) if is_end else [],
    }


def _step_events(told: Telling, end: str) -> Iterable[JsonObject]:
    by_step: dict[str, list[LineageView]] = {}
    for row in told.rows:
        by_step.setdefault(row.step, []).append(row)
    for step, rows in by_step.items():
        written = [row for row in rows if row.role is Role.WRITE]
        run_id = uuid5(UUID(told.run.run_id), f"{told.event.generation} {step}")
        common = {
            "producer": PRODUCER,
            "schemaURL": SPEC,
            "run": {"runId": str(run_id), "facets": _step_facets(told, step, rows)},
            "job": {
                "namespace": told.place,
                "name": f"{told.run.workflow}.{step_name(step)}",
                "facets": _job_facets("STEP"),
            },
        }
        yield {"eventType": START, "eventTime": moment(rows[0].at), **common, "inputs": [], "outputs": []}
        yield {
            # What has written something has done what it was there for, whatever became of the run.
            "eventType": COMPLETE if written else end,
            "eventTime": moment(max(row.at for row in rows)),
            **common,
            "inputs": _datasets(told, [row for row in rows if row.role is Role.READ]),
            "outputs": _datasets(told, written),
        }


def step_name(step: str) -> str:
    """A step without the branch it stands in and the number of its call."""
    return _COUNTS.sub("", step).rpartition("/")[2]


def moment(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _run_facets(told: Telling, kind: str) -> JsonObject:
    run, event = told.run, told.event
    tags = {"state": event.type if kind != START else None, "correlation_id": run.correlation_id, "actor": run.actor}
    facets = {
        "processing_engine": _engine(),
        "nominalTime": _facet("1-0-1", "NominalTimeRunFacet", nominalStartTime=moment(run.queued_at)),
        "tags": _tags("run", {**tags, "generation": str(event.generation), "cut": "true" if told.is_cut else None}),
    }
    if told.parent is not None:
        parent = told.parent
        facets["parent"] = _parent(told, run_uuid(parent.run_id, parent.generation), parent.workflow)
    if kind == FAIL:
        facets["errorMessage"] = _error(told)
    return facets


def _step_facets(told: Telling, step: str, rows: Sequence[LineageView]) -> JsonObject:
    attempt = max(row.attempt for row in rows)
    return {
        "processing_engine": _engine(),
        "parent": _parent(told, run_uuid(told.run.run_id, told.event.generation), told.run.workflow),
        "tags": _tags("run", {"step": step, "attempt": str(attempt)}),
    }


def _parent(told: Telling, run_id: str, workflow: str) -> JsonObject:
    job = {"namespace": told.place, "name": workflow}
    return _facet("1-2-0", "ParentRunFacet", run={"runId": run_id}, job=job)


def _error(told: Telling) -> JsonObject:
    """What kind of error; what it says may be anybody's secret, and is told only if that is wanted."""
    data = json.loads(told.event.data or "{}")
    kind = str(data.get("error_type", "Error"))
    message = f"{kind}: {data.get('message', '')}" if told.with_messages else f"{kind}, see run {told.run.run_id}"
    return _facet("1-0-1", "ErrorMessageRunFacet", message=message, programmingLanguage="PYTHON")


def _job_facets(kind: str) -> JsonObject:
    facet = _facet("2-0-4", "JobTypeJobFacet", processingType="BATCH", integration="STEPFAST", jobType=kind)
    return {"jobType": facet}


def _engine() -> JsonObject:
    return _facet("1-1-1", "ProcessingEngineRunFacet", name="Stepfast", version=_version())


def _version() -> str:
    try:
        return version("stepfast")
    except PackageNotFoundError:
        return "unknown"


def _datasets(told: Telling, rows: Iterable[LineageView]) -> list[JsonObject]:
    """Each version once, however many steps have read it."""
    return list({(row.asset_id, row.version): _dataset(told, row) for row in rows}.values())


def _dataset(told: Telling, row: LineageView) -> JsonObject:
    facets = {
        "version": _facet("1-0-1", "DatasetVersionDatasetFacet", datasetVersion=str(row.version)),
        "datasetType": _facet("1-0-1", "DatasetTypeDatasetFacet", datasetType="FILE"),
    }
    if row.wanted_id != row.asset_id:
        facets["tags"] = _tags("dataset", {"wanted": row.wanted_id})
    return {"namespace": told.place, "name": row.asset_id, "facets": facets}


def _tags(of: str, given: dict[str, str | None]) -> JsonObject:
    tags = [{"key": key, "value": value, "source": "STEPFAST"} for key, value in given.items() if value is not None]
    return _facet("1-0-0", f"Tags{of.capitalize()}Facet", tags=tags)


def _facet(number: str, schema: str, /, **fields: object) -> JsonObject:
    return {"_producer": PRODUCER, "_schemaURL": f"{FACETS}/{number}/{schema}.json#/$defs/{schema}", **fields}
