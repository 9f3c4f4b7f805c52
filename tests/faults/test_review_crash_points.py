"""Every point at which a process can die while people are asked: one answer counts, and no token is written down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, cast

import pytest

from stepfast import Retry, ReviewInfo, RunFailed, RunState, Stepfast, WaitTimeout, race, review, sleep, step, workflow
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.decisions import Decision
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ports import Store
from stepfast.kernel.reviews import Decide
from stepfast.stores.postgres import reviews as postgres_reviews
from stepfast.stores.sqlite import changing
from stepfast.testing import Engine, ProcessDied, crash_points
from stepfast.tokens import Secret
from tests.faults.test_crash_points import IS_LONG, emptied
from tests.support.apps import migrated
from tests.support.dumps import dump
from tests.support.owing import OwingStore
from tests.support.review_promises import (
    ACCEPTED,
    Attempt,
    Got,
    Letter,
    broken_review_promises,
    evidence_of,
    places_with_secrets,
)
from tests.support.sql import execute


class Post:
    """What left the engine and came back: letters with tokens, attempts to use them, answers that code was given."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.attempts: list[Attempt] = []
        self.got: set[Got] = set()
        self.errors: list[str] = []

    def to(self, actor: str) -> list[Letter]:
        return [letter for letter in self.letters if letter.actor == actor]


class Desk(NamedTuple):
    """Where a step's body reaches the app, as it does in any application."""

    app: Stepfast
    post: Post


DESK: list[Desk] = []


@step(retry=Retry(attempts=5, base="1s", jitter=0))
async def mail(info: ReviewInfo) -> None:
    app, post = DESK[-1]
    for actor in ("ann", "bob"):
        token = await app.reviews.issue_token(info["review_id"], actor=actor, expires="30d")
        post.letters.append(Letter(info["review_id"], actor, token))


@step(retry=Retry(attempts=1))
async def mail_and_think_better_of_it(info: ReviewInfo) -> None:
    app, post = DESK[-1]
    token = await app.reviews.issue_token(info["review_id"], actor="ann", expires="30d")
    post.letters.append(Letter(info["review_id"], "ann", token))
    await app.get(info["run_id"]).cancel(key="cancel")


@workflow
async def publish() -> list[str | None]:
    answer = await review("Publish?", show={"words": 7}, expires="7d", escalate_to="carl", notify=mail)
    DESK[-1].post.got.add(Got(answer.review_id, answer.verdict, answer.actor))
    return [answer.verdict, answer.actor]


@workflow
async def publish_in_time() -> str:
    try:
        await review("Publish?", show=7, expires="1h", on_expiry="escalate", escalate_to="carl", notify=mail)
    except WaitTimeout:
        return "nobody answered"
    return "answered"


@workflow
async def publish_nothing() -> None:
    await review("Publish?", show=7, notify=mail_and_think_better_of_it)


@workflow
async def publish_in_turns() -> list[str]:
    answers = await asyncio.gather(review("Left?", show=1, notify=mail), review("Right?", show=2, notify=mail))
    DESK[-1].post.got.update(Got(each.review_id, each.verdict, each.actor) for each in answers)
    quickest, _ = await race(late=sleep("1h"), both=review("Both?", show=3, notify=mail))
    return [*(each.verdict for each in answers), quickest]


WORKFLOWS = [publish, publish_in_time, publish_nothing, publish_in_turns]


@asynccontextmanager
async def desk(engine: Engine) -> AsyncIterator[Post]:
    """A desk of this scenario's own; afterwards every promise is checked."""
    post, lines = Post(), Lines()
    DESK.append(Desk(engine.app, post))
    logging.getLogger("stepfast").addHandler(lines)
    try:
        yield post
    finally:
        logging.getLogger("stepfast").removeHandler(lines)
        DESK.pop()
    broken = broken_review_promises(await evidence_of(engine.app, post.attempts, sorted(post.got)))
    places = await dump(engine.app.database) | {"the log": lines.text.encode(), "an error": repr(post.errors).encode()}
    broken += places_with_secrets([letter.token for letter in post.letters], places)
    assert not broken, "\n".join(broken)


