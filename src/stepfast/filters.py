"""Filters of lists as people give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, NotFound
from stepfast.kernel.ids import RunId, parse_run_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.states import RunState
from stepfast.kernel.texts import check_optional_text, check_text, shown
from stepfast.kernel.views import LetterFilter, RunFilter
from stepfast.workflows.functions import MAX_VERSION


class Filters(TypedDict, total=False):
    """Which runs of a workflow a list or a command is for; what is left out, or None, does not matter."""

    version: int | None
    state: str | None
    queue: str | None
    tenant: str | None
    actor: str | None
    correlation_id: str | None
    subject: str | None
    thread_id: str | None
    tag: str | None
    queued_after: int | None
    updated_after: int | None


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "version": lambda name, given: check_whole(name, given, 1, MAX_VERSION),
    "state": lambda name, given: _state(given),
    "queued_after": lambda name, given: check_whole(name, given, 0),
    "updated_after": lambda name, given: check_whole(name, given, 0),
}


def run_filter(given: object) -> RunFilter:
    """Filters of runs by name, each checked."""
    if not isinstance(given, Mapping):
        raise Invalid(
            f'The filters are {shown(given)}; give a dict, like {{"workflow": "checkout", "state": "failed"}}.'
        )
    known = ("workflow", *Filters.__annotations__)
    for name in given:
        if name not in known:
            raise Invalid(f"There is no filter {shown(name)}; there are {', '.join(known)}.")
    return RunFilter(**{name: _checked(name, value) for name, value in given.items() if value is not None})


def _checked(name: str, value: object) -> Any:
    return _CHECKS.get(name, check_text)(name, value)


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
    try:
        return None if cursor is None else parse_run_id(cursor)
    except NotFound:
        raise Invalid(f"cursor is {shown(cursor)}; give the one that the page before ended with.") from None


def page_size(limit: object) -> int:
    """How many a page may hold."""
    return check_whole("limit", limit, 1)


def _moment(name: str, at: object) -> Instant | None:
    return None if at is None else Instant(check_whole(name, at, 0))


def _state(text: str) -> RunState:
    try:
        return RunState(text)
    except ValueError:
        raise Invalid(f"state is {shown(text)}; allowed are {', '.join(RunState)}.") from None
