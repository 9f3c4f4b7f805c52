"""Reviews of a run's code: a question that is opened once, and the wait for a person's answer to it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, NamedTuple

from stepfast.kernel import rules
from stepfast.kernel.commands import Request
from stepfast.kernel.decisions import Decision, Message, OpenWait, Record, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Rejected, StepfastError, WaitTimeout
from stepfast.kernel.reviews import Expire, ItemKind, NewReview, Owner, ReviewId, Verdict
from stepfast.kernel.states import StepState, WaitKind
from stepfast.workflows.calls import Asked
from stepfast.workflows.codec import ValueCodec, digest
from stepfast.workflows.wait_calls import WaitCall

REVIEW = "review"
"""The kind of message that brings an answer; its name is the number of the wait."""


class Question(NamedTuple):
    """What a person is asked, as the code says it; `shown` is JSON."""

    title: str
    shown: str
    kind: ItemKind
    verdicts: tuple[Verdict, ...]
    schema: str | None
    owner: Owner
    quorum: int
    quorum_reject: int
    expires_ms: int | None
    on_expiry: str
    escalate_to: Owner

    def opened_by(self, asked: Asked) -> tuple[Wait, NewReview]:
        """The wait and the review that a call opens; both have the number of its record."""
        wait = Wait(0, WaitKind.REVIEW, self.title, asked.call, self.expires_ms)
        facts = {**self._asdict(), "wait_id": 0, "step": asked.call.address, "digest": digest(self.shown)}
        return wait, NewReview(**facts)


class AskedReview(NamedTuple):
    """A review that was opened: its question, and the number of its wait."""

    question: Question
    review_id: ReviewId


class AskCall:
    """Opens a review; its record is its end, and its number that of the wait which stays open until it is answered."""

    kind = name = "ask"

    def __init__(self, question: Question) -> None:
        self._question = question
        # What is shown is the code's own, and may be large: its digest will do to tell whether it is the same.
        self.input = self.counted = json.dumps({"title": question.title, "digest": digest(question.shown)})
        self._opened: AskedReview | None = None

    def counted_of(self, stored: str) -> str:
        return stored

    def value_of(self, text: str) -> AskedReview:
        assert self._opened is not None
        return self._opened

    def recalled(self, asked: Asked, record: Record) -> None:
        self._opened = AskedReview(self._question, ReviewId(asked.context.run.run_id, record.seq))

    def begin(self, asked: Asked, record: Record | None) -> None:
        context = asked.context
        opened = asked.new_record(StepState.COMPLETED, 1, context.host.clock.now(), value="null")
        decision = rules.open_review(context.run, opened, *self._question.opened_by(asked))
        context.busy.add(asked.call)
        context.save(decision, partial(self._saved, asked, opened, decision))

    def _saved(self, asked: Asked, record: Record, decision: Decision, refused: BaseException | None) -> None:
        (wait,) = decision.opened
        due_at = None if wait.due_in_ms is None else Instant(asked.context.host.clock.now() + wait.due_in_ms)
        asked.context.mailbox.open(OpenWait(wait.wait_id, wait.kind, wait.name, due_at, 1, 0, 1, 0, 0))
        opened = AskedReview(self._question, ReviewId(asked.context.run.run_id, wait.wait_id))
        asked.context.ended(asked, record.ended_at, opened, None, refused)

    def call_off(self, asked: Asked) -> None:
        """It is on its way; a review that nobody waits for is withdrawn with the end of its run."""

    def abandon(self, asked: Asked, record: Record) -> None:
        """As when it is called off."""

    def drop(self) -> None:
        """Nothing runs that could be stopped."""


class ReviewCall(WaitCall):
    """Waits for the answer to a review that was opened before.

    A run that is retried has new waits: the question is opened anew then, by this call itself.
    """

    wait_kind = WaitKind.REVIEW
    kind = name = REVIEW

    def __init__(self, opened: AskedReview, codec: ValueCodec) -> None:
        text = json.dumps({"title": opened.question.title, "digest": digest(opened.question.shown)})
        super().__init__(opened.question.title, text, opened.question.expires_ms)
        self._review = opened
        self._codec = codec
        self._is_own = False

    def begin(self, asked: Asked, record: Record | None) -> None:
        wait = asked.context.mailbox.wait(self._review.review_id.wait_id)
        if record is not None or wait is None:
            self._is_own = True
            super().begin(asked, record)
            return
        self._asked, self._opened_as, self._started_at = asked, asked.call, asked.context.host.clock.now()
        self._is_stored = True
        self.await_(wait)

    def open(self) -> None:
        context, asked = self.asked.context, self.asked
        record = asked.new_record(StepState.WAITING, 1, self._started_at)
        decision = rules.open_review(context.run, record, *self._review.question.opened_by(asked))
        context.busy.add(asked.call)
        context.save(decision, partial(self._opened, decision))

    def value_of(self, text: str) -> Any:
        answer = json.loads(text)
        shown = self._codec.decode(self._review.question.shown) if not answer["corrected"] else None
        value = self._codec.decode(json.dumps(answer["value"])) if answer["corrected"] else shown
        return Reviewed(**_facts(answer), value=value)

    def check(self, wait: OpenWait) -> None:
        message = self.asked.context.mailbox.take(REVIEW, str(wait.wait_id), None)
        if message is not None:
            self._take(message)

    def _take(self, message: Message) -> None:
        answer = json.loads(message.value or "{}")
        verdict, title = answer["verdict"], self._review.question.title
        if verdict is None:
            self.fail(WaitTimeout(f"Nobody answered the review {title!r} in time."), message)
        elif verdict == Verdict.REJECT:
            who, note = answer["actor"] or "the deadline", answer["note"]
            self.fail(Rejected(f"The review {title!r} was rejected by {who}{f': {note}' if note else '.'}"), message)
        else:
            self.end(message.value or "null", message)

    def due(self, wait: OpenWait) -> None:
        self.asked.context.run_errand(self._expire(wait), "stepfast-expiry")

    async def _expire(self, wait: OpenWait) -> None:
        """The time is over by the store's clock: have it judged there, where no verdict can come between."""
        context = self.asked.context
        (answer,) = await context.host.change([Request(context.run.run_id, Expire(wait.wait_id), context.run.tenant)])
        if isinstance(answer, StepfastError):
            # Somebody was quicker: their answer is in the inbox.
            pass
        await context.look_now()
        if not self._ending:
            context.busy.discard(self.asked.call)
            self.await_(context.mailbox.wait(wait.wait_id) or wait)
            context.kick()

    def call_off(self, asked: Asked) -> None:
        if self._wait is None and not self._is_own:
            self._wait = asked.context.mailbox.wait(self._review.review_id.wait_id)
        super().call_off(asked)


class Reviewed(NamedTuple):
    """A person's answer: the verdict, the value that counts, who said so and why, and the digest of what was shown."""

    verdict: str
    value: Any
    actor: str | None
    note: str | None
    at: Instant
    digest: str
    review_id: str
    answers: tuple[dict[str, Any], ...] = ()


def _facts(answer: dict[str, Any]) -> dict[str, Any]:
    names = ("verdict", "actor", "note", "at", "digest", "review_id")
    return {name: answer[name] for name in names} | {"answers": tuple(answer["answers"])}
