"""`stepfast runs start`, `execute` and `signal`."""

from __future__ import annotations

import json

import pytest

from stepfast import Run, RunFailed, RunState
from tests.cli.invoking import OFFICE
from tests.cli.office import HOSTILE, SHOWN_HOSTILE, WORKFLOWS, asking, checkout, failing
from tests.support.apps import app_on

TYPED = '{"bill": {"cents": 5, "due": "2026-03-01T12:00:00Z"}}'

INPUTS = {
    "an array is positional": ('["a", 5]', {"order": "a", "cents": 5}),
    "an object is keywords": ('{"cents": 5, "order": "a"}', {"order": "a", "cents": 5}),
    "anything else is the single argument": ('"a"', {"order": "a", "cents": 100}),
}

PRESSING = """
from stepfast import Stepfast, workflow

@workflow(priority=4)
async def pressing() -> None: ...

app = Stepfast(workflows=[pressing])
"""


@pytest.mark.parametrize(("text", "stored"), INPUTS.values(), ids=INPUTS)
async def test_the_input_of_a_run_is_json(office, text, stored):
    done = await office("runs", "start", "checkout", text, "--app", OFFICE)
    assert (await office.json("runs", "show", done.out.strip()))["input"] == stored


async def test_the_input_may_stand_in_a_file(office, tmp_path):
    (tmp_path / "input.json").write_text('["from a file"]')
    done = await office("runs", "start", "checkout", f"@{tmp_path}/input.json", "--app", OFFICE)
    assert (await office.json("runs", "show", done.out.strip()))["input"]["order"] == "from a file"


async def test_the_input_may_come_on_stdin(office):
    done = await office("runs", "start", "checkout", "-", "--app", OFFICE, stdin='["piped"]')
    assert (await office.json("runs", "show", done.out.strip()))["input"]["order"] == "piped"


async def test_a_parameter_named_like_an_option_is_no_option(office):
    done = await office("runs", "start", "asking", '{"tenant": "acme"}', "--app", OFFICE)
    run = await office.json("runs", "show", done.out.strip())
    assert (run["tenant"], run["input"]) == ("default", {"tenant": "acme"})


BAD_INPUTS = {
    "no JSON": ("checkout", "{", "The input is no JSON"),
    "a control character": ("checkout", '"\x1b"', "is no JSON: Invalid control character at line 1, column 2;"),
    "a missing argument": ("checkout", "{}", "missing a required argument: 'order'"),
    "an argument too many": ("checkout", '["a", 1, 2]', "too many positional arguments"),
    "the wrong type": ("checkout", '["a", "dear"]', "cents"),
    "no file": ("checkout", "@absent.json", "absent.json"),
}


@pytest.mark.parametrize(("workflow", "text", "complaint"), BAD_INPUTS.values(), ids=BAD_INPUTS)
async def test_a_start_that_does_not_fit_stores_nothing(office, workflow, text, complaint):
    done = await office("runs", "start", workflow, text, "--app", OFFICE)
    assert (done.code, done.out, done.err.startswith("E-VAL-001: ")) == (2, "", True)
    assert complaint in done.err
    assert (await office.json("runs", "list"))["items"] == []


async def test_a_workflow_that_is_not_there_is_not_found_and_the_nearest_is_named(office):
    done = await office("runs", "start", "chekout", "[]", "--app", OFFICE)
    assert (done.code, done.out, done.err.startswith("E-VAL-006: ")) == (3, "", True)
    assert "Did you mean 'checkout'?" in done.err
    assert (await office.json("runs", "list"))["items"] == []


@pytest.mark.parametrize(("options", "stored"), [([], 4), (["--priority", "0"], 0)])
async def test_a_start_has_the_workflows_priority_unless_it_names_one(office, tmp_path, options, stored):
    (tmp_path / "pressing_app.py").write_text(PRESSING)
    done = await office("runs", "start", "pressing", *options, "--app", f"{tmp_path}/pressing_app.py:app")
    assert (await office.json("runs", "show", done.out.strip())).get("priority") == stored


async def test_a_start_keeps_what_it_is_told(office):
    options = ["--queue", "desk", "--priority", "3", "--tag", "a", "--tag", "b", "--actor", "ann", "--tenant", "acme"]
    options += ["--subject", "s", "--thread-id", "t", "--correlation-id", "c", "--metadata", '{"m": 1}', "--key", "k"]
    done = await office("runs", "start", "asking", *options, "--app", OFFICE)
    run = await office.json("runs", "show", done.out.strip(), "--tenant", "acme")
    kept = {"queue": "desk", "priority": 3, "actor": "ann", "tenant": "acme", "subject": "s", "thread_id": "t"}
    kept |= {"correlation_id": "c", "metadata": {"m": 1}, "key": "k"}
    assert {name: run[name] for name in kept} == kept
    tagged = await office.json("runs", "list", "--tag", "b", "--tenant", "acme")
    assert [item["run_id"] for item in tagged["items"]] == [run["run_id"]]


async def test_a_key_starts_one_run(office):
    starts = [await office("runs", "start", "checkout", '"a"', "--key", "k", "--app", OFFICE) for _ in range(2)]
    assert starts[0].out == starts[1].out
    assert len((await office.json("runs", "list"))["items"]) == 1


async def test_a_start_belongs_to_one_tenant(office):
    done = await office("runs", "start", "asking", "--all-tenants", "--app", OFFICE)
    assert (done.code, "--tenant" in done.err) == (2, True)


