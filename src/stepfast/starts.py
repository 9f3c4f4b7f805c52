"""Requests for new runs: from a workflow, its arguments and the caller's options to the row that a store keeps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from stepfast.kernel.decisions import NewRun
from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.texts import check_optional_text, check_text
from stepfast.runs import Run
from stepfast.workflows.codec import digest
from stepfast.workflows.functions import AnyWorkflow, Workflow

MAX_PRIORITY = 1_000_000
PAGE_RUNS = 1_000
PAGE_BYTES = 4 * 1024 * 1024


class Start:
    """One start among many for `app.start_many`; takes what `app.start` takes."""

    __slots__ = ("args", "options", "workflow")

    def __init__(self, workflow: AnyWorkflow | str, /, *args: Any, **options: Any) -> None:
        self.workflow = workflow
        self.args = args
        self.options = options


class StartAnswer(NamedTuple):
    """What became of one of many starts: a new run, the run that its key had started before, or an error."""

    run: Run[Any] | None
    is_new: bool
    error: StepfastError | None = None


def new_run(
    definition: Workflow,
    run_id: RunId,
    args: tuple[Any, ...],
    /,
    *,
    tenant: str = "default",
    key: str | None = None,
    queue: str | None = None,
    priority: int = 0,
    delay: Duration | None = None,
    tags: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    thread_id: str | None = None,
    subject: str | None = None,
    correlation_id: str | None = None,
    actor: str | None = None,
    **kwargs: Any,
) -> NewRun:
    """A run as it will be stored; whatever does not fit is refused here."""
    arguments = definition.arguments
    text, _ = arguments.restore(arguments.bind(args, kwargs))
    return NewRun(
        run_id=run_id,
        tenant=check_text("tenant", tenant),
        workflow=definition.name,
        version=definition.version,
        kind="workflow",
        queue=check_text("queue", queue or definition.queue),
        code=definition.code,
        priority=_check_priority(priority or definition.priority),
        input=text,
        digest=digest(f"{definition.name}:{text}"),
        key=check_optional_text("key", key),
        delay_ms=0 if delay is None else span_ms(delay, "delay"),
        timeout_ms=definition.timeout_ms,
        actor=check_optional_text("actor", actor),
        correlation_id=check_optional_text("correlation_id", correlation_id),
        thread_id=check_optional_text("thread_id", thread_id),
        subject=check_optional_text("subject", subject),
        tags=tuple(sorted({check_text("tag", tag) for tag in tags or ()})),
        metadata=_metadata_text(metadata),
    )


def pages(asked: Iterable[NewRun | StepfastError]) -> Iterator[list[NewRun | StepfastError]]:
    """New runs, and errors in the place of those that do not fit, in bounded pages and in order."""
    page: list[NewRun | StepfastError] = []
    room = PAGE_BYTES
    for run in asked:
        page.append(run)
        room -= len(run.input) if isinstance(run, NewRun) else 0
        if len(page) == PAGE_RUNS or room <= 0:
            yield page
            page, room = [], PAGE_BYTES
    if page:
        yield page


def _check_priority(priority: object) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > MAX_PRIORITY:
        raise Invalid(f"priority is {priority!r}; use a whole number between -{MAX_PRIORITY:,} and {MAX_PRIORITY:,}.")
    return priority


def _metadata_text(metadata: Mapping[str, Any] | None) -> str | None:
    if metadata is None:
        return None
    try:
        return json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Invalid(f"metadata cannot be stored as JSON: {error}. Give plain values only.") from None
