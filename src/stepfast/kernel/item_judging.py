"""What a command means for an exception item; items of reviews and of dead letters end with what they stand for."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from typing import Any, assert_never

from stepfast.kernel.commands import Change, LockedRun, Request, telling
from stepfast.kernel.decisions import CallId
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, NotFound
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.items import (
    AssignItem,
    CommentItem,
    ItemChange,
    ItemCommand,
    ItemId,
    LockedItem,
    ResolveItem,
    failed_cause,
    is_step_cause,
    review_number,
    step_cause,
)
from stepfast.kernel.judging import judge
from stepfast.kernel.plan_rules import BORNE
from stepfast.kernel.replay import way_back
from stepfast.kernel.reviews import ANYBODY, Assign, Comment, ItemKind, LockedReview, Owner


def judge_item(run: LockedRun, request: Request, command: ItemCommand, now: Instant) -> Change:
    """The change that a command makes of an item."""
    item = run.item
    if item is None:
        raise NotFound(
            f"Run {run.run_id} has no exception item {command.cause}. List them with `stepfast exceptions list`."
        )
    if run.review is not None and not isinstance(command, ResolveItem):
        return _of_review(run, run.review, request, command, now)
    match command:
        case AssignItem(_, assignee):
            return assign(run, item, request, assignee, now)
        case CommentItem(_, text):
            told = item_event(EventType.EXCEPTION_COMMENTED, item, request, now)
            return telling(run, (told,))._replace(item=ItemChange(item.cause, comment=text))
        case ResolveItem():
            return resolve(run, item, request, now)
        case _:
            assert_never(command)


def assign(run: LockedRun, item: LockedItem, request: Request, assignee: str | None, now: Instant) -> Change:
    """Somebody sees to it from now on, or nobody in particular."""
    _check_open(run, item)
    told = item_event(EventType.EXCEPTION_ASSIGNED, item, request, now, assignee=assignee)
    return telling(run, (told,))._replace(item=ItemChange(item.cause, assigned=(assignee,)))


def resolve(run: LockedRun, item: LockedItem, request: Request, now: Instant) -> Change:
    """A failure is put aside with its dead letter; what has a better end is refused with the name of that."""
    _check_open(run, item)
    number = review_number(item.cause)
    if number is not None:
        review_id = f"{run.run_id}.{number}"
        raise IllegalMove(
            f"{_name(run, item)} stands for a review and ends with it. "
            f"Answer that with `stepfast reviews decide {review_id} VERDICT`."
        )
    if item.kind is ItemKind.BLOCKED:
        raise IllegalMove(
            f"{_name(run, item)} stands for a run that waits for code which fits. Deploy that; "
            f"`stepfast runs retry {run.run_id}` has it look again. Or call the run off with "
            f"`stepfast runs cancel {run.run_id}`. If no code fits any more, {way_back(run.run_id)}."
        )
    if is_step_cause(item.cause):
        told = item_event(EventType.EXCEPTION_RESOLVED, item, request, now, resolution=DISCARDED)
        return telling(run, (told,))._replace(item=ItemChange(item.cause, resolution=DISCARDED))
    return discard(run, request, now)


DISCARDED = "discarded"


def steps_resolved(run: LockedRun, calls: AbstractSet[CallId], request: Request, now: Instant) -> tuple[Event, ...]:
    """The items of failures that a run has borne are resolved when their steps are done again, or given up on."""
    borne = [mark for mark in run.steps if mark.kind == BORNE and mark.call in calls]
    items = [LockedItem(step_cause(mark.seq), ItemKind.FAILED, mark.call.address, None) for mark in borne]
    return tuple(item_event(EventType.EXCEPTION_RESOLVED, item, request, now, resolution="replayed") for item in items)


def discard(run: LockedRun, request: Request, now: Instant) -> Change:
    """The run stays failed, and is out of the list of dead letters."""
    if not run.has_letter:
        raise IllegalMove(
            f"Run {run.run_id} is {run.state} and no open dead letter. List those with `stepfast dead-letters list`."
        )
    why = None if request.reason is None else json.dumps({"reason": request.reason})
    events = (
        letter_resolved(run, request, DISCARDED, now),
        Event(EventType.DLQ_DISCARDED, now, actor=request.actor, data=why),
    )
    return Change(run.state, events, resolution=DISCARDED)


def letter_resolved(run: LockedRun, request: Request, resolution: str, now: Instant) -> Event:
    """The item of a run's dead letter is resolved, as somebody has seen to the letter."""
    item = LockedItem(failed_cause(run.generation), ItemKind.FAILED, None, None)
    return item_event(EventType.EXCEPTION_RESOLVED, item, request, now, resolution=resolution)


def _of_review(
    run: LockedRun, review: LockedReview, request: Request, command: AssignItem | CommentItem, now: Instant
) -> Change:
    """Who is to answer and what is said is kept with the review; its role stays, for when nobody is named any more."""
    wait_id = review.review_id.wait_id
    match command:
        case AssignItem(_, assignee):
            owner = Owner(assignee, review.owner.role)
            if owner == ANYBODY and review.owner != ANYBODY:
                raise IllegalMove(
                    f"Review {review.review_id} is for {review.owner.assignee} alone: without a name anybody could "
                    f"answer it. Name somebody else, or ask a role with `app.reviews.reassign`."
                )
            return judge(run, request, Assign(wait_id, owner), now)
        case CommentItem(_, text):
            return judge(run, request, Comment(wait_id, text), now)
        case _:
            assert_never(command)


def _check_open(run: LockedRun, item: LockedItem) -> None:
    if item.resolution is not None:
        raise IllegalMove(
            f"{_name(run, item)} is {item.resolution}, so it stays as it is. "
            f"See it with `stepfast exceptions show {ItemId(run.run_id, item.cause)}`."
        )


def _name(run: LockedRun, item: LockedItem) -> str:
    return f"Exception item {ItemId(run.run_id, item.cause)}"


def item_event(event_type: EventType, item: LockedItem, request: Request, now: Instant, **data: Any) -> Event:
    told = {"cause": item.cause, "kind": item.kind, **data, "reason": request.reason}
    text = json.dumps({name: value for name, value in told.items() if value is not None})
    return Event(event_type, now, item.step, actor=request.actor, data=text)
