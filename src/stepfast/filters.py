"""Filters of lists as people give them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import RunId, parse_run_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.states import RunState
from stepfast.kernel.texts import check_optional_text, shown
from stepfast.kernel.views import LetterFilter, RunFilter
from stepfast.workflows.functions import MAX_VERSION


def check_filters(where: object) -> Mapping[str, Any]:
    """Filters of runs by name, as they come in a dict."""
    if not isinstance(where, Mapping):
        raise Invalid(
            f'The filters are {shown(where)}; give a dict, like {{"workflow": "checkout", "state": "failed"}}.'
        )
    known = inspect.signature(run_filter).parameters
    for name in where:
        if name not in known:
            raise Invalid(f"There is no filter {shown(name)}; there are {', '.join(known)}.")
    return where


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
        tenant=check_optional_text("tenant", tenant),
        workflow=check_optional_text("workflow", workflow),
        version=_version(version),
        state=None if state is None else _state(state),
        queue=check_optional_text("queue", queue),
        actor=check_optional_text("actor", actor),
        correlation_id=check_optional_text("correlation_id", correlation_id),
        subject=check_optional_text("subject", subject),
        thread_id=check_optional_text("thread_id", thread_id),
        tag=check_optional_text("tag", tag),
        queued_after=_moment("queued_after", queued_after),
        updated_after=_moment("updated_after", updated_after),
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
    return LetterFilter(
        check_optional_text("tenant", tenant),
        check_optional_text("workflow", workflow),
        check_optional_text("step", step),
        check_optional_text("error_type", error_type),
        recorded_after=_moment("recorded_after", recorded_after),
    )


def place(cursor: str | None) -> RunId | None:
    """The run that the page before ended with."""
    return None if cursor is None else parse_run_id(cursor)


def page_size(limit: object) -> int:
    """How many a page may hold."""
    return check_whole("limit", limit, 1)


def _moment(name: str, at: object) -> Instant | None:
    return None if at is None else Instant(check_whole(name, at, 0))


def _version(version: object) -> int | None:
    return None if version is None else check_whole("version", version, 1, MAX_VERSION)


def _state(text: str) -> RunState:
    try:
        return RunState(text)
    except ValueError:
        raise Invalid(f"state is {shown(text)}; allowed are {', '.join(RunState)}.") from None
