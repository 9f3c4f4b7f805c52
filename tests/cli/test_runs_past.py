"""`stepfast runs at`, `reconstruct`, `events --type` and `rollback --to STATE`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast import RunState, Stepfast, receive, step, workflow
from tests.support.apps import QUICK


@step(name="past_cli.note")
async def note(name: str) -> str:
    return name


@workflow(name="past_cli")
async def walk(name: str) -> str:
    await note(name)
    await receive("go")
    return await note("last")


@pytest.fixture
async def run(client: Stepfast) -> AsyncIterator[Any]:
    """A run that has ended, and waited before."""
    async with Stepfast(client.database, workflows=[walk], worker=QUICK) as app:
        run = await app.start(walk, "first")
        await run.signal("go")
        await run.result(timeout="60s")
        yield run


async def test_a_run_is_shown_as_of_an_event(office, run):
    found = await office.json("runs", "at", run.id, "1")
    assert (found["state"]["state"], found["state"]["event"], found["records"]) == ("pending", 1, [])


async def test_values_are_those_of_then(office, run):
    first = next(event.seq for event in await run.history() if event.type == "step_completed")
    found = await office.json("runs", "at", run.id, str(first))
    assert [(record["call"], record["value"]) for record in found["records"]] == [("past_cli.note#1", "first")]


async def test_for_people_it_is_a_table(office, run):
    done = await office("runs", "at", run.id, "2")
    assert (done.code, "running" in done.out) == (0, True)


async def test_a_run_is_shown_as_of_a_moment(office, run):
    found = await office.json("runs", "at", run.id, "2100-01-01T00:00:00")
    assert found["state"]["state"] == "completed"


@pytest.mark.parametrize(
    ("when", "code", "said"),
    [
        ("9999", 3, "there are"),
        ("0", 2, "event is 0"),
        ("-1", 2, "No such option"),
        ("-1.5", 2, "No such option"),
        ("+1", 2, "neither the number of an event nor a moment"),
        ("", 2, "neither the number of an event nor a moment"),
        ("--evnt", 2, "No such option"),
        ("1999-01-01", 3, "it was stored at"),
        ("9" * 5_000, 2, "event is"),
        ("0001-01-01T00:00:00+14:00", 3, "it was stored at"),
        ("yesterday", 2, "neither the number of an event nor a moment"),
    ],
)
async def test_what_is_no_moment_of_the_run_is_refused(office, run, when, code, said):
    done = await office("runs", "at", run.id, when)
    assert (done.code, said in done.err) == (code, True), done.err


async def test_all_that_is_known_is_json(office, run):
    found = await office.json("runs", "reconstruct", run.id)
    assert (found["run"]["state"], found["state"]["state"], found["differences"]) == ("completed", "completed", [])
    assert len(found["events"]) == len(await run.history())


@pytest.mark.parametrize(("form", "beginning"), [("table", "run"), ("md", "#"), ("html", "<!doctype html>")])
async def test_it_has_forms_for_people(office, run, form, beginning):
    done = await office("runs", "reconstruct", run.id, "-o", form)
    assert (done.code, done.out.lower().startswith(beginning)) == (0, True), done.out[:200]


async def test_events_of_some_types_are_listed(office, run):
    found = await office.json("runs", "events", run.id, "--type", "queued", "--type", "completed")
    assert [event["type"] for event in found["items"]] == ["queued", "completed"]


async def test_a_page_of_events_of_a_type_has_a_next(office, run):
    first = await office.json("runs", "events", run.id, "--type", "step_completed", "--limit", "1")
    rest = await office.json(
        "runs", "events", run.id, "--type", "step_completed", "--cursor", first["next_cursor"], "--limit", "100"
    )
    assert (len(first["items"]), len(rest["items"])) == (1, 2)


async def test_a_run_is_rolled_back_to_a_state(office, run):
    done = await office("runs", "rollback", run.id, "--to", "running", "--actor", "ann", "--yes")
    assert done.code == 0, done.err
    assert (await run.info()).state is RunState.PAUSED
    assert json.loads((await run.history())[-1].data)["to"] == "running"


async def test_a_state_that_never_was_is_not_found(office, run):
    done = await office("runs", "rollback", run.id, "--to", "failed", "--yes")
    assert (done.code, "never failed before" in done.err + done.out) == (3, True), done
