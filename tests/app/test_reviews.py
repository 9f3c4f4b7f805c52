"""Reviews at the door of an app: listed, looked at, answered by people whom the application knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from stepfast import Invalid, NotFound, Run, race, review, sleep, workflow
from stepfast.kernel.errors import KeyReused, RoleNotAllowed, TokenUsed, Unstorable, VerdictNotAllowed
from stepfast.kernel.reviews import Owner, Verdict, parse_review_id
from stepfast.reviews import Answer
from stepfast.sync import Stepfast as BlockingStepfast
from stepfast.testing import engine
from tests.support.apps import app_on
from tests.support.asking import events_of, review_of
from tests.support.sql import tamper
from tests.support.workflows import say


class Invoice(BaseModel):
    total: int
    lines: list[str] = []


@workflow
async def approve(total: int) -> dict[str, Any]:
    answer = await review("Pay it?", show=Invoice(total=total), type=Invoice)
    return {"verdict": answer.verdict, "total": answer.value.total, "lines": len(answer.value.lines)}


@workflow
async def hurried() -> str:
    return (await review("Now?", expires="1h", on_expiry="continue")).verdict


@workflow
async def raced() -> str:
    return (await race(answer=review("First?"), late=sleep("1h")))[0]


@workflow
async def insistent() -> str:
    """Fails while its review is open, and asks again when it is run again."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_fail_later())
        answer = group.create_task(_ask())
    return answer.result()


async def _fail_later() -> None:
    await sleep("1h")
    raise ValueError("too late")


async def _ask() -> str:
    return (await review("Again?")).verdict


@pytest.fixture
async def app(database, token_keys):
    async with app_on(database, [say], worker=False) as app:
        yield app


@pytest.fixture
async def desk(database):
    """An engine whose time stands still, for what the run's code gets to see."""
    async with engine(database=database, workflows=[approve, hurried, raced, insistent]) as opened:
        yield opened


async def opened_by(desk) -> tuple[Run[Any], str]:
    run = await desk.start(approve, 12)
    await desk.run_until_idle()
    [view] = await desk.app.reviews.list(run_id=run.id)
    return run, view.review_id


async def test_a_review_is_listed_while_it_is_open(app):
    review_id = await review_of(app)
    [view] = await app.reviews.list()
    assert (view.review_id, view.title, view.workflow, view.state) == (review_id, "May it go out?", "say", "open")
    await app.reviews.decide(review_id, "continue")
    assert await app.reviews.list() == []
    assert [view.review_id for view in await app.reviews.list(state=None)] == [review_id]


@pytest.mark.parametrize(
    ("filters", "number"),
    [
        ({"workflow": "say"}, 1),
        ({"workflow": "other"}, 0),
        ({"tenant": "acme"}, 1),
        ({"tenant": "default"}, 0),
        ({"role": "legal"}, 1),
        ({"role": "no-such-role"}, 0),
        ({"assignee": "ann"}, 1),
        ({"state": "decided"}, 0),
        ({"opened_after": 2**50}, 0),
    ],
)
async def test_reviews_are_found_by_filters(app, filters, number):
    await review_of(app, start={"tenant": "acme"}, owner=Owner("ann", "legal"))
    assert len(await app.reviews.list(**filters)) == number


async def test_the_next_page_begins_where_the_last_one_ended(app):
    ids = [await review_of(app) for _ in range(3)]
    first = await app.reviews.list(limit=2)
    rest = await app.reviews.list(cursor=first[-1].review_id)
    assert [view.review_id for view in (*first, *rest)] == sorted(ids, reverse=True)


@pytest.mark.parametrize(
    "wrong", [{"state": "perhaps"}, {"limit": 0}, {"cursor": "x"}, {"opened_after": -1}, {"role": ""}]
)
async def test_a_filter_that_makes_no_sense_is_refused(app, wrong):
    with pytest.raises(Invalid):
        await app.reviews.list(**wrong)


async def test_a_review_is_shown_whole(app):
    review_id = await review_of(app, schema='{"type": "object"}', quorum=2)
    await app.reviews.decide(review_id, "correct", {"total": 13}, note="one more", actor="ann")
    await app.reviews.comment(review_id, "hm", actor="bob")
    found = await app.reviews.get(review_id)
    assert (found.shown, found.schema) == ({"total": 12}, {"type": "object"})
    assert found.answers == (Answer("ann", Verdict.CORRECT, {"total": 13}, "one more", found.answers[0].at),)
    assert [(comment.actor, comment.text) for comment in found.comments] == [("bob", "hm")]


