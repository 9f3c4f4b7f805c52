"""`stepfast dead-letters`."""

from __future__ import annotations

import json

import pytest

from stepfast import RunState
from stepfast.cli.errors import ShownError, print_errors
from stepfast.workflows.failures import describe, revive, to_text
from tests.cli.invoking import OFFICE
from tests.cli.office import HOSTILE, SHOWN_HOSTILE, asking, failing


@pytest.fixture
async def letters(client, office):
    """Two dead letters, older first."""
    runs = [await client.start(failing) for _ in range(2)]
    for run in runs:
        await office("runs", "execute", run.id, "--app", OFFICE)
    return runs


async def listed(office, *options):
    return [item["run_id"] for item in (await office.json("dead-letters", "list", *options))["items"]]


async def test_dead_letters_are_listed_newest_first(letters, office):
    assert await listed(office) == [letters[1].id, letters[0].id]


async def test_dead_is_short_for_dead_letters(letters, office):
    done = await office("dead", "list")
    assert [part for part in (letters[0].id, "failing@1", "refuse#1", "ValueError") if part not in done.out] == []
    assert "\x1b" not in done.out


async def test_dead_letters_have_pages(letters, office):
    page = await office.json("dead-letters", "list", "--limit", "1")
    assert await listed(office, "--cursor", page["next_cursor"]) == [letters[0].id]


async def test_dead_letters_can_be_chosen(letters, office):
    chosen = [
        await listed(office, *options)
        for options in (
            ("--workflow", "failing"),
            ("--workflow", "other"),
            ("--step", "refuse#1"),
            ("--step", "refuse"),
            ("--step", "fuse"),
            ("--error", "builtins:KeyError"),
            ("--error", "builtins:ValueError"),
            ("--error", "ValueError"),
            ("--error", "Error"),
            ("--since", "1h"),
            ("--tenant", "acme"),
        )
    ]
    assert [len(runs) for runs in chosen] == [2, 0, 2, 2, 0, 0, 2, 2, 0, 2, 0]


async def test_a_dead_letter_is_shown_with_its_error(letters, office):
    shown = await office.json("dead-letters", "show", letters[0].id)
    assert (shown["step"], shown["error_type"], shown["message"]) == ("refuse#1", "builtins:ValueError", HOSTILE)


async def test_a_dead_letter_has_traceback_and_cause_as_its_run_has(letters, office):
    shown = await office.json("dead-letters", "show", letters[0].id)
    assert shown["error"] == (await office.json("runs", "show", letters[0].id))["error"]
    assert (shown["error"]["cause"]["message"], "in refuse" in shown["error"]["traceback"]) == ("no such card", True)


async def test_a_dead_letter_is_shown_with_traceback_and_cause_below_the_table(letters, office):
    done = await office("dead-letters", "show", letters[0].id)
    _, _, below = done.out.partition("\nError of the run: ")
    assert below.startswith(f"ValueError: {SHOWN_HOSTILE}\ncaused by LookupError: no such card\n\nTraceback (most")
    assert ("in refuse" in below, [mark for mark in "\x1b\u202e" if mark in done.out]) == (True, [])


async def test_a_traceback_for_people_has_no_places_in_the_engine(letters, office):
    shown = (await office("dead-letters", "show", letters[0].id)).out
    whole = (await office.json("dead-letters", "show", letters[0].id))["error"]["traceback"]
    assert ("stepfast/workflows" in whole, "stepfast/workflows" in shown, "office.py" in shown) == (True, False, True)


def raised_group() -> ExceptionGroup:
    """A group in a group, whose first error was raised and whose others were not."""
    try:
        raise LookupError("innermost text")
    except LookupError as error:
        inner = ExceptionGroup("inner group", [error, ValueError("second text")])
    try:
        raise ExceptionGroup("outer group", [inner, KeyError("third text")])
    except ExceptionGroup as group:
        return group


