"""What answers, expiries and tokens mean for a review."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stepfast.kernel.blobs import completed
from stepfast.kernel.commands import Change, LockedRun, Request
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import (
    IllegalMove,
    Invalid,
    NotFound,
    RoleNotAllowed,
    StepfastError,
    TokenExpired,
    TokenForeign,
    TokenUsed,
    TokenWrong,
    VerdictNotAllowed,
)
from stepfast.kernel.ids import RunId
from stepfast.kernel.judging import judge
from stepfast.kernel.reviews import (
    ANYBODY,
    Assign,
    Comment,
    Decide,
    Expire,
    GivenVerdict,
    IssuedToken,
    IssueToken,
    LockedReview,
    Owner,
    ReviewCommand,
    ReviewId,
    ReviewState,
    TokenUse,
    Verdict,
    parse_review_id,
)
from stepfast.kernel.states import RunState, TaskState

NOW = Instant(1_000_000)
RUN = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")
REVIEW = LockedReview(
    ReviewId(RUN, 7), 1, "ask#1", ReviewState.OPEN, "d1", tuple(Verdict), ANYBODY, 1, 1, None, "fail", ANYBODY,
    0, None, "s1",
)  # fmt: skip
TOKEN = IssuedToken("hash", "ann", 1, Instant(NOW + 10), None)


def run_with(review: LockedReview | None, **changes: Any) -> LockedRun:
    run = LockedRun(
        RUN, "acme", "order", 1, "workflow", "order@1", "{}", 1, RunState.WAITING, TaskState.WAITING, False, False,
        None, None, False, False, review=review,
    )  # fmt: skip
    return run._replace(**changes)


def judged(
    command: ReviewCommand, review: LockedReview | None = REVIEW, actor: str | None = "ann", **run: Any
) -> Change:
    return judge(run_with(review, **run), Request(RUN, command, actor=actor), command, NOW)


def types(change: Change) -> list[str]:
    return [str(event.type) for event in (*change.events, *change.owed)]


def answer_of(change: Change) -> Any:
    assert change.review is not None
    return json.loads(change.review.answer or "null")


def test_a_verdict_names_the_digest_of_what_it_answers():
    change = judged(Decide(7, Verdict.CONTINUE))
    assert json.loads(change.events[0].data or "")["digest"] == "d1"
    assert answer_of(change)["digest"] == "d1"


@pytest.mark.parametrize("verdict", [Verdict.CONTINUE, Verdict.REJECT, Verdict.CORRECT, Verdict.RETRY])
def test_one_answer_decides_where_one_is_enough(verdict):
    change = judged(Decide(7, verdict, value="1" if verdict == "correct" else None))
    assert change.review is not None
    assert (change.review.state, change.review.verdict) == (ReviewState.DECIDED, verdict)
    assert types(change) == ["review_decided", "exception_resolved"]


def test_a_correction_is_the_value_that_counts():
    answer = answer_of(judged(Decide(7, Verdict.CORRECT, value='{"total": 13}')))
    assert (answer["corrected"], answer["value"]) == (True, {"total": 13})


def test_a_large_correction_stays_where_it_is_until_somebody_reads_the_answer():
    reference = f"@blob:sha256-{'0' * 64}:9"
    change = judged(Decide(7, Verdict.CORRECT, value=reference))
    assert change.review is not None
    text = change.review.answer or ""
    assert text.startswith(reference)
    assert json.loads(completed(text, '{"total": 13}', RUN))["value"] == {"total": 13}


@pytest.mark.parametrize(
    ("command", "review", "error"),
    [
        (Decide(7, Verdict.RETRY), {"verdicts": (Verdict.CONTINUE,)}, VerdictNotAllowed),
        (Decide(7, "perhaps"), {}, VerdictNotAllowed),
        (Decide(7, Verdict.CONTINUE, digest="d2"), {}, VerdictNotAllowed),
        (Decide(7, Verdict.CORRECT, misfit="$.total: 13 is too much."), {}, Invalid),
        (Decide(7, Verdict.ESCALATE), {}, Invalid),
        (Decide(7, Verdict.CONTINUE), {"owner": Owner("bob")}, RoleNotAllowed),
        (Decide(7, Verdict.CONTINUE), {"owner": Owner(None, "legal")}, RoleNotAllowed),
        (Decide(7, Verdict.CONTINUE, role="sales"), {"owner": Owner(None, "legal")}, RoleNotAllowed),
        (Decide(7, Verdict.CONTINUE), {"state": ReviewState.WITHDRAWN}, IllegalMove),
        (Decide(7, Verdict.CONTINUE), {"due_at": NOW}, TokenExpired),
        (Expire(7), {}, IllegalMove),
        (Expire(7), {"due_at": Instant(NOW + 1)}, IllegalMove),
        (Expire(7), {"due_at": NOW, "state": ReviewState.DECIDED}, IllegalMove),
        (Assign(7, Owner("bob")), {"state": ReviewState.DECIDED}, IllegalMove),
        (Assign(7, Owner("bob"), is_delegated=True), {"owner": Owner("cat")}, RoleNotAllowed),
        (IssueToken(7, "h", "ann", 5), {"state": ReviewState.EXPIRED}, IllegalMove),
    ],
)
def test_what_is_not_allowed_is_refused(command, review, error):
    with pytest.raises(error):
        judged(command, REVIEW._replace(**review))


@pytest.mark.parametrize(("role", "told"), [(None, "ann answers without a role"), ("sales", "ann answers as sales")])
def test_whoever_lacks_the_role_is_told_so(role, told):
    with pytest.raises(RoleNotAllowed, match=f"is for the role legal, and {told}. Answer in that role."):
        judged(Decide(7, Verdict.CONTINUE, role=role), REVIEW._replace(owner=Owner(None, "legal")))


def test_a_review_that_does_not_exist_is_not_found():
    with pytest.raises(NotFound, match=f"{RUN}.7"):
        judged(Comment(7, "hm"), None)


def test_whoever_has_the_role_that_is_asked_answers():
    assert judged(Decide(7, Verdict.CONTINUE, role="legal"), REVIEW._replace(owner=Owner(None, "legal"))).review


def test_an_assignee_answers_whatever_the_role():
    assert judged(Decide(7, Verdict.CONTINUE), REVIEW._replace(owner=Owner("ann", "legal"))).review


def test_of_several_people_each_must_say_who_they_are():
    with pytest.raises(RoleNotAllowed, match="say who answers"):
        judged(Decide(7, Verdict.CONTINUE), REVIEW._replace(quorum=2), actor=None)


def test_a_delegated_review_stays_with_its_role():
    change = judged(
        Assign(7, Owner("bob"), is_delegated=True, role="legal"), REVIEW._replace(owner=Owner(None, "legal"))
    )
    assert change.review is not None
    assert change.review.owner == Owner("bob", "legal")


@pytest.mark.parametrize(("said", "owner"), [(Owner("bob"), Owner("bob")), (ANYBODY, Owner(None, "boss"))])
def test_an_escalation_goes_to_whom_it_names_or_else_to_whom_the_author_named(said, owner):
    change = judged(Decide(7, Verdict.ESCALATE, to=said), REVIEW._replace(escalate_to=Owner(None, "boss")))
    assert change.review is not None
    assert (change.review.owner, change.review.state) == (owner, ReviewState.OPEN)


@pytest.mark.parametrize(
    ("use", "token", "run", "actor", "error"),
    [
        (TokenUse("hash"), None, {}, None, TokenWrong),
        (TokenUse("hash"), TOKEN, {"generation": 2}, None, TokenForeign),
        (TokenUse("hash", "s2"), TOKEN, {}, None, TokenForeign),
        (TokenUse("hash", None, "other"), TOKEN, {}, None, TokenForeign),
        (TokenUse("hash"), TOKEN, {}, "bob", TokenForeign),
        (TokenUse("hash"), TOKEN._replace(used_at=NOW), {}, None, TokenUsed),
        (TokenUse("hash"), TOKEN._replace(expires_at=NOW), {}, None, TokenExpired),
    ],
)
@pytest.mark.parametrize("task", [TaskState.WAITING, TaskState.LEASED, None])
def test_a_refused_token_changes_nothing_and_is_told_of(use, token, run, actor, error, task):
    command = Decide(7, Verdict.CONTINUE, token=use)
    change = judged(command, REVIEW._replace(token=token), actor, task=task, **run)
    assert (type(change.refusal), change.review) == (error, None)
    (event,) = (*change.events, *change.owed)
    assert json.loads(event.data or "")["outcome"] == error.code
    assert bool(change.owed) is (task is TaskState.LEASED)


def test_a_token_of_a_run_without_that_review_is_wrong():
    change = judged(Decide(9, Verdict.CONTINUE, token=TokenUse("hash")), None)
    assert type(change.refusal) is TokenWrong


def test_a_refused_token_is_told_with_its_bearer_where_nobody_says_who_they_are():
    review = REVIEW._replace(token=TOKEN._replace(used_at=NOW))
    (event,) = judged(Decide(7, Verdict.CONTINUE, token=TokenUse("hash")), review, None).events
    assert event.actor == "ann"


def test_whether_a_token_is_good_is_judged_before_what_is_said_with_it():
    command = Decide(7, "perhaps", misfit="$: no", token=TokenUse("hash"))
    assert type(judged(command, REVIEW._replace(token=None), None).refusal) is TokenWrong
    assert type(judged(command, REVIEW._replace(token=TOKEN), None).refusal) is VerdictNotAllowed


def test_a_good_token_needs_no_role_and_answers_for_its_bearer():
    review = REVIEW._replace(owner=Owner("bob", "legal"), token=TOKEN)
    change = judged(Decide(7, Verdict.CONTINUE, token=TokenUse("hash", "s1", "acme")), review, None)
    assert change.review is not None
    assert (change.review.used_token, answer_of(change)["actor"]) == ("hash", "ann")
    assert types(change) == ["resume_submitted", "review_decided", "exception_resolved"]


@pytest.mark.parametrize(("due_at", "ends_at"), [(None, NOW + 50), (Instant(NOW + 20), NOW + 20)])
def test_a_token_works_no_longer_than_its_review(due_at, ends_at):
    change = judged(IssueToken(7, "h", "ann", 50), REVIEW._replace(due_at=due_at))
    assert change.review is not None
    assert change.review.new_token == IssuedToken("h", "ann", 1, Instant(ends_at), None)


@pytest.mark.parametrize(
    "text", ["", "x", RUN, f"{RUN}.", f"{RUN}.-1", f"{RUN}.x", f"{RUN}.²", f"{RUN}.{'1' * 20}", ".7"]
)
def test_what_is_no_review_id_names_none(text):
    with pytest.raises(NotFound):
        parse_review_id(text)


def test_a_review_id_reads_as_it_is_written():
    assert parse_review_id(str(ReviewId(RUN, 7))) == ReviewId(RUN, 7)


PEOPLE = st.sampled_from(["ann", "bob", "cat", "dan", "eve"])
ANSWERS = st.sampled_from([Verdict.CONTINUE, Verdict.CORRECT, Verdict.REJECT])
EXPIRES_MS = 100


class Reviewing(RuleBasedStateMachine):
    """A review as commands change it, beside a model that knows nothing but counts."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.review = REVIEW
        self.tokens: dict[str, IssuedToken] = {}
        self.said: dict[str, Verdict] = {}
        self.expected: tuple[ReviewState, Verdict | None] = (ReviewState.OPEN, None)
        self.ends: list[Any] = []

    @initialize(
        quorum=st.integers(1, 3),
        quorum_reject=st.integers(1, 3),
        on_expiry=st.sampled_from(["fail", "escalate", "continue", "reject"]),
        is_bounded=st.booleans(),
    )
    def open(self, quorum, quorum_reject, on_expiry, is_bounded):
        due_at = Instant(self.now + EXPIRES_MS) if is_bounded else None
        self.review = REVIEW._replace(
            quorum=quorum,
            quorum_reject=quorum_reject,
            on_expiry=on_expiry,
            expires_ms=EXPIRES_MS if is_bounded else None,
            due_at=due_at,
            escalate_to=Owner("boss"),
        )

    @property
    def is_open(self) -> bool:
        return self.expected[0] is ReviewState.OPEN

    @property
    def is_late(self) -> bool:
        return self.review.due_at is not None and self.review.due_at <= self.now

    def give(self, command: ReviewCommand, actor: str | None = None) -> Change | StepfastError:
        use = command.token if isinstance(command, Decide) else None
        review = self.review._replace(token=self.tokens.get(use.hash) if use else None)
        try:
            change = judge(run_with(review), Request(RUN, command, actor=actor), command, self.now)
        except StepfastError as refusal:
            return refusal
        if change.refusal is not None:
            assert change.review is None
            return change.refusal
        self.write(change)
        return change

    def write(self, change: Change) -> None:
        """What a store does with a change."""
        written = change.review
        assert written is not None
        facts: dict[str, Any] = {}
        if written.given is not None and written.given.verdict is not Verdict.ESCALATE:
            facts["given"] = (*self.review.given, written.given)
        if written.owner is not None:
            facts["owner"] = written.owner
        if written.escalations is not None:
            facts |= {"escalations": written.escalations, "due_at": written.due_at}
        if written.used_token is not None:
            self.tokens[written.used_token] = self.tokens[written.used_token]._replace(used_at=self.now)
        if written.new_token is not None:
            self.tokens[written.new_token.hash] = written.new_token
        if written.state is not ReviewState.OPEN:
            self.ends.append((written.state, written.verdict, json.loads(written.answer or "null")))
            facts["state"] = written.state
        self.review = self.review._replace(**facts)

    def count(self, actor: str, verdict: Verdict) -> None:
        """What the model makes of an answer."""
        self.said[actor] = verdict
        answers = list(self.said.values())
        approvals = len(answers) - answers.count(Verdict.REJECT)
        if verdict is Verdict.RETRY:
            self.expected = (ReviewState.DECIDED, Verdict.RETRY)
        elif answers.count(Verdict.REJECT) >= self.review.quorum_reject:
            self.expected = (ReviewState.DECIDED, Verdict.REJECT)
        elif approvals >= self.review.quorum:
            verdict = Verdict.CORRECT if Verdict.CORRECT in answers else Verdict.CONTINUE
            self.expected = (ReviewState.DECIDED, verdict)

    @rule(span=st.integers(1, 60))
    def time_passes(self, span):
        self.now = Instant(self.now + span)

    @rule(actor=PEOPLE, verdict=st.one_of(ANSWERS, st.just(Verdict.RETRY)))
    def answer(self, actor, verdict):
        may = self.is_open and not self.is_late and actor not in self.said
        may = may and self.review.owner.assignee in (None, actor)
        answer = self.give(Decide(7, verdict, value="1" if verdict is Verdict.CORRECT else None), actor)
        assert isinstance(answer, Change) is may, answer
        if may:
            self.count(actor, verdict)

    @rule(actor=PEOPLE)
    def issue(self, actor):
        answer = self.give(IssueToken(7, f"{actor}{len(self.tokens)}", actor, 80))
        assert isinstance(answer, Change) is self.is_open

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), verdict=ANSWERS)
    def show_token(self, data, verdict):
        token = data.draw(st.sampled_from(sorted(self.tokens.values())))
        may = self.is_open and not self.is_late and token.used_at is None and token.expires_at > self.now
        may = may and token.actor not in self.said
        answer = self.give(Decide(7, verdict, value="1", token=TokenUse(token.hash)))
        assert isinstance(answer, Change) is may, answer
        if may:
            self.count(token.actor, verdict)
            assert self.tokens[token.hash].used_at == self.now

    @rule(actor=PEOPLE, to=PEOPLE)
    def escalate(self, actor, to):
        may = (
            self.is_open and not self.is_late and self.review.owner.assignee in (None, actor) and actor not in self.said
        )
        answer = self.give(Decide(7, Verdict.ESCALATE, to=Owner(to)), actor)
        assert isinstance(answer, Change) is may, answer
        if may and self.review.expires_ms is not None:
            assert self.review.due_at == self.now + EXPIRES_MS

    @rule()
    def expire(self):
        may = self.is_open and self.is_late
        was_escalated, on_expiry = self.review.escalations > 0, self.review.on_expiry
        answer = self.give(Expire(7))
        assert isinstance(answer, Change) is may, answer
        if may and (on_expiry != "escalate" or was_escalated):
            verdict = Verdict(on_expiry) if on_expiry in ("continue", "reject") else None
            self.expected = (ReviewState.EXPIRED, verdict)

    @invariant()
    def it_stands_where_the_model_says(self):
        state, verdict = self.expected
        assert self.review.state is state
        assert [end[:2] for end in self.ends] == ([] if self.is_open else [(state, verdict)])

    @invariant()
    def everybody_counts_once(self):
        assert [each.actor for each in self.review.given] == list(self.said)

    @invariant()
    def the_code_is_told_what_counts(self):
        for _, verdict, answer in self.ends:
            assert answer["verdict"] == verdict
            assert [each["actor"] for each in answer["answers"]] == list(self.said)


Reviewing.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestReviewing = Reviewing.TestCase


def test_the_newest_correction_is_the_one_that_counts():
    first = GivenVerdict("ann", Verdict.CORRECT, '"first"', None, NOW)
    change = judged(Decide(7, Verdict.CORRECT, value='"second"'), REVIEW._replace(quorum=2, given=(first,)), "bob")
    assert answer_of(change)["value"] == "second"


@pytest.mark.parametrize("on_expiry", ["continue", "reject", "retry", "fail"])
def test_a_deadline_speaks_for_nobody_who_answered_before_it(on_expiry):
    given = GivenVerdict("ann", Verdict.CONTINUE, None, "all fine", NOW)
    change = judged(Expire(7), REVIEW._replace(quorum=2, given=(given,), due_at=NOW, on_expiry=on_expiry), None)
    answer = answer_of(change)
    assert (answer["actor"], answer["note"]) == (None, None)
    assert [each["actor"] for each in answer["answers"]] == ["ann"]
