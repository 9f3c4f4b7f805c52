"""Reviews of a run's code: a question that is opened once, and the wait for a person's answer to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from stepfast.kernel import rules
from stepfast.kernel.commands import Request
from stepfast.kernel.decisions import Decision, HeldRun, Message, OpenWait, Record, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, Rejected, StepfastError, WaitTimeout
from stepfast.kernel.reviews import Expire, ItemKind, NewReview, Owner, ReviewId, Verdict
from stepfast.kernel.states import StepState, WaitKind
from stepfast.workflows.calls import Asked
from stepfast.workflows.codec import ValueCodec, digest
from stepfast.workflows.mailbox import Waiter
from stepfast.workflows.wait_calls import WaitCall

REVIEW = "review"
"""The kind of message that brings an answer; its name is the number of the wait."""

T = TypeVar("T")


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

    @property
    def facts(self) -> str:
        """What people are told of it, as it is recorded: code that is changed meanwhile tells them nothing new."""
        facts = {"title": self.title, "kind": self.kind, "digest": digest(self.shown), **self.owner._asdict()}
        return json.dumps({**facts, "verdicts": self.verdicts, "expires_ms": self.expires_ms})


class Codecs(NamedTuple):
    """How values reach the code: what was shown, and what a person made of it."""

    shown: ValueCodec
    corrected: ValueCodec


class AskedReview(NamedTuple):
    """A review that was opened: its question, and its id."""

    question: Question
    codecs: Codecs
    review_id: ReviewId
    facts: str
    is_present: bool
    """Whether it was opened in the present generation of the run; else it is open no more."""


class AskCall:
    """Opens a review; its record is its end, and its number that of the wait which stays open until it is answered."""

    kind = name = "ask"

    def __init__(self, question: Question, codecs: Codecs) -> None:
        self._question = question
        self._codecs = codecs
        self.input = self.counted = _input_of(question.title, question.shown)
        self._review_id: ReviewId | None = None
        self._is_present = True

    def counted_of(self, stored: str) -> str:
        asked, codec = json.loads(stored), self._codecs.shown
        return _input_of(asked["title"], codec.encode(codec.decode(json.dumps(asked["shown"]))))

    def value_of(self, text: str) -> AskedReview:
        assert self._review_id is not None
        return AskedReview(self._question, self._codecs, self._review_id, text, self._is_present)

    def recalled(self, asked: Asked, record: Record) -> None:
        self._review_id = ReviewId(asked.context.run.run_id, record.seq)
        self._is_present = record.seq > asked.context.run.kept_seq

    def wait_id(self, record: Record | None) -> int | None:
        return None

    def begin(self, asked: Asked, record: Record | None) -> None:
        context = asked.context
        opened = asked.new_record(StepState.COMPLETED, 1, context.host.clock.now(), value=self._question.facts)
        decision = rules.open_review(context.run, opened, *self._question.opened_by(asked))
        context.busy.add(asked.call)
        context.save(decision, partial(self._saved, asked, opened, decision))

    def _saved(self, asked: Asked, record: Record, decision: Decision, refused: BaseException | None) -> None:
        context = asked.context
        if refused is not None or context.is_closed:
            context.ended(asked, record.ended_at, None, None, refused)
            return
        (wait,) = decision.opened
        due_at = None if wait.due_in_ms is None else Instant(context.host.clock.now() + wait.due_in_ms)
        context.mailbox.open(OpenWait(wait.wait_id, wait.kind, wait.name, due_at, 1, 0, 1, 0, 0))
        self._review_id = ReviewId(context.run.run_id, wait.wait_id)
        if asked.answer.done():
            self._withdraw(asked, self._review_id)
        else:
            context.ended(asked, record.ended_at, self.value_of(self._question.facts), None, None)

    def call_off(self, asked: Asked) -> None:
        """What is just being opened is withdrawn then."""
        if self._review_id is not None:
            self._withdraw(asked, self._review_id)

    def abandon(self, asked: Asked, record: Record) -> None:
        """A review that is still open would ask people for what nobody waits for."""
        if asked.context.mailbox.wait(record.seq) is not None:
            self._withdraw(asked, ReviewId(asked.context.run.run_id, record.seq))

    def _withdraw(self, asked: Asked, review_id: ReviewId) -> None:
        context = asked.context
        context.mailbox.forget(review_id.wait_id)
        record = asked.new_record(StepState.CANCELLED, 1, context.host.clock.now())
        context.busy.add(asked.call)
        context.save(withdrawal(context.run, record, review_id), partial(self._withdrawn, asked))

    def _withdrawn(self, asked: Asked, refused: BaseException | None) -> None:
        asked.context.busy.discard(asked.call)
        if refused is not None:
            asked.context.stop(refused)
        asked.context.kick()

    def drop(self) -> None:
        """Nothing runs that could be stopped."""


class ReviewCall(WaitCall):
    """Waits for the answer to a review that was opened before.

    A run that is retried has new waits. The call ends then without an answer, and the question is asked anew.
    """

    wait_kind = WaitKind.REVIEW
    kind = name = REVIEW

    def __init__(self, opened: AskedReview) -> None:
        super().__init__(opened.question.title, json.dumps({"review": opened.review_id.wait_id}), None)
        self._review = opened

    def wait_id(self, record: Record | None) -> int | None:
        return self._review.review_id.wait_id

    def begin(self, asked: Asked, record: Record | None) -> None:
        self._asked, self._opened_as, self._started_at = asked, asked.call, asked.context.host.clock.now()
        wait = asked.context.mailbox.wait(self._review.review_id.wait_id)
        if wait is None:
            self.end("null")
        else:
            self.await_(wait)

    def value_of(self, text: str) -> Reviewed[Any] | None:
        answer = json.loads(text)
        if answer is None:
            return None
        shown, corrected = self._review.codecs
        if answer["corrected"]:
            return reviewed(answer, corrected.decode(json.dumps(answer["value"])))
        return reviewed(answer, shown.decode(self._review.question.shown))

    def waiter(self, wait: OpenWait) -> Waiter:
        return Waiter(self._look, (REVIEW, str(wait.wait_id)))

    def check(self, wait: OpenWait) -> None:
        self._take(self.asked.context.mailbox.take(REVIEW, str(wait.wait_id), None))

    async def _as_stored(self, wait_id: int) -> OpenWait | None:
        wait = await super()._as_stored(wait_id)
        if wait is None or not await self._expire(wait_id):
            return None
        return None if self._ending else self.asked.context.mailbox.wait(wait_id)

    async def _expire(self, wait_id: int) -> bool:
        """The time seems to be over: have it judged by the store, where no verdict can come between."""
        context = self.asked.context
        expire = Request(context.run.run_id, Expire(wait_id), context.run.tenant)
        (answer,) = await context.answered(partial(context.host.change, [expire]))
        if isinstance(answer, StepfastError) and not isinstance(answer, IllegalMove):
            context.stop(answer)
            return False
        # Whatever was decided has come into the inbox, by this command or by somebody who was quicker.
        return await context.look_now()

    def due(self, wait: OpenWait) -> None:
        # It was over at its moment, whenever that was judged: what was over later does not hold it back.
        self._take(self.asked.context.mailbox.take(REVIEW, str(wait.wait_id), None, in_turn=True))

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        answer, title = json.loads(message.value or "null"), self._review.question.title
        verdict = answer["verdict"]
        if verdict is None:
            self.fail(WaitTimeout(f"Nobody answered the review {title!r} in time."), message)
        elif verdict == Verdict.REJECT:
            who, note = answer["actor"] or "the deadline", answer["note"]
            self.fail(Rejected(f"The review {title!r} was rejected by {who}{f': {note}' if note else '.'}"), message)
        else:
            self.end(message.value or "null", message)

    def save_call_off(self, asked: Asked, closed: tuple[int, ...]) -> None:
        record = asked.new_record(StepState.CANCELLED, 1, self._started_at)
        asked.context.busy.add(asked.call)
        asked.context.save(self.withdrawal(asked.context.run, record), partial(self._called_off, asked))
        asked.context.mailbox.go_on()

    def withdrawal(self, run: HeldRun, record: Record) -> Decision:
        """What is saved when the code calls it off, begun or not: its review has been open all the time."""
        return withdrawal(run, record, self._review.review_id)


class Answered(NamedTuple):
    """What one of several people has answered."""

    actor: str | None
    verdict: str
    note: str | None
    at: Instant


class Reviewed(NamedTuple, Generic[T]):
    """A person's answer: the verdict, the value that counts, who said so and why, and the digest of what was shown."""

    verdict: str
    value: T
    actor: str | None
    note: str | None
    at: Instant
    digest: str
    review_id: str
    answers: tuple[Answered, ...] = ()


def reviewed(answer: Mapping[str, Any], value: T) -> Reviewed[T]:
    """The answer as the code gets it."""
    answers = tuple(Answered(**each) for each in answer["answers"])
    said = (answer["actor"], answer["note"], Instant(answer["at"]), answer["digest"], answer["review_id"])
    return Reviewed(answer["verdict"], value, *said, answers)


def withdrawal(run: HeldRun, record: Record, review_id: ReviewId) -> Decision:
    """The code no longer wants a person's answer; the review gets its end with its wait."""
    return rules.call_off(run, record, (review_id.wait_id,), review_id)


def _input_of(title: str, shown: str) -> str:
    # What is shown is JSON already, and may be too large to be taken apart for nothing.
    return f'{{"title": {json.dumps(title)}, "shown": {shown}}}'