@pytest.mark.parametrize(
    "review_id", ["", "x", "01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22", "01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22.1"]
)
async def test_a_review_that_does_not_exist_is_not_found(app, review_id):
    for call in (app.reviews.get(review_id), app.reviews.decide(review_id, "continue")):
        with pytest.raises(NotFound):
            await call


async def test_the_review_of_another_tenant_is_not_found(app):
    review_id = await review_of(app, start={"tenant": "acme"})
    for call in (
        app.reviews.get(review_id, tenant="other"),
        app.reviews.decide(review_id, "continue", tenant="other"),
        app.reviews.decide(review_id, "correct", 1, tenant="other"),
        app.reviews.comment(review_id, "hm", tenant="other"),
        app.reviews.reassign(review_id, "eve", tenant="other"),
        app.reviews.delegate(review_id, "eve", actor="ann", tenant="other"),
        app.reviews.issue_token(review_id, actor="eve", tenant="other"),
    ):
        with pytest.raises(NotFound):
            await call
    assert (await app.reviews.get(review_id, tenant="acme")).state == "open"


async def test_an_answer_lets_the_run_go_on(desk):
    run, review_id = await opened_by(desk)
    await desk.app.reviews.decide(review_id, "continue", actor="ann")
    assert await desk.result(run) == {"verdict": "continue", "total": 12, "lines": 0}


async def test_a_correction_reaches_the_code_as_its_type(desk):
    run, review_id = await opened_by(desk)
    await desk.app.reviews.decide(review_id, "correct", Invoice(total=13), actor="ann")
    assert await desk.result(run) == {"verdict": "correct", "total": 13, "lines": 0}


async def test_a_correction_of_a_megabyte_works(desk):
    run, review_id = await opened_by(desk)
    lines = ["x" * 1_000] * 1_000
    await desk.app.reviews.decide(review_id, "correct", {"total": 13, "lines": lines}, actor="ann")
    assert (await desk.app.reviews.get(review_id)).answers[0].value["lines"] == lines
    assert await desk.result(run) == {"verdict": "correct", "total": 13, "lines": 1_000}
    assert (await desk.app.reviews.get(review_id)).answers[0].value["lines"] == lines


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"total": "a lot"}, r"\$\.total"),
        ({"lines": []}, r"\$: 'total'"),
        ({"total": 1, "lines": ["a", 2]}, r"\$\.lines\[1\]"),
        (None, r"\$: None"),
        ({"total": 1, "lines": [7] * 50_000}, r"\$\.lines\[\d+\]"),
    ],
)
async def test_a_correction_of_another_shape_is_refused_with_its_path_and_changes_nothing(desk, value, path):
    _, review_id = await opened_by(desk)
    with pytest.raises(Invalid, match=path):
        await desk.app.reviews.decide(review_id, "correct", value, actor="ann")
    found = await desk.app.reviews.get(review_id)
    assert (found.state, found.answers) == ("open", ())


async def test_a_schema_that_asks_elsewhere_for_its_parts_is_refused_without_asking(app):
    review_id = await review_of(app, schema='{"$ref": "http://127.0.0.1:9/schema.json"}')
    with pytest.raises(Invalid, match=r"refers to 'http://127.0.0.1:9/schema.json'"):
        await app.reviews.decide(review_id, "correct", 1)


@pytest.mark.parametrize(
    ("form", "wrong", "right"),
    [
        ("date", "tomorrow", "2020-02-29"),
        ("date-time", "2020-02-30T00:00:00", "2020-02-29T10:00:00Z"),
        ("time", "25:00", "23:59"),
        ("duration", "a while", "PT5M"),
        ("uuid", "7", "01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22"),
        ("ipv4", "300.0.0.1", "10.0.0.1"),
        ("ipv6", "::x", "::1"),
    ],
)
async def test_a_text_that_the_code_could_not_read_is_refused_to_whoever_wrote_it(app, form, wrong, right):
    review_id = await review_of(app, schema=f'{{"type": ["string", "null"], "format": "{form}"}}', quorum=3)
    with pytest.raises(Invalid, match=f"is not a '{form}'"):
        await app.reviews.decide(review_id, "correct", wrong, actor="ann")
    await app.reviews.decide(review_id, "correct", right, actor="ann")
    await app.reviews.decide(review_id, "correct", None, actor="bob")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('{"multipleOf": 0.5}', 10**400),
        ('{"$ref": "#/x", "x": 5}', 1),
        ('{"$ref": "#/x", "x": {"pattern": "("}}', "a"),
        ('{"$ref": "#/a/b", "a": [1]}', 1),
        ('{"$id": "http://[::1", "$ref": "a"}', 1),
    ],
)
async def test_what_cannot_be_held_against_a_schema_is_refused(app, schema, value):
    review_id = await review_of(app, schema=schema)
    with pytest.raises(Invalid, match="cannot be held against the schema"):
        await app.reviews.decide(review_id, "correct", value)


