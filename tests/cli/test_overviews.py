"""`stepfast queues`, `workers` and `workflows`: what is there, and who serves it."""

from __future__ import annotations

from dataclasses import replace

from tests.cli.invoking import OFFICE
from tests.cli.office import WORKFLOWS, asking, checkout
from tests.support.apps import QUICK, app_on

IDLE = replace(QUICK, queues=("desk",), label="clerk")


async def test_queues_count_their_runs_and_workers(database, client, office):
    for queue in ("desk", "till", "till"):
        await client.start(asking, queue=queue)
    async with app_on(database, [checkout], worker=IDLE):
        items = (await office.json("queues", "list"))["items"]
    assert [(item["queue"], item["ready"], len(item["workers"])) for item in items] == [("desk", 1, 1), ("till", 2, 0)]


async def test_queues_are_a_table_for_people(client, office):
    await client.start(asking, queue="till")
    done = await office("queues", "list")
    assert [line.split()[:2] for line in done.out.splitlines()] == [["queue", "ready"], ["till", "1"]]


async def test_a_queue_is_shown_with_its_workers(database, client, office):
    async with app_on(database, [checkout], worker=IDLE):
        shown = await office.json("queues", "show", "desk")
        done = await office("queues", "show", "desk")
    assert ([worker["label"] for worker in shown["workers"]], "clerk" in done.out) == (["clerk"], True)


async def test_a_queue_without_runs_that_nobody_serves_is_a_word_on_stderr(client, office):
    done = await office("queues", "show", "nope")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("Queue nope has no open runs, and no worker serves it.")
    shown = await office.json("queues", "show", "nope")
    assert (shown["ready"], shown["running"], shown["workers"]) == (0, 0, [])


async def test_no_queues_are_a_word_on_stderr(office):
    done = await office("queues", "list")
    assert (done.out, done.err.startswith("No queues")) == ("", True)


async def test_workers_are_alive_or_dead(database, client, office):
    async with app_on(database, [checkout], worker=IDLE):
        during = (await office.json("workers", "list", "--alive"))["items"]
    after = await office.json("workers", "list")
    alive = await office.json("workers", "list", "--alive")
    assert [(worker["label"], worker["state"]) for worker in during + after["items"]] == [
        ("clerk", "alive"),
        ("clerk", "dead"),
    ]
    assert alive["items"] == []


async def test_a_worker_is_shown_by_its_label_or_its_id(database, client, office, nothing_left):
    async with app_on(database, [checkout], worker=IDLE):
        by_label = await office.json("workers", "show", "clerk")
        by_id = await office("workers", "show", by_label["worker_id"])
    assert (by_label["codes"], "desk" in by_id.out) == (["checkout@1"], True)


async def test_a_worker_that_is_not_there_is_not_found(office):
    done = await office("workers", "show", "nobody")
    assert (done.code, "stepfast workers list" in done.err) == (3, True)


async def test_no_workers_are_a_word_on_stderr(office):
    done = await office("workers", "list")
    assert (done.out, "stepfast worker" in done.err) == ("", True)


async def test_workflows_are_those_of_the_app_and_of_living_workers(database, client, office):
    async with app_on(database, [checkout], worker=IDLE):
        of_workers = (await office.json("workflows", "list"))["items"]
        of_both = (await office.json("workflows", "list", "--app", OFFICE))["items"]
    assert [(each["name"], each["in_app"], each["workers"]) for each in of_workers] == [("checkout", False, 1)]
    assert [(each["name"], each["in_app"], each["workers"]) for each in of_both] == [
        ("asking", True, 0),
        ("billing", True, 0),
        ("checkout", True, 1),
        ("failing", True, 0),
    ]


async def test_workflows_are_a_table_for_people(client, office):
    done = await office("workflows", "list", "--app", OFFICE)
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == sorted(each.workflow.name for each in WORKFLOWS)
