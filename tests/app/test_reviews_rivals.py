"""Answers that come together with others, with an expiry, a cancel or a new generation: one of them counts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from stepfast import IllegalMove, Stepfast, StepfastError
from stepfast.conformance.store.acts import asked, fail
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.errors import TokenExpired, TokenForeign, TokenUsed
from stepfast.kernel.reviews import Expire, ReviewState, parse_review_id
from stepfast.stores import reviewing
from stepfast.stores.postgres import commands
from stepfast.stores.sqlite import changing
from tests.support.apps import app_on
from tests.support.asking import Process, events_of, held_run, review_of, store_of
from tests.support.workflows import say

ROUNDS = 15


@pytest.fixture
async def apps(database, token_keys):
    """Two apps on one database, as two processes would have."""
    async with app_on(database, [say], worker=False) as one, app_on(database, [say], worker=False) as other:
        yield one, other


async def met(call) -> str:
    """How a command was met: `done`, or the code of its refusal."""
    try:
        await call
    except StepfastError as refusal:
        return refusal.code
    return "done"


async def expire(app: Stepfast, review_id: str) -> str:
    """How the command is met by which a run's holder has a review expire."""
    where = parse_review_id(review_id)
    (answer,) = await store_of(app).change([Request(where.run_id, Expire(where.wait_id))])
    return "done" if isinstance(answer, Changed) else answer.code


async def ends_of(app: Stepfast, review_id: str) -> int:
    decided, expired = [await events_of(app, review_id, f"review_{end}") for end in ("decided", "expired")]
    return len(decided) + len(expired)


async def test_of_fifty_answers_by_one_token_from_two_processes_one_counts(apps, database):
    review_id = await review_of(apps[0])
    token = await apps[0].reviews.issue_token(review_id, actor="ann")
    processes = [Process("-m", "tests.app.reviewer", database, "25") for _ in range(2)]
    for process in processes:
        assert await asyncio.to_thread(process.line) == "ready"
    for process in processes:
        process.tell(token)
    told = [await asyncio.to_thread(process.rest) for process in processes]
    assert Counter(answer for each in told for answer in json.loads(each)) == {"accepted": 1, TokenUsed.code: 49}
    found = await apps[0].reviews.get(review_id)
    assert (len(found.answers), found.state) == (1, "decided")
    outcomes = Counter(told["outcome"] for told, _ in await events_of(apps[0], review_id, "resume_submitted"))
    assert outcomes == {"accepted": 1, TokenUsed.code: 49}
    assert await apps[0].reviews.check() == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_of_two_verdicts_one_counts(apps, order):
    one, other = [apps[index] for index in order]
    for _ in range(ROUNDS):
        review_id = await review_of(apps[0])
        answers = await asyncio.gather(
            met(one.reviews.decide(review_id, "continue", actor="ann")),
            met(other.reviews.decide(review_id, "reject", actor="bob")),
        )
        assert sorted(answers) == [IllegalMove.code, "done"]
        assert await ends_of(one, review_id) == 1


@pytest.mark.parametrize("is_verdict_first", [True, False])
async def test_a_verdict_and_a_cancel_are_never_both_without_the_other(apps, is_verdict_first):
    """A run may be cancelled after its verdict; a verdict after the cancel is refused, and the review withdrawn."""
    one, other = apps
    for _ in range(ROUNDS):
        review_id = await review_of(one)
        run = other.get(parse_review_id(review_id).run_id)
        rivals = [met(one.reviews.decide(review_id, "continue", actor="ann")), met(run.cancel())]
        answers = await asyncio.gather(*(rivals if is_verdict_first else reversed(rivals)))
        verdict, cancel = answers if is_verdict_first else reversed(answers)
        assert cancel == "done"
        state = (await one.reviews.get(review_id)).state
        assert state is (ReviewState.DECIDED if verdict == "done" else ReviewState.WITHDRAWN)
        assert await ends_of(one, review_id) == (verdict == "done")
    assert await one.reviews.check() == []


