"""`stepfast runs annotate` and `annotations`."""

from __future__ import annotations

import pytest

from tests.cli.office import WORKFLOWS, checkout
from tests.support.apps import app_on


@pytest.fixture
async def run_id(office, database):
    async with app_on(database, WORKFLOWS) as app:
        run = await app.start(checkout, "o-1")
        await run
    return run.id


VALUES = {"a number": ("4", 4), "an object": ('{"a": [1]}', {"a": [1]}), "what is no JSON": ("fine work", "fine work")}


@pytest.mark.parametrize(("text", "value"), VALUES.values(), ids=VALUES)
async def test_a_fact_is_noted_as_json_or_else_as_text(office, run_id, text, value):
    done = await office("runs", "annotate", run_id, "quality", text)
    assert (done.code, done.err) == (0, f"quality is noted of run {run_id}.\n")
    (noted,) = (await office.json("runs", "annotations", run_id))["items"]
    assert (noted["name"], noted["value"]) == ("quality", value)


async def test_a_number_too_long_to_be_read_is_not_taken_as_text(office, run_id):
    done = await office("runs", "annotate", run_id, "digits", "1" * 5_000)
    assert (done.code, "The value has a whole number of 5,000 digits" in done.err) == (2, True)


async def test_a_value_is_shown_as_it_is_stored_everywhere_else(office, run_id):
    await office("runs", "annotate", run_id, "by", '{"who": ["Zoé", 1]}')
    assert '{"who":["Zoé",1]}' in (await office("runs", "annotations", run_id)).out


async def test_a_fact_is_noted_of_a_step_by_somebody_for_a_reason(office, run_id):
    said = ["--step", "1", "--scope", "invoice", "--actor", "ann", "--reason", "spot check"]
    await office("runs", "annotate", run_id, "seen", "true", *said)
    (noted,) = (await office.json("runs", "show", run_id))["annotations"]
    assert noted["step"].endswith("#1")
    assert (noted["scope"], noted["actor"], noted["reason"]) == ("invoice", "ann", "spot check")


async def test_a_key_notes_a_fact_once(office, run_id):
    for is_repeated in (False, True):
        answer = await office.json("runs", "annotate", run_id, "seen", "1", "--key", "k")
        assert answer == {"run_id": run_id, "name": "seen", "repeated": is_repeated}


async def test_facts_of_all_runs_are_found_by_name_and_value_page_by_page(office, run_id):
    for n in ("1", "2", "1"):
        await office("runs", "annotate", run_id, "n", n)
    found = await office.json("runs", "annotations", "--name", "n", "--value", "1", "--limit", "1")
    rest = await office.json("runs", "annotations", "--name", "n", "--value", "1", "--cursor", found["next_cursor"])
    assert [each["value"] for each in found["items"] + rest["items"]] == [1, 1]
    assert rest["next_cursor"] is None


async def test_the_table_of_a_run_shows_what_was_noted(office, run_id):
    await office("runs", "annotate", run_id, "quality", "good")
    shown = await office("runs", "show", run_id)
    assert "annotation" in shown.out
    assert '"good"' in shown.out


async def test_a_value_without_a_name_is_refused_in_words_of_the_command_line(office, run_id):
    done = await office("runs", "annotations", "--value", "1")
    assert (done.code, "without a name" in done.err, "list(" in done.err) == (2, True, False)


async def test_nothing_noted_is_said_so(office, run_id):
    assert (await office("runs", "annotations", run_id)).err == "No annotations.\n"


async def test_a_value_that_is_nested_without_end_is_refused(office, run_id):
    done = await office("runs", "annotate", run_id, "quality", "[" * 100_000)
    assert (done.code, "nested too deeply" in done.err) == (2, True)


@pytest.mark.parametrize("listed", ["annotations", "events"])
async def test_a_cursor_of_any_length_is_none_of_a_page(office, run_id, listed):
    done = await office("runs", listed, run_id, "--cursor", "9" * 5_000)
    assert "Traceback" not in done.err


async def test_a_cursor_that_is_none_is_refused(office, run_id):
    done = await office("runs", "annotations", "--cursor", "x")
    assert (done.code, "no cursor" in done.err) == (2, True)