async def test_a_value_that_is_no_json_is_refused(app):
    review_id = await review_of(app)
    with pytest.raises(Unstorable):
        await app.reviews.decide(review_id, "correct", object())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"verdict": "perhaps"}, VerdictNotAllowed),
        ({"verdict": "retry"}, VerdictNotAllowed),
        ({"verdict": ""}, Invalid),
        ({"verdict": None}, Invalid),
        ({"verdict": "x" * 2_000}, Invalid),
        ({"verdict": "continue", "value": 1}, Invalid),
        ({"verdict": "continue", "note": "x" * 20_000}, Invalid),
        ({"verdict": "continue", "note": "\0"}, Invalid),
        ({"verdict": "continue", "digest": "of something else"}, VerdictNotAllowed),
        ({"verdict": "escalate"}, Invalid),
    ],
)
async def test_an_answer_that_makes_no_sense_is_refused_and_changes_nothing(app, arguments, error):
    review_id = await review_of(app)
    run = app.get(parse_review_id(review_id).run_id)
    before = await app.reviews.get(review_id), await run.history()
    with pytest.raises(error):
        await app.reviews.decide(review_id, **arguments)
    assert (await app.reviews.get(review_id), await run.history()) == before


async def test_whoever_has_not_the_role_is_refused(app):
    review_id = await review_of(app, owner=Owner(None, "legal"))
    with pytest.raises(RoleNotAllowed, match="legal"):
        await app.reviews.decide(review_id, "continue", actor="ann", role="sales")
    await app.reviews.decide(review_id, "continue", actor="ann", role="legal")


async def test_people_of_a_quorum_are_counted_once(app):
    review_id = await review_of(app, quorum=2)
    await app.reviews.decide(review_id, "continue", actor="ann")
    with pytest.raises(TokenUsed, match="ann has answered"):
        await app.reviews.decide(review_id, "continue", actor="ann")
    await app.reviews.decide(review_id, "continue", actor="bob")
    assert (await app.reviews.get(review_id)).verdict == "continue"


async def test_an_escalated_review_stays_open_for_somebody_else(app):
    review_id = await review_of(app)
    await app.reviews.decide(review_id, "escalate", actor="ann", to_role="boss", note="above me")
    found = await app.reviews.get(review_id)
    assert (found.state, found.role, found.escalations) == ("open", "boss", 1)
    [(told, actor)] = await events_of(app, review_id, "review_escalated")
    assert (told["note"], told["role"], actor) == ("above me", "boss", "ann")


async def test_whoever_is_asked_hands_it_on_and_nobody_else(app):
    review_id = await review_of(app, owner=Owner("ann"))
    with pytest.raises(RoleNotAllowed):
        await app.reviews.delegate(review_id, "bob", actor="eve")
    await app.reviews.delegate(review_id, "bob", actor="ann")
    with pytest.raises(RoleNotAllowed):
        await app.reviews.decide(review_id, "continue", actor="ann")
    await app.reviews.decide(review_id, "continue", actor="bob")


async def test_a_review_is_reassigned_by_anybody_whom_the_application_lets(app):
    review_id = await review_of(app, owner=Owner("ann"))
    await app.reviews.reassign(review_id, role="legal", actor="eve", reason="ann is ill")
    found = await app.reviews.get(review_id)
    assert (found.assignee, found.role) == (None, "legal")


async def test_a_review_is_not_reassigned_to_nobody(app):
    review_id = await review_of(app)
    with pytest.raises(Invalid, match="say who"):
        await app.reviews.reassign(review_id)


