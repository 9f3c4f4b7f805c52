"""`stepfast runs show`, `events`, `watch` and `why`."""

from __future__ import annotations

import json

import pytest

from tests.cli.office import HOSTILE, WORKFLOWS, asking, checkout, failing
from tests.support.apps import app_on

UNKNOWN = "01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22"


@pytest.fixture
async def failed(database, client):
    """A run that has failed."""
    async with app_on(database, WORKFLOWS) as app:
        run = await app.start(failing)
        with pytest.raises(Exception, match="failed with"):
            await run.result(timeout="30s")
    return client.get(run.id)


async def test_a_run_is_shown_with_its_steps(failed, office):
    done = await office("runs", "show", failed.id)
    shown = ["failing@1", "failed", "charge#1", "refuse#1", '"1 for before"', "ValueError: no card"]
    assert [part for part in shown if part not in done.out] == []


async def test_a_run_in_json_has_its_steps_and_errors_whole(failed, office):
    shown = await office.json("runs", "show", failed.id)
    assert [step["step"] for step in shown["steps"]] == ["charge#1", "refuse#1"]
    assert (shown["steps"][0]["value"], shown["error"]["message"]) == ("1 for before", HOSTILE)


@pytest.mark.parametrize("command", ["show", "events", "why", "watch"])
async def test_what_a_value_holds_cannot_steer_the_terminal(failed, office, command):
    done = await office("runs", command, failed.id)
    assert [character for character in "\x1b\u202e" if character in done.out + done.err] == []
    assert "[bold]left[/bold]" in done.out


async def test_the_beginning_of_an_id_is_enough(client, office):
    run = await client.start(checkout, "a")
    assert (await office.json("runs", "show", run.id[:18]))["run_id"] == run.id


async def test_the_beginning_of_several_ids_is_refused_and_names_two(client, office):
    runs = [await client.start(checkout, str(n)) for n in range(2)]
    done = await office("runs", "show", runs[0].id[:8])
    assert (done.code, [run.id for run in runs if run.id not in done.err]) == (2, [])


async def test_too_short_a_beginning_is_refused(office):
    done = await office("runs", "show", "0193")
    assert (done.code, "at least its first 8 digits" in done.err) == (2, True)


NOT_THERE = {"unknown": UNKNOWN, "no id at all": "checkout", "the beginning of none": UNKNOWN[:13]}


async def test_a_run_that_is_not_there_is_not_found(office):
    for kind, run in NOT_THERE.items():
        done = await office("runs", "show", run)
        assert (done.code, done.out, done.err.count("\n")) == (3, "", 1), kind
        assert done.err.startswith("E-RUN-001: Run "), kind


async def test_a_run_of_another_tenant_is_not_found(client, office):
    run = await client.start(checkout, "a", tenant="acme")
    for command in ("show", "events", "why", "watch", "cancel", "pause", "resume", "retry", "rerun"):
        done = await office("runs", command, run.id)
        assert (done.code, "--tenant" in done.err) == (3, True), command


async def test_a_run_of_any_tenant_is_found_when_all_are_asked_for(client, office):
    run = await client.start(checkout, "a", tenant="acme")
    assert (await office.json("runs", "show", run.id, "--all-tenants"))["tenant"] == "acme"


async def test_events_come_oldest_first(failed, office):
    page = await office.json("runs", "events", failed.id)
    assert [event["seq"] for event in page["items"]] == list(range(1, len(page["items"]) + 1))
    assert (page["items"][-1]["type"], page["items"][-1]["data"]["message"]) == ("failed", HOSTILE)


async def test_events_have_pages(failed, office):
    first = await office.json("runs", "events", failed.id, "--limit", "3")
    second = await office.json("runs", "events", failed.id, "--limit", "3", "--cursor", first["next_cursor"])
    assert [event["seq"] for event in first["items"] + second["items"]] == [1, 2, 3, 4, 5, 6]


async def test_watching_an_ended_run_tells_all_and_ends(failed, office):
    done = await office("runs", "watch", failed.id)
    assert (done.code, done.err) == (0, "The run is failed.\n")
    assert len(done.out.splitlines()) == len(await failed.history())


async def test_watching_in_json_is_an_object_a_line(failed, office):
    done = await office("runs", "watch", failed.id, "-o", "json")
    assert [json.loads(line)["seq"] for line in done.out.splitlines()][-1] == len(await failed.history())


async def test_watching_goes_on_until_the_run_ends(database, client, office):
    run = await client.start(asking)
    await run.signal("approval", "yes")
    async with app_on(database, WORKFLOWS):
        done = await office("runs", "watch", run.id, "--timeout", "30s")
    assert (done.code, done.out.splitlines()[-1].split()[-1]) == (0, "completed")


async def test_watching_past_the_timeout_ends_with_its_own_code(client, office):
    run = await client.start(asking)
    done = await office("runs", "watch", run.id, "--timeout", "200ms")
    assert (done.code, done.err.startswith("E-WAIT-001: ")) == (124, True)


async def test_why_names_what_can_move_a_run(client, office):
    run = await client.start(checkout, "a")
    done = await office("runs", "why", run.id)
    assert done.out == f"Run {run.id} is pending.\nNo worker is alive. Start one with `stepfast worker`.\n"


async def test_why_in_json_has_a_reason_each(client, office):
    run = await client.start(checkout, "a", delay="1h")
    answer = await office.json("runs", "why", run.id)
    assert [reason["kind"] for reason in answer["reasons"]] == ["delay"]