async def test_a_start_that_waits_prints_the_result(database, office):
    async with app_on(database, WORKFLOWS):
        done = await office("runs", "start", "checkout", '"a"', "--wait", "--timeout", "30s", "--app", OFFICE)
    assert (done.code, done.json) == (0, "100 for a")


async def test_a_start_without_an_app_says_how_to_name_one(office):
    done = await office("runs", "start", "checkout")
    assert (done.code, "Name the app with --app" in done.err) == (2, True)


async def test_a_signal_reaches_its_run(database, client, office):
    run = await client.start(asking, "acme")
    done = await office("runs", "signal", run.id, "approval", '"yes"', "--actor", "ann")
    assert (done.code, done.out) == (0, "")
    async with app_on(database, WORKFLOWS):
        assert await run.result(timeout="30s") == "yes of acme"
    assert [event.actor for event in await run.history() if event.type == "signalled"] == ["ann"]


async def test_a_signal_with_a_key_counts_once(client, office):
    run = await client.start(asking)
    for _ in range(2):
        await office("runs", "signal", run.id, "approval", '"yes"', "--key", "k")
    assert [event.type for event in await run.history()].count("signalled") == 1


async def test_a_signal_to_an_ended_run_is_refused(client, office):
    run = await client.start(asking)
    await run.cancel()
    done = await office("runs", "signal", run.id, "approval")
    assert (done.code, done.err.startswith("E-RUN-003: ")) == (4, True)


async def test_execute_takes_a_run_to_its_end(client, office):
    run = await client.start(checkout, "a")
    done = await office.json("runs", "execute", run.id, "--app", OFFICE)
    assert (done["state"], done["value"]) == ("completed", "100 for a")


async def test_execute_takes_a_run_as_far_as_it_goes(client, office):
    run = await client.start(asking)
    done = await office("runs", "execute", run.id, "--app", OFFICE)
    assert (done.code, done.err) == (0, f"Run {run.id} is waiting.\n")


async def test_execute_of_a_run_that_fails_ends_as_run_does(client, office):
    run = await client.start(failing)
    done = await office("runs", "execute", run.id, "--app", OFFICE)
    assert (done.code, done.out) == (1, "")
    assert done.err == f"E-RUN-007: Run {run.id} failed with ValueError: {SHOWN_HOSTILE}\n"


async def test_a_run_that_fails_has_one_text_in_code_and_on_the_command_line(database, client, office):
    run = await client.start(failing)
    done = await office("runs", "execute", run.id, "--app", OFFICE)
    with pytest.raises(RunFailed) as raised:
        await run
    assert done.err == f"E-RUN-007: {str(raised.value).replace(HOSTILE, SHOWN_HOSTILE)}\n"


async def test_execute_of_a_run_that_fails_prints_it_as_json_all_the_same(client, office):
    run = await client.start(failing)
    done = await office("runs", "execute", run.id, "--app", OFFICE, "-o", "json")
    assert (done.code, done.json["state"], done.err.startswith("E-RUN-007: ")) == (1, "failed", True)


async def test_execute_of_a_run_that_is_cancelled_meanwhile_is_no_success(client, office, monkeypatch):
    run = await client.start(asking)

    async def cancelled_meanwhile(handle):
        await handle.cancel()

    monkeypatch.setattr(Run, "execute", cancelled_meanwhile)
    done = await office("runs", "execute", run.id, "--app", OFFICE)
    assert (done.code, done.err.startswith(f"E-RUN-008: Run {run.id} was cancelled.")) == (1, True)


async def test_execute_refuses_a_run_that_has_ended(client, office):
    run = await client.start(asking)
    await run.cancel()
    done = await office("runs", "execute", run.id, "--app", OFFICE)
    assert (done.code, (await run.info()).state) == (4, RunState.CANCELLED)


async def test_the_input_is_read_by_the_types_of_the_workflow(office, tmp_path):
    done = await office("runs", "start", "billing", TYPED, "--app", OFFICE)
    assert (await office.json("runs", "show", done.out.strip()))["input"] == json.loads(TYPED)


async def test_an_input_that_does_not_fit_its_type_is_refused_with_its_place(office):
    done = await office("runs", "start", "billing", '{"bill": {"cents": "many"}}', "--app", OFFICE)
    assert (done.code, "bill.cents: Input should be a valid integer" in done.err) == (2, True)


UNREADABLE = {"nan": "NaN", "a number of 5,000 digits": "1" * 5_000, "nested deeply": "[" * 100_000}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
async def test_an_input_that_json_does_not_have_is_refused(office, text):
    done = await office("runs", "start", "checkout", text, "--app", OFFICE)
    assert (done.code, done.out, done.err.startswith("E-VAL-001: The input ")) == (2, "", True)


async def test_a_number_too_long_to_be_read_is_told_of_in_words_for_the_command_line(office):
    done = await office("runs", "start", "checkout", '{"order": -' + "1" * 5_000 + "}", "--app", OFFICE)
    assert "The input has a whole number of 5,000 digits" in done.err
    assert ("Write it as text" in done.err, "sys." in done.err) == (True, False)


async def test_a_signal_keeps_its_reason(office):
    run_id = (await office("runs", "start", "asking", "--app", OFFICE)).out.strip()
    await office("runs", "signal", run_id, "approval", '"yes"', "--reason", "she called")
    events = (await office.json("runs", "events", run_id))["items"]
    assert events[-1]["data"]["reason"] == "she called"
