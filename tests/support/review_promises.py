"""A checker for reviews: what people were told, what the code got and what is stored, held against each other.

What breaks a promise is a sentence that begins with its number.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from stepfast import Stepfast
from stepfast.kernel.states import ENDED
from stepfast.tokens import PREFIX, RANDOM_BYTES

ACCEPTED = "accepted"
ENDINGS = {"review_decided": "decided", "review_expired": "expired"}
AFTER_A_CANCEL = frozenset({"resume_submitted", "exception_commented", "review_commented"})


class Letter(NamedTuple):
    """A token on its way to a person: known to that person, and to nobody else."""

    review_id: str
    actor: str
    token: str


class Attempt(NamedTuple):
    """Somebody showed a token: `accepted`, the code of the refusal, or None when nobody heard the answer."""

    letter: Letter
    verdict: str
    outcome: str | None


class Got(NamedTuple):
    """What the code of a run was given as the answer to a review."""

    review_id: str
    verdict: str
    actor: str | None


class Seen(NamedTuple):
    """A review as it is stored."""

    review_id: str
    run_id: str
    state: str
    verdict: str | None
    answers: tuple[tuple[str | None, str], ...]
    is_listed: bool
    """Whether the exception queue has it among what is open."""


class Told(NamedTuple):
    """An event of a run."""

    seq: int
    type: str
    data: dict[str, Any]


class Past(NamedTuple):
    """A run as it is stored."""

    run_id: str
    state: str
    told: tuple[Told, ...]


class Evidence(NamedTuple):
    """All that is known of a trial."""

    attempts: Sequence[Attempt]
    got: Sequence[Got]
    reviews: Sequence[Seen]
    runs: Sequence[Past]
    endless: Sequence[str] = ()
    """What the engine's own check complains of."""
    cancelled: Sequence[str] = ()
    """Runs of which somebody was told that they are cancelled."""


async def evidence_of(app: Stepfast, attempts: Sequence[Attempt], got: Sequence[Got]) -> Evidence:
    """What an app shows of all its runs and reviews, beside what people and code were told."""
    listed = {item.review_id for item in await app.exceptions.list(limit=1_000)}
    views = await app.reviews.list(state=None, limit=1_000)
    whole = [await app.reviews.get(view.review_id) for view in views]
    reviews = [
        Seen(
            review.review_id,
            review.run_id,
            review.state,
            review.verdict,
            tuple((answer.actor, answer.verdict) for answer in review.answers),
            review.review_id in listed,
        )
        for review in whole
    ]
    runs = [Past(view.run_id, view.state, await _history(app, view.run_id)) for view in await app.runs(limit=1_000)]
    endless = [str(culprit) for culprit in await app.reviews.check()]
    return Evidence(attempts, got, reviews, runs, endless)


async def _history(app: Stepfast, run_id: str) -> tuple[Told, ...]:
    events = await app.get(run_id).history()
    return tuple(Told(event.seq, event.type, json.loads(event.data or "{}")) for event in events)


def broken_review_promises(evidence: Evidence) -> list[str]:
    """Every promise that is broken, with what breaks it."""
    return [broken for check in CHECKS for broken in check(evidence)]


def one_use_per_token(evidence: Evidence) -> Iterator[str]:
    """A token works at most once."""
    for letter, times in Counter(each.letter for each in evidence.attempts if each.outcome == ACCEPTED).items():
        if times > 1:
            yield f"P13: a token of {letter.actor} for {letter.review_id} was accepted {times} times."
    answered: Counter[tuple[str, str | None]] = Counter(
        (seen.review_id, actor) for seen in evidence.reviews for actor, _ in seen.answers
    )
    tokens = {each.letter for each in evidence.attempts}
    for bearer, issued in Counter((letter.review_id, letter.actor) for letter in tokens).items():
        if answered[bearer] > issued:
            yield f"P13: {bearer} has {answered[bearer]} answers by {issued} tokens."


def accepted_is_stored(evidence: Evidence) -> Iterator[str]:
    """What somebody was told is accepted counts, and what was refused does not."""
    stored = {seen.review_id: Counter(seen.answers) for seen in evidence.reviews}
    heard: Counter[tuple[str, str | None, str, str | None]] = Counter(
        (each.letter.review_id, each.letter.actor, each.verdict, each.outcome) for each in evidence.attempts
    )
    for (review_id, actor, verdict, outcome), times in heard.items():
        if outcome == ACCEPTED and stored.get(review_id, Counter())[actor, verdict] < times:
            yield f"P1: {actor} was told that {verdict!r} to {review_id} counts, and it is not stored."
    for seen in evidence.reviews:
        for actor, verdict in seen.answers:
            if not any(heard[seen.review_id, actor, verdict, outcome] for outcome in (ACCEPTED, None)):
                yield f"P13: {actor} has answered {seen.review_id} with {verdict!r}, which was refused or never said."


