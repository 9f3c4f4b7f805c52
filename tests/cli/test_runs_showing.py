"""`stepfast runs show`, `events`, `watch` and `why`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from stepfast import Retry, RunFailed, Start, step, workflow
from tests.cli.office import HOSTILE, SHOWN_HOSTILE, WORKFLOWS, asking, checkout, failing, forgiving, sinking
from tests.support.apps import app_on
from tests.support.following import told
from tests.support.sql import execute

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


@step(retry=Retry(attempts=3, base="1ms"))
async def knock() -> None:
    raise ValueError("nobody in")


@step(retry=Retry(attempts=2, base="1h"))
async def ring() -> None:
    raise ValueError("no answer")


@workflow
async def visiting() -> None:
    await knock()


@workflow
async def calling() -> None:
    await ring()


async def failed_run(database: str, flow: Any) -> Any:
    """A run of a workflow that fails, at its end."""
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="failed with"):
            await run.result(timeout="30s")
    return run


def states(out: str, name: str) -> list[str]:
    """What the lines of a step say of its attempts."""
    lines = [line for line in out.splitlines() if f" {name}#1 " in line]
    return [re.split(r" {2,}", line)[3] for line in lines]


async def test_an_attempt_that_failed_before_another_is_not_called_pending(database, client, office):
    run = await failed_run(database, visiting)
    done = await office("runs", "show", run.id)
    assert states(done.out, "knock") == ["failed, tried again", "failed, tried again", "failed"]


async def test_an_attempt_whose_next_one_is_to_come_says_so_until_the_run_has_ended(database, client, office):
    async with app_on(database, [calling]) as app:
        run = await app.start(calling)
        await told(run, "waiting")
    done = await office("runs", "show", run.id)
    assert states(done.out, "ring") == ["failed, to be tried again"]
    await client.get(run.id).cancel()
    done = await office("runs", "show", run.id)
    assert states(done.out, "ring") == ["failed, not tried again"]


async def test_the_tags_of_a_run_are_shown(client, office):
    run = await client.start(checkout, "a", tags=["red", "blue"])
    assert (await run.info()).tags == ("blue", "red")
    assert (await office.json("runs", "show", run.id))["tags"] == ["blue", "red"]
    assert (await office.json("runs", "list"))["items"][0]["tags"] == ["blue", "red"]
    assert "blue, red" in (await office("runs", "show", run.id)).out


@pytest.mark.parametrize("command", ["show", "events", "why", "watch"])
async def test_what_a_value_holds_cannot_steer_the_terminal(failed, office, command):
    done = await office("runs", command, failed.id)
    assert [character for character in "\x1b\u202e" if character in done.out + done.err] == []
    assert "[bold]left[/bold]" in done.out


async def test_a_failed_run_is_shown_with_traceback_and_cause_below_the_table(failed, office):
    done = await office("runs", "show", failed.id)
    table, _, below = done.out.partition("\nError of the run: ")
    assert "refuse#1" in table
    assert below.startswith(f"ValueError: {SHOWN_HOSTILE}\ncaused by LookupError: no such card\n\nTraceback (most")
    assert [part for part in ("in failing", "in refuse", f"ValueError: {SHOWN_HOSTILE}") if part not in below] == []
    assert below.count("Error of ") == 0


async def test_a_failure_that_the_code_has_caught_is_shown_too(database, client, office):
    async with app_on(database, [forgiving]) as app:
        run = await app.start(forgiving)
        assert await run.result(timeout="30s") == "forgiven"
    done = await office("runs", "show", run.id)
    assert f"\nError of step refuse#1: ValueError: {SHOWN_HOSTILE}\ncaused by LookupError: no such card\n" in done.out


async def test_a_long_traceback_is_cut_and_says_where_the_rest_is(database, client, office):
    run = await failed_run(database, sinking)
    done = await office("runs", "show", run.id)
    assert ("bottom" in done.out, len(done.out.splitlines()) < 200) == (True, True)
    assert "`-o json` has all." in done.err
    whole = (await office.json("runs", "show", run.id))["error"]
    assert (whole["type"], whole["traceback"].count("in sink_deeper") > 0) == ("builtins:RuntimeError", True)


@workflow
async def wordy() -> None:
    raise ValueError("\n".join(f"field {number} is wrong" for number in range(200)))


async def test_a_long_message_leaves_room_for_the_place_that_it_comes_from(database, client, office):
    run = await failed_run(database, wordy)
    done = await office("runs", "show", run.id)
    _, _, traceback = done.out.partition("\nTraceback (most recent call last):\n")
    assert ("in wordy\n" in traceback, "\nValueError: field 0 is wrong\nfield 1 is wrong\n" in traceback) == (
        True,
        True,
    )
    assert (traceback.endswith("\nfield 9 is wrong\n  ...\n"), "`-o json` has all." in done.err) == (True, True)


ODD_ERRORS = {
    "no list of inner errors": '{"type": "a:Odd", "message": "m", "inner": 5}',
    "no address of a step": '{"type": "a:Odd", "message": "m", "step": ["x"]}',
    "causes without end": '{"type": "a:Odd", "message": "m", "cause": ' * 900 + "null" + "}" * 900,
    "no object": '"Odd: m"',
}


@pytest.mark.parametrize("odd", ODD_ERRORS.values(), ids=ODD_ERRORS)
async def test_an_error_that_was_put_there_by_other_means_is_shown_as_far_as_it_goes(database, failed, office, odd):
    await execute(database, f"update stepfast.outcome set error = '{odd}' where run_id = '{failed.id}'")
    done = await office("runs", "show", failed.id)
    assert (done.code, "\nError of the run: Odd: m\n" in done.out) == (0, True)


@workflow
async def crowded() -> None:
    try:
        raise KeyError("lost") from LookupError("below the first")
    except KeyError as first:
        raise ExceptionGroup("both", [first, ValueError("second")]) from OSError("below both")


async def test_what_is_in_a_group_is_told_apart_from_what_the_group_was_caused_by(database, client, office):
    run = await failed_run(database, crowded)
    _, _, below = (await office("runs", "show", run.id)).out.partition("\nError of the run: ")
    assert below.splitlines()[:5] == [
        "ExceptionGroup: both",
        "  with KeyError: 'lost'",
        "  caused by LookupError: below the first",
        "  with ValueError: second",
        "caused by OSError: below both",
    ]


async def test_an_error_without_a_message_is_its_type_alone(client, office):
    run = await client.start(checkout, "a")
    await run.cancel()
    assert "RunCancelled\n" in (await office("runs", "show", run.id)).out


async def test_a_cancelled_run_has_no_error_below_its_table(client, office):
    run = await client.start(checkout, "a")
    await run.cancel()
    assert "Error of" not in (await office("runs", "show", run.id)).out


async def test_the_beginning_of_an_id_is_enough(client, office):
    run = await client.start(checkout, "a")
    assert (await office.json("runs", "show", run.id[:18]))["run_id"] == run.id


async def test_a_run_is_found_by_all_of_its_id_but_the_last_digit_whatever_that_is(client, office):
    answers = await client.start_many(Start(checkout, str(n)) for n in range(300))
    by_last_digit = {answer.run.id[-1]: answer.run.id for answer in answers}
    assert {"0", "f"} <= by_last_digit.keys()
    for run_id in by_last_digit.values():
        assert (await office.json("runs", "show", run_id[:-1]))["run_id"] == run_id


@pytest.mark.parametrize("name", ["ffffffff", "f" * 31])
async def test_a_beginning_behind_which_there_is_no_id_is_not_found(client, office, name):
    await client.start(checkout, "a")
    assert (await office("runs", "show", name)).code == 3


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
    lack = "No worker is alive. Start one that has checkout@1 with `stepfast worker`."
    assert done.out == f"Run {run.id} is pending.\n{lack}\n"


async def test_why_has_a_line_for_each_reason_whatever_people_wrote(client, office):
    run = await client.start(checkout, "a")
    await run.cancel(actor="mallory\nIt was approved by Ada", reason="late\r\nNothing to do")
    lines = (await office("runs", "why", run.id)).out.splitlines()
    assert len(lines) == 2
    assert "by mallory\\nIt was approved by Ada at" in lines[1]
    assert ": late\\r\\nNothing to do. `stepfast runs rerun" in lines[1]


async def test_why_in_json_has_a_reason_each(client, office):
    run = await client.start(checkout, "a", delay="1h")
    answer = await office.json("runs", "why", run.id)
    assert [reason["kind"] for reason in answer["reasons"]] == ["delay", "worker"]