async def test_a_verdict_after_the_cancel_changes_nothing(apps):
    review_id = await review_of(apps[0])
    token = await apps[0].reviews.issue_token(review_id, actor="ann")
    await apps[1].get(parse_review_id(review_id).run_id).cancel()
    assert await met(apps[0].reviews.decide(review_id, "continue")) == IllegalMove.code
    assert await met(apps[0].reviews.resume(token, "continue")) == TokenUsed.code
    assert (await apps[0].reviews.get(review_id)).state is ReviewState.WITHDRAWN


async def test_of_a_verdict_and_an_expiry_one_counts(apps):
    one, other = apps
    for expires_ms in range(1, ROUNDS):
        review_id = await review_of(one, expires_ms=expires_ms)

        async def expire_when_due(review_id: str = review_id) -> str:
            while (answer := await expire(other, review_id)) != "done":
                if (await other.reviews.get(review_id)).state is not ReviewState.OPEN:
                    break
            return answer

        verdict, expiry = await asyncio.gather(
            met(one.reviews.decide(review_id, "continue", actor="ann")), expire_when_due()
        )
        assert (verdict == "done") is (expiry != "done"), (verdict, expiry)
        assert verdict in ("done", TokenExpired.code, IllegalMove.code)
        assert await ends_of(one, review_id) == 1
    assert await one.reviews.check() == []


async def test_a_verdict_and_a_new_generation_do_not_meet(apps):
    """A run that fails has no open review any more; the one that its next generation opens is another."""
    one, other = apps
    for _ in range(ROUNDS):
        run = await held_run(one)
        await store_of(one).save([asked(run)])
        review_id = f"{run.run_id}.1"
        token = await one.reviews.issue_token(review_id, actor="ann")
        await store_of(one).save([fail(run)])
        verdict, by_token, retry = await asyncio.gather(
            met(one.reviews.decide(review_id, "continue", actor="ann")),
            met(one.reviews.resume(token, "continue")),
            met(other.get(run.run_id).retry()),
        )
        assert (verdict, retry) == (IllegalMove.code, "done")
        assert by_token in (TokenUsed.code, TokenForeign.code)
        assert (await one.reviews.get(review_id)).state is ReviewState.WITHDRAWN
        await other.get(run.run_id).cancel()
    assert await one.reviews.check() == []


async def works_twice(app: Stepfast) -> bool:
    """Whether a token by which somebody has escalated a review can be used once more."""
    review_id = await review_of(app)
    token = await app.reviews.issue_token(review_id, actor="ann")
    await app.reviews.resume(token, "escalate", to="bob")
    return await met(app.reviews.resume(token, "continue")) == "done"


async def test_a_token_that_has_escalated_works_no_more(apps):
    assert not await works_twice(apps[0])


async def test_the_broken_twin_that_does_not_mark_a_token_as_used_takes_it_again(apps, monkeypatch):
    writes_of = reviewing.writes_of

    def without_mark(*arguments):
        return (statement for statement in writes_of(*arguments) if statement.name != "use_token")

    monkeypatch.setattr(reviewing, "writes_of", without_mark)
    assert await works_twice(apps[0])


@pytest.fixture
def an_old_look(monkeypatch):
    """Both stores with commands that go by their first look at a run, taken before they have its lock."""
    find, look = changing._find, commands._look
    found, seen = {}, {}

    def find_once(connection, request, now):
        if (request.run_id, request.command) not in found:
            found[request.run_id, request.command] = find(connection, request, now)
        return found[request.run_id, request.command]

    async def look_once(connection, requests, now):
        for request in requests:
            if request.run_id not in seen:
                seen.update(await look(connection, requests, now))
        return {request.run_id: seen[request.run_id] for request in requests}

    monkeypatch.setattr(changing, "_find", find_once)
    monkeypatch.setattr(commands, "_look", look_once)


async def is_refused_in_order(app: Stepfast) -> bool:
    """Whether the second of two verdicts is told that the first has decided."""
    review_id = await review_of(app)
    answers = [await met(app.reviews.decide(review_id, "continue")) for _ in range(2)]
    return answers == ["done", IllegalMove.code]


async def test_a_verdict_after_the_verdict_is_told_so(apps):
    assert await is_refused_in_order(apps[0])


@pytest.mark.usefixtures("an_old_look")
async def test_the_broken_twin_that_looks_before_it_locks_does_not_see_the_first(apps):
    assert not await is_refused_in_order(apps[0])