@pytest.mark.parametrize("is_revived", [False, True], ids=["as raised", "raised again out of a record"])
def test_the_errors_in_a_group_are_shown_once_with_their_places(capsys, is_revived):
    error = revive(describe(raised_group())) if is_revived else raised_group()
    print_errors([ShownError("the run", to_text(describe(error)))])
    shown = capsys.readouterr().out
    heads, _, below = shown.partition("\n\n")
    assert [line.strip() for line in heads.splitlines() if line] == [
        "Error of the run: ExceptionGroup: outer group",
        "with ExceptionGroup: inner group",
        "with LookupError: innermost text",
        "with ValueError: second text",
        "with KeyError: 'third text'",
    ]
    texts = ("Group: outer group", "Group: inner group", "LookupError: innermost", "ValueError: second", "KeyError: '")
    assert [below.count(text) for text in texts] == [1, 0, 1, 0, 0]
    assert below.count("in raised_group") == 2


OF_THE_ENGINE = (
    "/srv/venv/lib/python3.13/site-packages/stepfast/workflows/perform.py",
    "C:\\Python313\\Lib\\site-packages\\stepfast\\worker\\execute.py",
    "/usr/lib/python3.11/asyncio/tasks.py",
    "C:\\Python313\\Lib\\concurrent\\futures\\thread.py",
)
OF_PEOPLE = ("/srv/ann/stepfast/workflows/orders.py", "/srv/ann/asyncio/orders.py", "/srv/venv/stepfast/engine/x.py")


def test_places_in_folders_that_are_called_as_the_engine_is_are_shown(capsys):
    places = "".join(f'  File "{place}", line 1, in work\n    work()\n' for place in (*OF_THE_ENGINE, *OF_PEOPLE))
    error = {"type": "builtins:ValueError", "message": "no", "traceback": f"Traceback (most recent):\n{places}"}
    print_errors([ShownError("the run", json.dumps(error))])
    shown = capsys.readouterr().out
    assert [place for place in (*OF_THE_ENGINE, *OF_PEOPLE) if place in shown] == [*OF_PEOPLE]


async def test_a_dead_letter_of_an_earlier_generation_has_the_error_of_that(letters, office):
    await office("dead-letters", "replay", letters[0].id)
    assert (await office.json("dead-letters", "show", letters[0].id))["error"]["message"] == HOSTILE
    assert (await office.json("runs", "show", letters[0].id))["error"] is None


async def test_the_errors_of_dead_letters_are_not_listed(letters, office):
    assert "error" not in (await office.json("dead-letters", "list"))["items"][0]


async def test_a_run_that_is_no_dead_letter_is_not_found(client, office):
    run = await client.start(asking)
    done = await office("dead-letters", "show", run.id)
    assert (done.code, "is no dead letter" in done.err) == (3, True)


async def test_a_replayed_run_goes_on_and_leaves_the_list(letters, office):
    done = await office("dead-letters", "replay", letters[0].id, "--actor", "ann")
    assert (done.out, await listed(office)) == (
        f"Run {letters[0].id} is pending, in generation 2.\n",
        [letters[1].id],
    )
    assert (await letters[0].history())[-1].actor == "ann"


async def test_a_discarded_run_stays_failed_and_leaves_the_list(letters, office):
    answer = await office("dead-letters", "discard", letters[0].id, "--reason", "too late")
    assert answer.out == f"The dead letter of run {letters[0].id} is discarded. The run stays failed.\n"
    assert ((await letters[0].info()).state, await listed(office)) == (RunState.FAILED, [letters[1].id])
    assert await listed(office, "--resolved") == [letters[1].id, letters[0].id]


async def test_a_second_discard_is_refused(letters, office):
    codes = [(await office("dead-letters", "discard", letters[0].id)).code for _ in range(2)]
    assert codes == [0, 4]


async def test_a_dry_run_of_a_second_discard_is_refused_too(letters, office):
    codes = [(await office("dead-letters", "discard", letters[0].id, *dry)).code for dry in (["--dry-run"], [])]
    again = await office("dead-letters", "discard", letters[0].id, "--dry-run")
    assert (codes, again.code) == ([0, 0], 4)


async def test_all_that_fit_are_replayed(letters, office):
    before = await office.json("dead-letters", "replay", "--workflow", "failing", "--dry-run")
    answer = await office.json("dead-letters", "replay", "--workflow", "failing")
    assert before["changed"] == answer["changed"] == [letters[1].id, letters[0].id]
    assert await listed(office) == []


async def test_all_is_never_guessed(letters, office):
    done = await office("dead-letters", "discard")
    assert (done.code, len(await listed(office))) == (2, 2)
