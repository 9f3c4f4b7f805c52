"""The exception queue of an app: what is in it, who sees to it, and equal failures as one line."""

from __future__ import annotations

import pytest

from stepfast import IllegalMove, Invalid, NotFound, Retry, RunFailed, RunState, Start, review, step, workflow
from stepfast.kernel.errors import KeyReused
from stepfast.kernel.reviews import ItemKind
from tests.support.apps import app_on
from tests.support.following import state_of

HOSTILE = "\x1b[31m<script>alert(1)</script>"


class Shop:
    """A workflow that fails for as long as the shop is closed, and one that asks a person."""

    def __init__(self) -> None:
        self.is_open = False

        @step(retry=Retry(attempts=1))
        async def charge(order: int) -> int:
            if not self.is_open:
                raise ConnectionError(f"order {order} was refused by 'bank-{order}'")
            return order

        @workflow
        async def checkout(order: int) -> int:
            return await charge(order)

        @workflow
        async def asking(title: str) -> str:
            return (await review(title, role="legal", kind="policy_conflict")).verdict

        self.checkout, self.asking = checkout, asking


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
async def app(database, shop):
    async with app_on(database, [shop.checkout, shop.asking]) as app:
        yield app


async def fail(app, shop, orders, **options):
    """Runs that have failed, the oldest first."""
    runs = [await app.start(shop.checkout, order, **options) for order in range(orders)]
    for run in runs:
        with pytest.raises(RunFailed):
            await run.result(timeout="30s")
    return runs


async def ask(app, shop, title="May it?", **options):
    """A run that waits for a person."""
    run = await app.start(shop.asking, title, **options)
    await state_of(run, RunState.WAITING)
    return run


async def test_a_failure_is_an_item_that_leads_to_its_run_and_dead_letter(app, shop):
    [run] = await fail(app, shop, 1)
    [item] = await app.exceptions.list()
    assert (item.id, item.kind, item.step) == (f"{run.id}.failed:1", ItemKind.FAILED, "charge#1")
    assert (item.dead_letter, item.review_id) == (run.id, None)
    assert await app.dead_letters.get(item.dead_letter)


async def test_a_review_is_an_item_that_leads_to_it(app, shop):
    run = await ask(app, shop, HOSTILE)
    [item] = await app.exceptions.list(run_id=run.id)
    assert (item.kind, item.title, item.dead_letter) == (ItemKind.POLICY_CONFLICT, HOSTILE, None)
    assert (await app.reviews.get(item.review_id)).title == HOSTILE


async def test_a_decided_review_is_out_of_the_queue(app, shop):
    run = await ask(app, shop)
    [item] = await app.exceptions.list()
    await app.reviews.decide(item.review_id, "continue", actor="ann", role="legal")
    assert await run.result(timeout="30s") == "continue"
    whole = await app.exceptions.get(item.id)
    assert (await app.exceptions.list(), whole.item.resolution, whole.item.actor) == ([], "continue", "ann")


@pytest.mark.parametrize(
    ("filters", "number"),
    [
        ({}, 3),
        ({"kind": "failed"}, 2),
        ({"kind": "blocked"}, 0),
        ({"workflow": "asking"}, 1),
        ({"tenant": "acme"}, 1),
        ({"assignee": "ben"}, 1),
        ({"opened_after": 2**50}, 0),
    ],
)
async def test_items_are_found_and_counted_by_filters(app, shop, filters, number):
    await fail(app, shop, 1)
    [run] = await fail(app, shop, 1, tenant="acme")
    await ask(app, shop)
    await app.exceptions.assign(f"{run.id}.failed:1", "ben")
    assert len(await app.exceptions.list(**filters)) == number
    assert sum((await app.exceptions.count(**filters)).values()) == number


async def test_every_kind_is_counted(app, shop):
    await fail(app, shop, 2)
    counts = await app.exceptions.count()
    assert (counts, counts["failed"]) == (dict.fromkeys(ItemKind, 0) | {ItemKind.FAILED: 2}, 2)


async def test_a_page_begins_where_the_one_before_ended(app, shop):
    runs = await fail(app, shop, 3)
    first = await app.exceptions.list(limit=2)
    rest = await app.exceptions.list(cursor=first[-1].id)
    assert [item.run_id for item in (*first, *rest)] == [run.id for run in reversed(runs)]


async def test_a_commented_item_has_what_was_said(app, shop):
    [run] = await fail(app, shop, 1)
    await app.exceptions.comment(f"{run.id}.failed:1", HOSTILE, actor="ann")
    whole = await app.exceptions.get(f"{run.id}.failed:1")
    assert [(said.actor, said.text) for said in whole.comments] == [("ann", HOSTILE)]


async def test_who_is_assigned_a_review_must_answer_it(app, shop):
    await ask(app, shop)
    [item] = await app.exceptions.list()
    await app.exceptions.assign(item.id, "ben", actor="ann")
    assert (await app.reviews.get(item.review_id)).assignee == "ben"
    assert [found.id for found in await app.exceptions.list(assignee="ben")] == [item.id]


