"""`stepfast exceptions`, and groups of dead letters."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stepfast import RunFailed, RunState, receive, step, workflow
from tests.cli.desk import HOSTILE, WORKFLOWS, drafting, sending
from tests.cli.invoking import Office
from tests.support.apps import app_on
from tests.support.following import state_of, until


@pytest.fixture
async def desk(database):
    async with app_on(database, WORKFLOWS) as app:
        yield app


@pytest.fixture
def office(desk):
    return Office(desk.database)


@pytest.fixture
async def failed(desk):
    """Two failures that are alike, older first."""
    runs = [await desk.start(sending, order) for order in (17, 18)]
    for run in runs:
        with pytest.raises(RunFailed):
            await run.result(timeout="30s")
    return runs


@pytest.fixture
async def waiting(desk):
    """A run that waits for a person, under a title that would like to own the terminal."""
    run = await desk.start(drafting, HOSTILE)
    await state_of(run, RunState.WAITING)
    return run


async def listed(office, *options):
    return [item["id"] for item in (await office.json("exceptions", "list", *options))["items"]]


def is_harmless(text: str) -> bool:
    return not any(character in text for character in "\x1b\x07\u202e")


async def test_items_are_listed_newest_first(failed, office):
    assert await listed(office) == [f"{run.id}.failed:1" for run in reversed(failed)]


def changing(name: str) -> Any:
    """A workflow of one step, whose name the code goes by."""

    @step(name=name)
    async def only() -> None:
        """Nothing that anybody would miss."""

    @workflow(name="changing")
    async def code() -> str:
        await only()
        return await receive("go", str)

    return code


async def test_the_item_of_a_run_that_no_code_fits_names_the_way_out(database, desk, office):
    async with app_on(database, [first := changing("first")]) as app:
        run = await app.start(first)
        await state_of(run, RunState.WAITING)
        await run.signal("go", "x")
        await run.result(timeout="30s")
        await run.rollback("first#1")
    await desk.get(run.id).resume()
    await desk.get(run.id).signal("go", "y")
    async with app_on(database, [changing("other")]):
        item = f"{run.id}.blocked:{(await desk.get(run.id).info()).generation}"
        await until(partial(listed, office, "--kind", "blocked"))
        done = await office("exceptions", "show", item)
    assert (done.code, f"`stepfast runs rollback {run.id} --to STEP`" in done.err) == (0, True)
    refused = await office("exceptions", "resolve", item)
    assert (refused.code, f"`stepfast runs resume {run.id}`" in refused.err) == (4, True)


async def test_a_list_for_people_steers_no_terminal(failed, waiting, office):
    done = await office("exceptions", "list")
    assert (done.code, is_harmless(done.out), "\\x1b]0;owned" in done.out) == (0, True, True)


async def test_items_can_be_chosen(failed, waiting, office):
    await office("exceptions", "assign", f"{failed[0].id}.failed:1", "ben")
    chosen = [
        await listed(office, *options)
        for options in (
            ("--kind", "failed"),
            ("--kind", "blocked"),
            ("--workflow", "drafting"),
            ("--assignee", "ben"),
            ("--run", waiting.id),
            ("--since", "1h"),
            ("--tenant", "acme"),
        )
    ]
    assert [len(items) for items in chosen] == [2, 0, 1, 1, 1, 3, 0]


async def test_items_have_pages(failed, office):
    page = await office.json("exceptions", "list", "--limit", "1")
    assert await listed(office, "--cursor", page["next_cursor"]) == [f"{failed[0].id}.failed:1"]


async def test_an_item_is_shown_with_what_was_said_of_it(failed, office):
    name = f"{failed[0].id}.failed:1"
    await office("exceptions", "comment", name, HOSTILE, "--actor", "ann")
    shown = await office.json("exceptions", "show", name)
    assert (shown["dead_letter"], shown["review_id"]) == (failed[0].id, None)
    assert [(said["actor"], said["text"]) for said in shown["comments"]] == [("ann", HOSTILE)]
    done = await office("exceptions", "show", name)
    assert (is_harmless(done.out), "<script>" in done.out) == (True, True)


async def test_a_run_alone_stands_for_its_only_open_item(waiting, office):
    shown = await office.json("exceptions", "show", waiting.id)
    assert shown["review_id"] == f"{waiting.id}.{shown['cause'].removeprefix('review:')}"


async def test_a_run_without_an_open_item_stands_for_none(failed, office):
    await office("exceptions", "resolve", failed[0].id)
    done = await office("exceptions", "show", failed[0].id)
    assert (done.code, "no open exception item" in done.err) == (3, True)


async def test_an_assigned_item_is_told_of(failed, office):
    done = await office("exceptions", "assign", failed[0].id, f"ben {HOSTILE}", "--actor", "ann")
    assert (done.code, is_harmless(done.out), "is assigned to ben" in done.out) == (0, True, True)
    assert (await failed[0].history())[-1].actor == "ann"


async def test_an_item_can_be_taken_from_its_assignee(failed, office):
    await office("exceptions", "assign", failed[0].id, "ben")
    await office("exceptions", "assign", failed[0].id, "--nobody")
    assert await listed(office, "--assignee", "ben") == []


@pytest.mark.parametrize("words", [(), ("ben", "--nobody")])
async def test_whom_an_item_is_assigned_to_is_never_guessed(failed, office, words):
    done = await office("exceptions", "assign", failed[0].id, *words)
    assert done.code == 2


async def test_a_resolved_failure_leaves_the_queue_and_the_dead_letters(failed, office):
    answer = await office.json("exceptions", "resolve", failed[0].id, "--reason", "a test order")
    assert answer == {"id": f"{failed[0].id}.failed:1", "run_id": failed[0].id, "state": "failed"}
    assert await listed(office) == [f"{failed[1].id}.failed:1"]
    letters = await office.json("dead-letters", "list")
    assert [letter["run_id"] for letter in letters["items"]] == [failed[1].id]


async def test_a_failure_that_is_resolved_again_with_its_key_is_resolved_once_and_says_the_same(failed, office):
    first, again = [await office("exceptions", "resolve", failed[0].id, "--key", "resolve-1") for _ in range(2)]
    assert (first.code, again.code, again.out) == (0, 0, first.out)


async def test_a_review_is_not_resolved_by_hand(waiting, office):
    done = await office("exceptions", "resolve", waiting.id)
    assert (done.code, "stepfast reviews decide" in done.err) == (4, True)


@pytest.mark.parametrize("name", ["nonsense", "{run}.odd:1", "{run}.failed:7"])
async def test_what_is_no_item_is_not_found(failed, office, name):
    done = await office("exceptions", "show", name.format(run=failed[0].id))
    assert done.code == 3


async def test_an_item_of_another_tenant_is_not_found(failed, office):
    done = await office("exceptions", "resolve", f"{failed[0].id}.failed:1", "--tenant", "acme")
    assert (done.code, len(await listed(office))) == (3, 2)


async def test_items_are_counted_by_kind(failed, waiting, office):
    counts = await office.json("exceptions", "count")
    assert (counts["failed"], counts["review_required"], counts["blocked"]) == (2, 1, 0)


@pytest.mark.parametrize("family", ["exceptions", "dead-letters"])
async def test_equal_failures_are_one_line(failed, office, family):
    page = await office.json(family, "groups")
    [group] = page["items"]
    assert (group["size"], group["workflow"], group["newest"]) == (2, "sending", f"{failed[1].id}.failed:1")
    done = await office(family, "groups")
    assert (is_harmless(done.out), f"--group {group['id']} --dry-run" in done.err) == (True, True)


async def test_there_may_be_no_groups(desk, office):
    done = await office("exceptions", "groups")
    assert (done.code, done.out, "No exception items are open." in done.err) == (0, "", True)


async def test_a_whole_group_is_replayed_after_a_dry_run(failed, office):
    [group] = (await office.json("exceptions", "groups"))["items"]
    dry = await office.json("dead-letters", "replay", "--group", group["id"], "--dry-run")
    assert (dry["matched"], len(await listed(office))) == (2, 2)
    answer = await office.json("dead-letters", "replay", "--group", group["id"])
    assert answer["changed"] == dry["changed"] == [run.id for run in reversed(failed)]


async def test_a_group_can_be_named_by_its_shape(failed, office):
    [group] = (await office.json("exceptions", "groups"))["items"]
    answer = await office.json("dead-letters", "discard", "--group", group["shape"])
    assert (len(answer["changed"]), await listed(office)) == (2, [])


async def test_a_group_that_nobody_has_seen_is_not_found(failed, office):
    done = await office("dead-letters", "replay", "--group", "0123abcd")
    assert (done.code, "exceptions groups" in done.err) == (3, True)
