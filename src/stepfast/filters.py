"""Filters of lists as people give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict

from stepfast.kernel.durations import Instant, check_instant
from stepfast.kernel.errors import Invalid, NotFound
from stepfast.kernel.ids import RunId, parse_run_id
from stepfast.kernel.items import ItemFilter, ItemId, parse_item_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.review_views import FiguresFilter, ReviewFilter
from stepfast.kernel.reviews import ItemKind, ReviewId, ReviewState, parse_review_id
from stepfast.kernel.states import RunState
from stepfast.kernel.texts import check_optional_text, check_text, check_texts, shown
from stepfast.kernel.trail import HIGHEST, EventFilter
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
    queued_after: datetime | int | None
    updated_after: datetime | int | None


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "version": lambda name, given: check_whole(name, given, 1, MAX_VERSION),
    "state": lambda name, given: _state(given),
    "workflow": lambda name, given: check_text(name, _name_of(given)),
    "queued_after": lambda name, given: _moment(name, given),
    "updated_after": lambda name, given: _moment(name, given),
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


def _name_of(workflow: Any) -> Any:
    """The name of a workflow, whether it is given by that or as what is started."""
    return getattr(getattr(workflow, "workflow", workflow), "name", workflow)


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
        error_type=check_optional_text("error_type", error_type),
        recorded_after=_moment("recorded_after", recorded_after),
        **step_filter(step),
    )


def review_filter(
    tenant: str | None,
    workflow: str | None,
    state: str | None,
    role: str | None,
    assignee: str | None,
    run_id: str | None,
    opened_after: int | None,
) -> ReviewFilter:
    """Which reviews are meant."""
    return ReviewFilter(
        check_optional_text("tenant", tenant),
        check_optional_text("workflow", workflow),
        _review_state(state),
        check_optional_text("role", role),
        check_optional_text("assignee", assignee),
        None if run_id is None else parse_run_id(run_id),
        _moment("opened_after", opened_after),
    )


def figures_filter(
    tenant: str | None, workflow: str | None, role: str | None, after: int | None, before: int | None
) -> FiguresFilter:
    """Which reviews figures are over."""
    names = check_optional_text("workflow", workflow), check_optional_text("role", role)
    return FiguresFilter(
        check_optional_text("tenant", tenant), *names, _moment("after", after), _moment("before", before)
    )


class StepFilter(TypedDict, total=False):
    """Which step is meant, by one of the two."""

    step: str
    """An address."""
    step_name: str


def step_filter(step: str | None) -> StepFilter:
    """A step by its address, like `charge#1`, or every call of it by its name."""
    wanted = check_optional_text("step", step)
    if wanted is None:
        return {}
    return {"step": wanted} if "#" in wanted else {"step_name": wanted}


def event_filter(
    tenant: str | None,
    run_id: str | None,
    type: str | Iterable[str] | None,
    step: str | None,
    actor: str | None,
    correlation_id: str | None,
    since: datetime | int | None,
    until: datetime | int | None,
) -> EventFilter:
    """Which events of the trail are meant."""
    types = (type,) if isinstance(type, str) else type
    return EventFilter(
        tenant=check_optional_text("tenant", tenant),
        run_id=None if run_id is None else parse_run_id(run_id),
        types=() if types is None else check_texts("type", [*types]),
        actor=check_optional_text("actor", actor),
        correlation_id=check_optional_text("correlation_id", correlation_id),
        since=_moment("since", since),
        until=_moment("until", until),
        **step_filter(step),
    )


def trail_place(cursor: int | None) -> int | None:
    """The position that the page before ended with."""
    return None if cursor is None else check_whole("cursor", cursor, 0, HIGHEST)


def review_place(cursor: str | None) -> ReviewId | None:
    """The review that the page before ended with."""
    try:
        return None if cursor is None else parse_review_id(cursor)
    except NotFound:
        raise Invalid(f"cursor is {shown(cursor)}; give the one that the page before ended with.") from None


def _review_state(text: str | None) -> ReviewState | None:
    try:
        return None if text is None else ReviewState(text)
    except ValueError:
        raise Invalid(f"state is {shown(text)}; allowed are {', '.join(ReviewState)}.") from None


def item_filter(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    workflow: str | None = None,
    assignee: str | None = None,
    run_id: str | None = None,
    opened_after: int | None = None,
) -> ItemFilter:
    """Which exception items are meant."""
    return ItemFilter(
        check_optional_text("tenant", tenant),
        _item_kind(kind),
        check_optional_text("workflow", workflow),
        check_optional_text("assignee", assignee),
        None if run_id is None else parse_run_id(run_id),
        opened_after=_moment("opened_after", opened_after),
    )


def item_place(cursor: str | None) -> ItemId | None:
    """The exception item that the page before ended with."""
    try:
        return None if cursor is None else parse_item_id(cursor)
    except NotFound:
        raise Invalid(f"cursor is {shown(cursor)}; give the one that the page before ended with.") from None


def _item_kind(text: str | None) -> ItemKind | None:
    try:
        return None if text is None else ItemKind(text)
    except ValueError:
        raise Invalid(f"kind is {shown(text)}; allowed are {', '.join(ItemKind)}.") from None


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
    """A moment as a datetime, or in milliseconds."""
    if at is None or isinstance(at, int):
        return None if at is None else Instant(check_whole(name, at, 0))
    return check_instant(name, at)


def _state(text: str) -> RunState:
    try:
        return RunState(text)
    except ValueError:
        raise Invalid(f"state is {shown(text)}; allowed are {', '.join(RunState)}.") from None