async def test_an_answer_with_a_key_counts_once(app):
    review_id = await review_of(app, quorum=2)
    first = await app.reviews.decide(review_id, "correct", {"total": 13}, actor="ann", key="k")
    again = await app.reviews.decide(review_id, "correct", {"total": 13}, actor="ann", key="k")
    assert (first.repeated, again.repeated) == (False, True)
    with pytest.raises(KeyReused):
        await app.reviews.decide(review_id, "correct", {"total": 14}, actor="ann", key="k")


async def test_the_answer_of_one_person_is_not_taken_for_that_of_another_with_the_same_key(app):
    review_id = await review_of(app, quorum=2)
    await app.reviews.decide(review_id, "continue", actor="ann", key="k")
    with pytest.raises(KeyReused):
        await app.reviews.decide(review_id, "continue", actor="bob", key="k")


async def test_figures_are_held_against_a_target(app):
    for _ in range(2):
        await app.reviews.decide(await review_of(app), "continue")
    await review_of(app)
    stats = await app.reviews.stats()
    assert (stats.opened, stats.decided, stats.open, stats.in_time_share, stats.is_met) == (3, 2, 1, 1.0, True)


async def test_a_target_is_missed_when_people_take_longer_than_a_day(desk):
    _, review_id = await opened_by(desk)
    desk.clock.advance("25h")
    await desk.app.reviews.decide(review_id, "continue")
    stats = await desk.app.reviews.stats()
    assert (stats.in_time_share, stats.is_met, stats.waited_p95_ms) == (0.0, False, 25 * 3_600_000)
    assert (await desk.app.reviews.stats(target=0)).is_met


async def test_a_review_that_waits_for_more_than_a_day_counts_as_missed(desk):
    await opened_by(desk)
    assert (await desk.app.reviews.stats()).in_time_share is None
    desk.clock.advance("25h")
    await desk.run_until_idle()
    assert (await desk.app.reviews.stats()).in_time_share == 0.0


@pytest.mark.parametrize("wrong", [{"target": 2}, {"target": "much"}, {"after": -1}, {"before": "now"}])
async def test_figures_of_no_sense_are_refused(app, wrong):
    with pytest.raises(Invalid):
        await app.reviews.stats(**wrong)


async def test_figures_are_for_a_range_of_time(app):
    await review_of(app)
    now = await app.now()
    assert (await app.reviews.stats(before=now + 1_000)).opened == 1
    assert (await app.reviews.stats(after=now + 1_000)).opened == 0


async def test_every_review_has_one_end_whatever_became_of_it(desk):
    """Decided, rejected, cancelled, expired, lost to a timer, asked anew by a rerun; and one is open."""
    decided, rejected, cancelled, _ = [await opened_by(desk) for _ in range(4)]
    others = [await desk.start(work) for work in (hurried, raced, insistent)]
    await desk.run_until_idle()
    await desk.app.reviews.decide(decided[1], "continue")
    await desk.app.reviews.decide(rejected[1], "reject")
    await cancelled[0].cancel()
    desk.clock.advance("2h")
    await desk.run_until_idle()
    await others[2].rerun()
    await desk.run_until_idle()
    assert await desk.app.reviews.check() == []
    stats = await desk.app.reviews.stats()
    assert (stats.opened, stats.decided, stats.expired, stats.withdrawn, stats.open) == (8, 2, 1, 3, 2)


@pytest.mark.parametrize(
    "tampering",
    [
        "delete from stepfast.event where type = 'review_decided'",
        "update stepfast.review set state = 'open', ended_at = null",
        "update stepfast.review set state = 'withdrawn'",
        "delete from stepfast.event where type = 'review_requested'",
    ],
)
async def test_a_review_whose_history_says_something_else_is_named(app, database, tampering):
    review_id = await review_of(app)
    await app.reviews.decide(review_id, "continue")
    await tamper(database, tampering)
    assert [found.review_id for found in await app.reviews.check()] == [review_id]


def test_the_same_doors_are_there_for_blocking_code(tmp_path):
    with BlockingStepfast(f"sqlite:///{tmp_path}/app.db", workflows=[approve]) as app:
        run = app.start(approve, 12)
        while not app.reviews.list():
            pass
        [view] = app.reviews.list()
        token = app.reviews.issue_token(view.review_id, actor="ann")
        app.reviews.resume(token, "correct", {"total": 13})
        assert run.result()["total"] == 13
        assert app.reviews.stats().decided == 1