async def test_a_review_that_nobody_is_assigned_any_more_is_for_its_role_again(app, shop):
    await ask(app, shop)
    [item] = await app.exceptions.list()
    await app.exceptions.assign(item.id, "ben")
    await app.exceptions.assign(item.id, None)
    found = await app.reviews.get(item.review_id)
    assert (found.assignee, found.role) == (None, "legal")


async def test_a_resolved_failure_is_discarded(app, shop):
    [run] = await fail(app, shop, 1)
    changed = await app.exceptions.resolve(f"{run.id}.failed:1", actor="ann", reason="a test order")
    assert (changed.state, await app.exceptions.list(), await app.dead_letters.list()) == (RunState.FAILED, [], [])
    assert [event.type for event in await run.history()][-2:] == ["exception_resolved", "dlq_discarded"]


async def test_a_review_is_not_resolved_but_answered(app, shop):
    run = await ask(app, shop)
    [item] = await app.exceptions.list()
    with pytest.raises(IllegalMove, match=f"stepfast reviews decide {run.id}.1 VERDICT"):
        await app.exceptions.resolve(item.id)


@pytest.mark.parametrize("act", ["get", "resolve"])
async def test_an_item_of_another_tenant_is_not_found(app, shop, act):
    [run] = await fail(app, shop, 1, tenant="acme")
    with pytest.raises(NotFound):
        await getattr(app.exceptions, act)(f"{run.id}.failed:1", tenant="other")


@pytest.mark.parametrize(
    "name", ["", "nonsense", "x.failed:1", "failed:1", f"{'0' * 32}.failed:0", f"{'0' * 32}.odd:1"]
)
async def test_what_names_no_item_is_not_found(app, name):
    with pytest.raises(NotFound):
        await app.exceptions.get(name)


@pytest.mark.parametrize("wrong", [{"kind": "odd"}, {"cursor": "odd"}, {"limit": 0}, {"opened_after": -1}])
async def test_filters_that_cannot_be_are_refused(app, wrong):
    with pytest.raises(Invalid):
        await app.exceptions.list(**wrong)


@pytest.mark.parametrize("text", ["", "x" * 10_001, "a\0b"])
async def test_a_comment_that_cannot_be_kept_is_refused(app, shop, text):
    [run] = await fail(app, shop, 1)
    with pytest.raises(Invalid):
        await app.exceptions.comment(f"{run.id}.failed:1", text)


async def test_equal_failures_are_one_line(app, shop):
    runs = await fail(app, shop, 5)
    [group] = await app.exceptions.groups()
    assert (group.size, group.workflow, group.newest.run_id) == (5, "checkout", runs[-1].id)
    assert group.shape == "charge: builtins:ConnectionError: order <n> was refused by <text>"
    assert await app.dead_letters.groups() == [group]


async def test_reviews_are_grouped_by_the_call_that_asks_and_are_no_dead_letters(app, shop):
    for title in ("one", "two"):
        await ask(app, shop, title)
    [group] = await app.exceptions.groups(kind="policy_conflict")
    assert (group.size, group.title, await app.dead_letters.groups()) == (2, "two", [])


@pytest.mark.parametrize("name", ["id", "shape"])
async def test_a_whole_group_is_replayed_after_a_dry_run(app, shop, name):
    runs = await fail(app, shop, 3)
    [group] = await app.dead_letters.groups()
    wanted = {"group": getattr(group, name)}
    dry = await app.dead_letters.replay_many(**wanted, dry_run=True)
    assert (dry.matched, len(await app.dead_letters.list())) == (3, 3)
    shop.is_open = True
    answer = await app.dead_letters.replay_many(**wanted, actor="ann")
    assert set(answer.changed) == {run.id for run in runs}
    assert [await run.result(timeout="30s") for run in runs] == [0, 1, 2]
    assert await app.exceptions.list() == []


async def test_a_group_of_one_tenant_leaves_those_of_others(app, shop):
    [mine], [other] = await fail(app, shop, 1, tenant="acme"), await fail(app, shop, 1)
    [group] = await app.dead_letters.groups(tenant="acme")
    answer = await app.dead_letters.discard_many(group=group.id, tenant="acme")
    assert answer.changed == (mine.id,)
    assert [letter.run_id for letter in await app.dead_letters.list()] == [other.id]


async def test_a_group_that_has_no_letters_is_not_found(app, shop):
    await fail(app, shop, 1)
    with pytest.raises(NotFound, match="group 0123abcd"):
        await app.dead_letters.replay_many(group="0123abcd")


async def test_a_thousand_equal_failures_are_one_line_and_one_replay(app, shop):
    answers = await app.start_many(Start(shop.checkout, order) for order in range(1_000))
    for answer in answers:
        with pytest.raises(RunFailed):
            await answer.run.result(timeout="60s")
    [group] = await app.exceptions.groups()
    shop.is_open = True
    answer = await app.dead_letters.replay_many(group=group.id)
    assert (group.size, len(answer.changed), await app.exceptions.groups()) == (1_000, 1_000, [])


async def test_a_key_of_another_command_is_refused_in_the_words_of_the_call(app, shop):
    [run] = await fail(app, shop, 1)
    await app.exceptions.assign(f"{run.id}.failed:1", "ann", key="k")
    with pytest.raises(KeyReused, match="was used before for another `exceptions assign`"):
        await app.exceptions.assign(f"{run.id}.failed:1", "bob", key="k")
