"""What the answers to a review amount to, and what its run's code gets of them."""

from __future__ import annotations

import json

from stepfast.kernel.blobs import with_value
from stepfast.kernel.durations import Instant
from stepfast.kernel.reviews import GivenVerdict, LockedReview, Verdict

APPROVALS = frozenset({Verdict.CONTINUE, Verdict.CORRECT})


def verdict_of(given: tuple[GivenVerdict, ...], review: LockedReview) -> Verdict | None:
    """What the answers so far amount to; None while more are needed."""
    newest = given[-1].verdict
    if newest is Verdict.RETRY:
        return newest
    if sum(each.verdict is Verdict.REJECT for each in given) >= review.quorum_reject:
        return Verdict.REJECT
    approvals = [each.verdict for each in given if each.verdict in APPROVALS]
    if len(approvals) < review.quorum:
        return None
    return Verdict.CORRECT if Verdict.CORRECT in approvals else Verdict.CONTINUE


def answer_text(
    review: LockedReview,
    verdict: Verdict | None,
    given: tuple[GivenVerdict, ...],
    last: GivenVerdict | None,
    now: Instant,
) -> str:
    """What the run's code is given; the newest correction is the value that counts.

    `last` is the answer that decided; None where it was the deadline, for which nobody who answered before speaks.
    """
    corrections = [each.value for each in given if each.verdict is Verdict.CORRECT]
    answers = [{"actor": each.actor, "verdict": each.verdict, "note": each.note, "at": each.at} for each in given]
    told = {
        "review_id": str(review.review_id),
        "verdict": verdict,
        "actor": last and last.actor,
        "note": last and last.note,
        "at": now,
        "digest": review.digest,
        "answers": answers,
        "corrected": bool(corrections) and verdict is Verdict.CORRECT,
    }
    text = json.dumps(told)
    return with_value(text, corrections[-1] or "null") if told["corrected"] else text
