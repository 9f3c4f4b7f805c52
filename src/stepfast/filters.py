"""Filters of lists as people give them."""

from __future__ import annotations

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import RunId, parse_run_id
from stepfast.kernel.states import RunState
from stepfast.kernel.views import LetterFilter, RunFilter


def run_filter(
    *,
    workflow: str | None = None,
    version: int | None = None,
    state: str | None = None,
    queue: str | None = None,
    tenant: str | None = None,
    actor: str | None = None,
    correlation_id: str | None = None,
    subject: str | None = None,
    thread_id: str | None = None,
    tag: str | None = None,
    queued_after: int | None = None,
    updated_after: int | None = None,
) -> RunFilter:
    """Which runs are meant."""
    return RunFilter(
        tenant=tenant,
        workflow=workflow,
        version=version,
        state=None if state is None else _state(state),
        queue=queue,
        actor=actor,
        correlation_id=correlation_id,
        subject=subject,
        thread_id=thread_id,
        tag=tag,
        queued_after=_moment(queued_after),
        updated_after=_moment(updated_after),
    )


def letter_filter(
    *,
    workflow: str | None = None,
    step: str | None = None,
    error_type: str | None = None,
    tenant: str | None = None,
    recorded_after: int | None = None,
) -> LetterFilter:
    """Which dead letters are meant."""
    return LetterFilter(tenant, workflow, step, error_type, recorded_after=_moment(recorded_after))


def place(cursor: str | None) -> RunId | None:
    """The run that the page before ended with."""
    return None if cursor is None else parse_run_id(cursor)


def _moment(at: int | None) -> Instant | None:
    return None if at is None else Instant(at)


def _state(text: str) -> RunState:
    try:
        return RunState(text)
    except ValueError:
        raise Invalid(f"state is {text!r}; allowed are {', '.join(RunState)}.") from None