class Lines(logging.Handler):
    """All that was logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += f"{record.getMessage()} {record.__dict__}\n"


async def show(engine: Engine, post: Post, letter: Letter, verdict: str) -> str:
    """Show a token as a patient person does; what was heard in the end."""

    async def once() -> str:
        try:
            await engine.app.reviews.resume(letter.token, verdict)
        except ProcessDied:
            post.attempts.append(Attempt(letter, verdict, None))
            raise
        except StepfastError as error:
            post.errors.append(f"{error!r} {error} {error.__notes__ if hasattr(error, '__notes__') else ''}")
            post.attempts.append(Attempt(letter, verdict, error.code))
            return error.code
        post.attempts.append(Attempt(letter, verdict, ACCEPTED))
        return ACCEPTED

    return await engine.insist(once)


async def answered(engine: Engine) -> list[str | None]:
    """One person passes it on, which uses up the token; another one decides; then nothing works any more."""
    async with desk(engine) as post:
        run = await engine.start(publish)
        await engine.run_until_idle()
        assert len(await engine.reviews(run)) == 1, "P13: the run waits, and nobody is asked."
        assert all(map(post.to, ("ann", "bob"))), "P13: the run waits, and somebody was not told."
        first, second = post.to("ann")[-1], post.to("bob")[-1]
        assert await show(engine, post, first, "escalate") in (ACCEPTED, "E-REV-003")
        assert await show(engine, post, first, "continue") == "E-REV-003", "P13: a used token works again."
        assert await show(engine, post, second, "continue") in (ACCEPTED, "E-REV-003")
        result: list[str | None] = await engine.result(run)
        for letter in post.letters:
            assert await show(engine, post, letter, "reject") == "E-REV-003", "P13: a token works after the decision."
        return result


async def unanswered(engine: Engine) -> tuple[str, list[str]]:
    """Nobody answers: it is escalated once and expires once, and no token works after that."""
    async with desk(engine) as post:
        run = await engine.start(publish_in_time)
        await engine.run_until_idle()
        result: str = await engine.result(run)
        told = [event.type for event in await engine.events(run)]
        for letter in post.letters:
            assert await show(engine, post, letter, "continue") == "E-REV-002", "P13: a token works after its time."
        return result, [kind for kind in told if kind in ("review_escalated", "review_expired", "exception_resolved")]


async def cancelled(engine: Engine) -> RunState:
    """A run is cancelled while people are being told: nothing comes after it, and no token works."""
    async with desk(engine) as post:
        run = await engine.start(publish_nothing)
        await engine.run_until_idle()
        for letter in post.letters:
            assert await show(engine, post, letter, "continue") == "E-REV-003", "P14: a token works after the cancel."
        await engine.run_until_idle()
        (found,) = await engine.app.reviews.list(state=None)
        assert found.state == "withdrawn", f"P14: the review is {found.state} after the cancel."
        return (await engine.info(run)).state


async def asked_anew(engine: Engine) -> list[Any]:
    """A rejected run fails and is retried: people are asked anew, and tokens of its first life work no more."""
    async with desk(engine) as post:
        run = await engine.start(publish)
        await engine.run_until_idle()
        assert await show(engine, post, post.to("ann")[-1], "reject") in (ACCEPTED, "E-REV-003")
        with pytest.raises(RunFailed):
            await engine.result(run)
        old = list(post.letters)
        await engine.insist(lambda: run.retry(key="retry"))
        await engine.run_until_idle()
        for letter in old:
            assert await show(engine, post, letter, "continue") == "E-REV-004", "P13: a token of an earlier life works."
        assert await show(engine, post, post.to("bob")[-1], "continue") in (ACCEPTED, "E-REV-003")
        return [await engine.result(run), len(await engine.app.reviews.list(state=None))]


async def branches(engine: Engine) -> list[str]:
    """Two people are asked at once, and a third loses against the clock: each review keeps its place."""
    async with desk(engine) as post:
        run = await engine.start(publish_in_turns)
        await engine.run_until_idle()
        titles = {view.title: view.review_id for view in await engine.reviews(run)}
        for title, actor in (("Right?", "ann"), ("Left?", "bob")):
            letters = [letter for letter in post.to(actor) if letter.review_id == titles[title]]
            assert await show(engine, post, letters[-1], "continue") in (ACCEPTED, "E-REV-003")
        result: list[str] = await engine.result(run)
        lost = post.to("bob")[-1]
        assert await show(engine, post, lost, "continue") == "E-REV-003", "P13: a withdrawn review takes an answer."
        return result


SCENARIOS = [answered, unanswered, cancelled, asked_anew, branches]
EVERY = {"sqlite": 1, "postgres": 1} if IS_LONG else {"sqlite": 3, "postgres": 11}


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    """Every point in the long form, a spread of them in the short one."""
    if database.startswith("sqlite"):
        return {"workflows": WORKFLOWS, "every": EVERY["sqlite"]}
    return {"workflows": WORKFLOWS, "every": EVERY["postgres"], "databases": emptied(database)}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_one_answer_counts_once_wherever_the_process_dies(options, scenario):
    tried = await crash_points(scenario, **options)
    assert {"start", "claim", "save", "change"} <= set(tried.calls)
    assert len(tried.points) * options["every"] >= len(tried.calls)


class AcceptsFirst(OwingStore):
    """The broken twin: whoever answers first is told that it counts before it is stored."""

    has_accepted = False

    async def change(self, requests: Sequence[Request]) -> list[Changed | StepfastError]:
        await self._pay()
        if self.has_accepted or not all(isinstance(request.command, Decide) for request in requests):
            return await self._store.change(requests)
        self.has_accepted = True
        self._owed = [lambda: self._store.change(requests)]
        now = await self._store.now()
        return [Changed(request.run_id, RunState.WAITING, 1, "default", now) for request in requests]


NO_WAIT = 10**6


class AsksApart(OwingStore):
    """The broken twin: a review is stored in a commit behind that of its wait."""

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        await self._pay()
        answers = await self._store.save([replace(decision, reviews=()) for decision in decisions], again)
        self._owed = [lambda: self._store.save([_review_alone(each) for each in decisions if each.reviews])]
        return answers


def _review_alone(decision: Decision) -> Decision:
    # A wait that does not exist is closed, as reviews are written with waits and never alone.
    return replace(decision, records=(), events=(), opened=(), closed=(NO_WAIT,), taken=(), release=None)


TWINS = {"who answers before it stores": AcceptsFirst, "who asks in a commit of its own": AsksApart}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("broken", TWINS.values(), ids=TWINS)
async def test_the_broken_twin_is_found_out(options, broken):
    with pytest.raises(AssertionError, match=r"P\d+:") as found:
        await crash_points(answered, around=lambda store: cast(Store, broken(store)), **options | {"every": 1})
    assert "was let die" in found.value.__notes__[0], "Without a crash nothing can be seen of it."


@pytest.fixture
def reusable(monkeypatch):
    """Both stores without the mark of a token that was used."""
    text = changing.REVIEW_SQL["use_token"]
    monkeypatch.setitem(changing.REVIEW_SQL, "use_token", f"{text.rstrip(' ;')} and false")
    texts = postgres_reviews._texts()
    monkeypatch.setitem(texts, "use_token", f"{texts['use_token'].rstrip(' ;')} and false")
    postgres_reviews._joined.cache_clear()
    yield
    postgres_reviews._joined.cache_clear()


@pytest.mark.usefixtures("reusable")
async def test_the_broken_twin_that_marks_no_token_takes_it_twice(options):
    with pytest.raises(AssertionError, match="P13"):
        await crash_points(answered, **options)


@pytest.fixture
def readable(monkeypatch):
    """Tokens that are stored as they are."""
    monkeypatch.setattr(Secret, "hash_of", lambda self, text: text._content.decode())


@pytest.mark.usefixtures("readable")
async def test_the_broken_twin_that_stores_tokens_as_they_are_is_found_out(options):
    with pytest.raises(AssertionError, match="P23"):
        await crash_points(answered, **options)


def without_withdrawals(database: str, databases: Any) -> Any:
    """Databases without the trigger that ends the reviews that nobody waits for."""
    where = "" if database.startswith("sqlite") else " on stepfast.wait"

    @asynccontextmanager
    async def opened() -> AsyncIterator[str]:
        async with databases() as url:
            await migrated(url)
            await execute(url, f"drop trigger if exists withdraw_review{where}")
            yield url

    return opened


async def test_the_broken_twin_without_withdrawals_takes_answers_after_the_cancel(database, tmp_path):
    @asynccontextmanager
    async def files() -> AsyncIterator[str]:
        yield database

    with pytest.raises(AssertionError, match="P14"):
        await crash_points(cancelled, workflows=WORKFLOWS, databases=without_withdrawals(database, files))
