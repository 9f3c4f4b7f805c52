"""The checker of reviews finds each broken promise in evidence made by hand, and nothing in good evidence."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from stepfast.kernel.ids import RunId
from stepfast.kernel.reviews import ReviewId
from stepfast.tokens import fresh_keys, new_token
from tests.support.review_promises import (
    ACCEPTED,
    Attempt,
    Evidence,
    Got,
    Letter,
    Past,
    Seen,
    Told,
    broken_review_promises,
    places_with_secrets,
)

ANN, BOB = Letter("r.1", "ann", "t1"), Letter("r.1", "bob", "t2")
TOLD = (
    Told(1, "review_requested", {}),
    Told(2, "resume_submitted", {"review_id": "r.1", "outcome": ACCEPTED}),
    Told(3, "review_decided", {"review_id": "r.1"}),
    Told(4, "completed", {}),
    Told(5, "resume_submitted", {"review_id": "r.1", "outcome": "E-REV-003"}),
)
ATTEMPTS = (Attempt(ANN, "continue", ACCEPTED), Attempt(BOB, "reject", "E-REV-003"), Attempt(BOB, "reject", None))
REVIEW = Seen("r.1", "r", "decided", "continue", (("ann", "continue"),), False)
RUN = Past("r", "completed", TOLD)
GOOD = Evidence(ATTEMPTS, [Got("r.1", "continue", "ann")], [REVIEW], [RUN])
CANCELLED = RUN._replace(state="cancelled", told=(Told(1, "review_requested", {}), Told(2, "cancelled", {})))
WITHDRAWN = REVIEW._replace(state="withdrawn", verdict=None, answers=())


def with_review(**changes: Any) -> Evidence:
    return GOOD._replace(reviews=[REVIEW._replace(**changes)])


def told(*events: Told) -> Evidence:
    return GOOD._replace(runs=[RUN._replace(told=events)])


def cancelled(*events: Told, **changes: Any) -> Evidence:
    run = CANCELLED._replace(told=(*CANCELLED.told, *events))
    return Evidence([], [], [WITHDRAWN._replace(**changes)], [run])


def test_good_evidence_breaks_no_promise():
    assert broken_review_promises(GOOD) == []


def test_a_token_that_is_refused_after_the_cancel_breaks_no_promise():
    late = Told(3, "resume_submitted", {"review_id": "r.1", "outcome": "E-REV-003"})
    assert broken_review_promises(cancelled(late)) == []


BAD = {
    "a token that works twice": ("P13", GOOD._replace(attempts=[*ATTEMPTS, ATTEMPTS[0]])),
    "an accepted answer that is lost": ("P1", with_review(answers=())),
    "an answer that was refused and counts": ("P13", with_review(answers=(("ann", "continue"), ("bob", "continue")))),
    "an attempt that nobody is told of": ("P13", told(*TOLD[:4])),
    "two ends": ("P13", told(*TOLD, TOLD[2]._replace(seq=6))),
    "an end that is not told": ("P13", told(*TOLD[:2], TOLD[4]._replace(seq=3))),
    "an end of another kind": ("P13", with_review(state="expired")),
    "a review that was told of and does not exist": ("P13", GOOD._replace(reviews=[])),
    "a decided review that is in the exception queue": ("P13", with_review(is_listed=True)),
    "a complaint of the engine's own check": ("P13", GOOD._replace(endless=["r.1"])),
    "code that got another answer": ("P12", GOOD._replace(got=[Got("r.1", "reject", "bob")])),
    "a review that is open after the cancel": ("P14", cancelled(state="open", is_listed=True)),
    "an answer after the cancel": ("P14", cancelled(Told(3, "review_decided", {"review_id": "r.1"}))),
    "a token that works after the cancel": ("P14", cancelled(Told(3, "resume_submitted", {"outcome": ACCEPTED}))),
    "a claim after the cancel": ("P14", cancelled(Told(3, "claimed", {}))),
    "a cancel that was answered and did not happen": ("P14", GOOD._replace(cancelled=["r"])),
    "a gap in the history": ("P16", told(*TOLD[:4], TOLD[4]._replace(seq=6))),
}


@pytest.mark.parametrize(("promise", "evidence"), BAD.values(), ids=BAD)
def test_a_broken_promise_is_found(promise, evidence):
    assert promise in {broken.partition(":")[0] for broken in broken_review_promises(evidence)}


TOKEN, HASH = new_token(ReviewId(RunId("0198f0a0-0000-7000-8000-000000000001"), 1), fresh_keys()[0])
SECRET = base64.urlsafe_b64decode(TOKEN.removeprefix("sfr_") + "=" * (-len(TOKEN.removeprefix("sfr_")) % 4))[-32:]
LEAKS = {
    "whole": TOKEN.encode(),
    "without its beginning": TOKEN[-40:].encode(),
    "as bytes": SECRET,
    "in hexadecimal": SECRET.hex().encode(),
    "in base64": base64.b64encode(SECRET),
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
def test_a_token_is_found_however_it_is_written(leak):
    assert places_with_secrets([TOKEN], {"the log": b"before " + leak + b" after"}) == ["P23: a secret is in the log."]


def test_the_hash_of_a_token_is_no_secret():
    assert places_with_secrets([TOKEN], {"the table": HASH.encode()}) == []