def attempts_are_told(evidence: Evidence) -> Iterator[str]:
    """Whoever shows a token is heard of in the history, with the outcome."""
    told: Counter[tuple[str, str | None]] = Counter(
        (event.data.get("review_id", ""), event.data["outcome"])
        for run in evidence.runs
        for event in run.told
        if event.type == "resume_submitted"
    )
    heard = Counter((each.letter.review_id, each.outcome) for each in evidence.attempts if each.outcome is not None)
    for (review_id, outcome), times in heard.items():
        if told[review_id, outcome] < times:
            yield f"P13: {times} attempts on {review_id} came to {outcome}; told were {told[review_id, outcome]}."


def one_end_per_review(evidence: Evidence) -> Iterator[str]:
    """Each review has one end: by verdict, by time, or because nobody waits any more; its row and its events agree."""
    ends = Counter(
        (event.data["review_id"], ENDINGS[event.type])
        for run in evidence.runs
        for event in run.told
        if event.type in ENDINGS
    )
    for seen in evidence.reviews:
        found = {state: ends[seen.review_id, state] for state in ENDINGS.values()}
        expected = {state: int(seen.state == state) for state in ENDINGS.values()}
        if found != expected:
            yield f"P13: review {seen.review_id} is {seen.state}, and its history has {found}."
    yield from (f"P13: the check of ends complains of {culprit}." for culprit in evidence.endless)


def reviews_end_with_their_runs(evidence: Evidence) -> Iterator[str]:
    """Nobody is asked for a run that has ended, and the exception queue lists what is open and nothing else."""
    states = {run.run_id: run.state for run in evidence.runs}
    for seen in evidence.reviews:
        if seen.state == "open" and states[seen.run_id] in ENDED:
            yield f"P14: review {seen.review_id} is open, and its run is {states[seen.run_id]}."
        if seen.is_listed != (seen.state == "open"):
            yield f"P13: review {seen.review_id} is {seen.state}, and in the exception queue: {seen.is_listed}."


def what_was_asked_is_there(evidence: Evidence) -> Iterator[str]:
    """A run that tells of a review has one: otherwise it waits for an answer that nobody can give."""
    stored = Counter(seen.run_id for seen in evidence.reviews)
    for run in evidence.runs:
        told = sum(event.type == "review_requested" for event in run.told)
        if told != stored[run.run_id]:
            yield f"P13: run {run.run_id} tells of {told} reviews, and there are {stored[run.run_id]}."


def code_got_what_is_stored(evidence: Evidence) -> Iterator[str]:
    """The answer that the code has is the one that ended the review."""
    stored = {seen.review_id: seen for seen in evidence.reviews}
    for got in evidence.got:
        seen = stored.get(got.review_id)
        if seen is None or seen.verdict != got.verdict or (got.actor, got.verdict) not in seen.answers:
            yield f"P12: the code got {got}, and stored is {seen}."


def nothing_after_a_cancel(evidence: Evidence) -> Iterator[str]:
    """A cancelled run stays as it is; it may be told that somebody tried, in vain."""
    for run in evidence.runs:
        types = [event.type for event in run.told]
        if run.state != "cancelled":
            continue
        for event in run.told[types.index("cancelled") + 1 :]:
            if event.type not in AFTER_A_CANCEL or event.data.get("outcome") == ACCEPTED:
                yield f"P14: {event.type} {event.data} came after the cancel of {run.run_id}."


def cancelled_stays_cancelled(evidence: Evidence) -> Iterator[str]:
    states = {run.run_id: run.state for run in evidence.runs}
    for run_id in evidence.cancelled:
        if states[run_id] != "cancelled":
            yield f"P14: somebody was told that {run_id} is cancelled, and it is {states[run_id]}."


def histories_without_gaps(evidence: Evidence) -> Iterator[str]:
    for run in evidence.runs:
        if [event.seq for event in run.told] != list(range(1, len(run.told) + 1)):
            yield f"P16: the history of {run.run_id} has gaps: {[event.seq for event in run.told]}."


CHECKS: Sequence[Callable[[Evidence], Iterable[str]]] = (
    one_use_per_token,
    accepted_is_stored,
    attempts_are_told,
    one_end_per_review,
    reviews_end_with_their_runs,
    what_was_asked_is_there,
    code_got_what_is_stored,
    nothing_after_a_cancel,
    cancelled_stays_cancelled,
    histories_without_gaps,
)


def forms_of(token: str) -> list[bytes]:
    """How a token, or the part of it that nobody may know, could be written down."""
    body = token.removeprefix(PREFIX)
    secret = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))[-RANDOM_BYTES:]
    # The last letters of the text hold nothing but the secret part.
    tail = body[-(RANDOM_BYTES - 2) * 4 // 3 :]
    return [token.encode(), tail.encode(), secret, secret.hex().encode(), base64.b64encode(secret).rstrip(b"=")]


def places_with_secrets(tokens: Iterable[str], places: dict[str, bytes], *others: bytes) -> list[str]:
    """Where a token, or another secret, can be read that should be in its place alone."""
    forms = [*others, *(form for token in tokens for form in forms_of(token))]
    return [
        f"P23: a secret is in {place}." for place, content in places.items() if any(form in content for form in forms)
    ]
