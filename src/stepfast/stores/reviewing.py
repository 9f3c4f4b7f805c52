"""What commands read and write of reviews, and of inboxes: the same statements for both stores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stepfast.kernel.commands import Change, Request
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event
from stepfast.kernel.ids import RunId
from stepfast.kernel.outside import CALLBACK, CallBack, ExpireCall, LockedCall, message_name
from stepfast.kernel.reviews import (
    Decide,
    GivenVerdict,
    IssuedToken,
    LockedReview,
    NewReview,
    Owner,
    ReviewChange,
    ReviewId,
    ReviewState,
    Verdict,
)
from stepfast.kernel.states import StepState
from stepfast.stores.items import item_writes

Row = Sequence[Any]

REVIEW_MESSAGE = "review"
"""The kind of message that a review's answer reaches the run's code by; its name is the number of the wait."""


class Statement(NamedTuple):
    """A statement of `reviews.sql` or `exceptions.sql`, by name, and its parameters."""

    name: str
    parameters: dict[str, Any]


def review_row(run_id: RunId, generation: int, review: NewReview) -> dict[str, Any]:
    """A new review as parameters, by name; the rest of its row is its run's."""
    return {
        "run_id": run_id,
        "generation": generation,
        **review._asdict(),
        "kind": review.kind.value,
        "verdicts": json.dumps(review.verdicts),
        **review.owner._asdict(),
        "escalate_to": review.escalate_to.assignee,
        "escalate_role": review.escalate_to.role,
    }


def wait_of(request: Request) -> int | None:
    """The number of the review that a command is about, if it is about one."""
    return getattr(request.command, "wait_id", None)


def token_of(request: Request) -> str | None:
    """The hash of the token that a command shows, if it does."""
    command = request.command
    return command.token.hash if isinstance(command, Decide) and command.token is not None else None


def call_of(request: Request) -> dict[str, Any] | None:
    """The parameters of `locked_call` for the call that a command is about, if it is about one."""
    command = request.command
    if not isinstance(command, CallBack | ExpireCall):
        return None
    path, name, nth = command.call
    which = {"run_id": request.run_id, "path": path, "name": name, "count": nth}
    return which | {"kind": CALLBACK, "message": message_name(command.generation, command.call)}


def locked_call(row: Row) -> LockedCall:
    """A row of `locked_call`."""
    state, due_at, is_answered = row
    # What is put off for a next attempt is due then, and has all the time it likes.
    is_outside = state == StepState.WAITING.value
    return LockedCall(None if state is None else StepState(state), due_at if is_outside else None, bool(is_answered))


def takes_several(row: Row) -> bool:
    """Whether a row of `locked_review` is of a review that may have answers while it is open, or is not open."""
    state, quorum, quorum_reject = row[4], row[9], row[10]
    return bool(state != ReviewState.OPEN.value or quorum > 1 or quorum_reject > 1)


def locked_review(row: Row, given: Sequence[Row], token: Row | None) -> LockedReview:
    """Rows of `locked_review`, `given_verdicts` and `issued_token`."""
    run_id, wait_id, generation, step, state, digest, verdicts, assignee, role, quorum, quorum_reject, *rest = row
    expires_ms, on_expiry, escalate_to, escalate_role, escalations, due_at, subject = rest
    return LockedReview(
        ReviewId(RunId(str(run_id)), wait_id),
        generation,
        step,
        ReviewState(state),
        digest,
        tuple(Verdict(each) for each in json.loads(verdicts)),
        Owner(assignee, role),
        quorum,
        quorum_reject,
        expires_ms,
        on_expiry,
        Owner(escalate_to, escalate_role),
        escalations,
        due_at,
        subject,
        tuple(GivenVerdict(actor, Verdict(verdict), *rest) for actor, verdict, *rest in given),
        None if token is None else IssuedToken(*token),
    )


def writes_of(run_id: RunId, actor: str | None, change: Change, now: Instant) -> Iterator[Statement]:
    """What a change writes beside the rows that all commands have in common, in this order."""
    for event in change.owed:
        yield from _put(run_id, owed_message(event), now, wake=False)
    if change.review is not None:
        yield from _review_writes(change.review, actor, now)
    if change.message is not None:
        message = {**change.message._asdict(), "actor": actor, "at": now, "told": True}
        yield from _put(run_id, message, now, wake=True)
    for name, parameters in item_writes(run_id, actor, change, now):
        yield Statement(name, parameters)


def owed_message(event: Event) -> dict[str, Any]:
    """An event that the holder of a run is to tell, as a message."""
    facts = {"value": event.data, "actor": event.actor, "at": event.at}
    return {"kind": str(event.type), "name": event.step or "", "told": False, **facts}


def _put(run_id: RunId, message: dict[str, Any], now: Instant, wake: bool) -> Iterator[Statement]:
    yield Statement("put_message", {"run_id": run_id, **message})
    yield Statement("raise_wakes", {"run_id": run_id, "wake": wake, "now": now})


def _review_writes(change: ReviewChange, actor: str | None, now: Instant) -> Iterator[Statement]:
    run_id, wait_id = change.review_id
    which: dict[str, Any] = {"run_id": run_id, "wait_id": wait_id}
    if change.given is not None:
        given = change.given
        said = {
            "verdict": given.verdict.value,
            "value": given.value,
            "note": given.note,
            "actor": given.actor,
            "now": now,
        }
        yield Statement("add_answer", which | said)
        actor = given.actor
    if change.comment is not None:
        said = {"verdict": None, "value": None, "note": change.comment, "actor": actor, "now": now}
        yield Statement("add_answer", which | said)
    if change.used_token is not None:
        yield Statement("use_token", which | {"hash": change.used_token, "now": now})
    if change.new_token is not None:
        token = change.new_token
        facts = {"hash": token.hash, "actor": token.actor, "expires_at": token.expires_at, "now": now}
        yield Statement("add_token", which | facts)
    if change.owner is not None:
        yield Statement("pass_review", which | change.owner._asdict())
    if change.escalations is not None:
        yield Statement("escalate_review", which | {"due_at": change.due_at, "escalations": change.escalations})
        yield Statement("move_wait", which | {"due_at": change.due_at})
        yield Statement("move_task", {"run_id": run_id})
    if change.state is not ReviewState.OPEN:
        verdict = None if change.verdict is None else change.verdict.value
        end = {"state": change.state.value, "verdict": verdict, "actor": actor, "now": now}
        yield Statement("end_review", which | end)
    if change.answer is not None:
        answer = {"value": change.answer, "actor": actor, "at": now, "told": True}
        message = {"kind": REVIEW_MESSAGE, "name": str(wait_id), **answer}
        yield from _put(run_id, message, now, wake=True)
