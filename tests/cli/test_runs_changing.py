"""`stepfast runs cancel`, `pause`, `resume`, `retry` and `rerun`: one run, several, and all that fit."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import pytest

from stepfast import RunState, StoreUnavailable, bulk, workflow
from stepfast.cli import changing
from stepfast.parts import Parts
from tests.cli.invoking import OFFICE, invoke
from tests.cli.office import asking, charge, checkout, failing
from tests.cli.processes import ROOT, environment
from tests.support.apps import app_on

UNKNOWN = "01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22"


@pytest.fixture
async def failed(client, office):
    """A run that has failed."""
    run = await client.start(failing)
    await office("runs", "execute", run.id, "--app", OFFICE)
    assert (await run.info()).state is RunState.FAILED
    return run


async def states(runs):
    return [(await run.info()).state for run in runs]


async def test_cancel_ends_a_run(client, office):
    run = await client.start(asking)
    done = await office("runs", "cancel", run.id)
    assert (done.code, done.out) == (0, f"Run {run.id} is cancelled.\n")
    assert (await run.info()).state is RunState.CANCELLED


async def test_who_asked_and_why_are_kept(client, office):
    run = await client.start(asking)
    await office("runs", "cancel", run.id, "--actor", "ann", "--reason", "no longer needed")
    event = (await run.history())[-1]
    assert (event.actor, event.data) == ("ann", '{"reason": "no longer needed"}')


async def test_pause_and_resume(client, office):
    run = await client.start(asking)
    assert (await office.json("runs", "pause", run.id))["state"] == "paused"
    assert (await office("runs", "resume", run.id)).code == 0
    assert [event.type for event in await run.history()] == ["queued", "paused", "resumed"]


async def test_what_the_state_does_not_allow_is_refused_in_one_line(client, office):
    run = await client.start(asking)
    done = await office("runs", "resume", run.id)
    assert (done.code, done.out, done.err.count("\n")) == (4, "", 1)
    assert done.err.startswith(f"E-RUN-003: Run {run.id} is pending, so it cannot be resumed.")


async def test_retry_opens_a_generation_that_goes_on_behind_the_failure(failed, office, tmp_path):
    answer = await office.json("runs", "retry", failed.id, "--reason", "mended")
    assert (answer["state"], answer["generation"]) == ("pending", 2)
    assert [step.call.name for step in await failed.steps() if step.superseded_by is None] == ["charge"]


async def test_retry_of_a_step_that_did_not_fail_names_the_command_that_works(failed, office):
    done = await office("runs", "retry", failed.id, "--step", "charge")
    # It is the first, so that a rerun from there would have nothing to keep.
    assert (done.code, f"`stepfast runs rerun {failed.id}`" in done.err) == (4, True)
    assert (await office("runs", "rerun", failed.id)).code == 0


async def test_rerun_from_a_step_keeps_what_came_before_it(failed, office):
    done = await office("runs", "rerun", failed.id, "--from", "refuse")
    assert done.out == f"Run {failed.id} is pending, in generation 2.\n"
    assert [step.call.name for step in await failed.steps() if step.superseded_by is None] == ["charge"]


async def test_rerun_from_the_beginning_keeps_nothing(failed, office):
    await office("runs", "rerun", failed.id)
    assert [step for step in await failed.steps() if step.superseded_by is None] == []


async def test_rerun_from_a_step_that_is_not_there_is_not_found(failed, office):
    done = await office("runs", "rerun", failed.id, "--from", "absent")
    assert (done.code, done.err.startswith("E-STEP-003: ")) == (3, True)


async def test_a_command_with_a_key_counts_once(client, office):
    run = await client.start(asking)
    codes = [(await office("runs", "pause", run.id, "--key", "k")).code for _ in range(2)]
    assert codes == [0, 0]
    assert [event.type for event in await run.history()] == ["queued", "paused"]


async def test_a_command_with_a_key_for_several_runs_counts_once_for_each(client, office):
    runs = [await client.start(asking) for _ in range(2)]
    codes = [(await office("runs", "pause", *(run.id for run in runs), "--key", "k")).code for _ in range(2)]
    assert codes == [0, 0]
    assert [[event.type for event in await run.history()] for run in runs] == [["queued", "paused"]] * 2


async def test_any_key_will_do_for_several_runs_and_counts_once_however_they_are_chosen(client, office):
    runs, key = [await client.start(asking) for _ in range(2)], "é" * 500
    named = await office("runs", "pause", *(run.id for run in runs), "--key", key, "-o", "json")
    chosen = await office("runs", "pause", "--workflow", "asking", "--key", key, "--yes", "-o", "json")
    assert [set(done.json["changed"]) for done in (named, chosen)] == [{run.id for run in runs}] * 2
    assert [[event.type for event in await run.history()] for run in runs] == [["queued", "paused"]] * 2


@pytest.mark.parametrize(("key", "size"), [("k" * 1_001, "1,001 characters"), ("", "0 characters")])
async def test_a_key_for_several_runs_that_is_none_is_refused_as_it_was_given(client, office, key, size):
    runs = [await client.start(asking) for _ in range(2)]
    done = await office("runs", "pause", *(run.id for run in runs), "--key", key)
    assert (done.code, f"key has {size}" in done.err) == (2, True)


async def test_of_several_runs_one_that_is_refused_keeps_no_other_back(client, office):
    ended, opened = await client.start(asking), await client.start(asking)
    await ended.cancel()
    done = await office("runs", "cancel", ended.id, UNKNOWN, opened.id, "-o", "json")
    assert (done.code, done.json["changed"]) == (5, [opened.id])
    assert [refused["code"] for refused in done.json["refused"]] == ["E-RUN-003", "E-RUN-001"]


async def test_a_run_that_is_named_twice_in_other_letters_is_changed_once(client, office):
    first, other = await client.start(asking), await client.start(asking)
    names = (first.id, first.id.upper(), first.id.replace("-", ""), first.id[:-1], other.id)
    done = await office("runs", "cancel", *names)
    assert (done.code, done.err) == (0, "Of 2 runs: 2 cancelled.\n")


@pytest.mark.parametrize("name", ["\udcff", "x" * 1_001], ids=["no UTF-8", "too long"])
async def test_who_is_logged_in_by_a_name_that_cannot_be_stored_can_give_commands(name, client, office, monkeypatch):
    monkeypatch.setenv("LOGNAME", name)
    run = await client.start(asking)
    done = await office("runs", "cancel", run.id)
    assert (done.code, (await run.history())[-1].actor) == (0, None)


async def test_several_runs_that_are_all_refused_end_with_the_reason(client, office):
    runs = [await client.start(asking) for _ in range(2)]
    done = await office("runs", "resume", *(run.id for run in runs))
    assert (done.code, [run.id for run in runs if run.id not in done.err]) == (4, [])


async def test_a_filter_changes_all_that_fit(client, office):
    asked, others = [await client.start(asking) for _ in range(3)], await client.start(checkout, "a")
    done = await office("runs", "cancel", "--workflow", "asking")
    assert (done.code, done.err) == (0, "Of 3 runs: 3 cancelled.\n")
    assert await states([*asked, others]) == [RunState.CANCELLED] * 3 + [RunState.PENDING]


async def test_runs_that_the_state_leaves_out_are_skipped(client, office):
    ended, opened = await client.start(asking), await client.start(asking)
    await ended.cancel()
    answer = await office.json("runs", "cancel", "--all")
    assert (answer["changed"], answer["skipped"], answer["refused"]) == ([opened.id], 1, [])


async def test_a_dry_run_names_the_runs_and_changes_nothing(client, office):
    runs = [await client.start(asking) for _ in range(2)]
    done = await office("runs", "cancel", "--state", "pending", "--dry-run")
    assert done.out.split() == [run.id for run in reversed(runs)]
    assert done.err == "Of 2 runs: 2 would be cancelled.\n"
    assert await states(runs) == [RunState.PENDING] * 2


async def test_a_dry_run_of_named_runs_says_which_would_be_refused(client, office):
    ended, opened = await client.start(asking), await client.start(asking)
    await ended.cancel()
    done = await office("runs", "cancel", "--dry-run", ended.id, opened.id)
    assert (done.out, ended.id in done.err) == (f"{opened.id}\n", True)
    assert (await opened.info()).state is RunState.PENDING


async def test_many_runs_can_be_changed_bit_by_bit(client, office):
    runs = [await client.start(asking) for _ in range(3)]
    first = await office.json("runs", "cancel", "--all", "--limit", "2")
    assert await states(runs) == [RunState.PENDING, RunState.CANCELLED, RunState.CANCELLED]
    rest = await office.json("runs", "cancel", "--all", "--cursor", first["next_cursor"])
    assert (rest["changed"], rest["next_cursor"]) == ([runs[0].id], None)


async def test_many_runs_of_other_tenants_are_left_alone(client, office):
    theirs = await client.start(asking, tenant="acme")
    await office("runs", "cancel", "--all")
    assert (await theirs.info()).state is RunState.PENDING


async def test_the_version_of_the_runs_is_apart_from_the_version_to_go_on_with(failed, office):
    other = await office.json("runs", "retry", "--of-version", "2")
    answer = await office.json("runs", "retry", "--of-version", "1", "--version", "7")
    assert (other["changed"], answer["changed"]) == ([], [failed.id])
    assert (await failed.info()).version == 7


async def test_a_version_that_the_named_app_does_not_have_is_refused(failed, office):
    done = await office("runs", "retry", failed.id, "--version", "9", "--app", "tests.cli.office:app")
    assert (done.code, done.err.startswith("E-VAL-006: Workflow 'failing' has no version 9")) == (3, True)
    many = await office("dead-letters", "replay", "--all", "--version", "9", "--app", "tests.cli.office:app")
    assert (many.code, "1 refused" in many.err, (await failed.info()).state) == (3, True, RunState.FAILED)


async def test_what_was_done_before_a_trouble_is_told_with_the_cursor_to_go_on(client, office, monkeypatch):
    runs = [await client.start(asking) for _ in range(3)]
    monkeypatch.setattr(bulk, "PAGE_RUNS", 2)
    monkeypatch.setattr(Parts, "change", away_after_one_page(Parts.change))
    done = await office("runs", "cancel", "--all", "-o", "json")
    assert (done.code, done.err.startswith("E-STORE-001: ")) == (5, True)
    newest, second, _ = sorted((run.id for run in runs), reverse=True)
    assert (done.json["changed"], done.json["next_cursor"]) == ([newest, second], second)


@pytest.fixture
def interrupted_changes(monkeypatch):
    """A person who presses Ctrl-C when a page of changes is under way; gives what has them interrupted."""
    leaving: list[asyncio.Task[None]] = []
    change = Parts.change

    async def change_interrupted(parts, requests):
        leaving.pop().cancel()
        return await change(parts, requests)

    monkeypatch.setattr(bulk, "PAGE_RUNS", 2)
    monkeypatch.setattr(Parts, "change", change_interrupted)
    return leaving.append


async def cancelled_by(client, interrupt) -> int:
    """How many runs a command counts that is interrupted in its first page."""
    tally = changing.Tally()
    command = asyncio.create_task(tally.add(client.change_pages("cancel", {})))
    interrupt(command)
    await asyncio.wait({command})
    assert command.cancelled()
    return len(tally.answer.changed)


async def test_a_page_that_was_under_way_at_ctrl_c_is_counted(client, interrupted_changes):
    runs = [await client.start(asking) for _ in range(3)]
    assert await cancelled_by(client, interrupted_changes) == 2
    assert (await states(runs)).count(RunState.CANCELLED) == 2


async def test_without_waiting_for_it_a_page_at_ctrl_c_would_not_be_counted(client, interrupted_changes, monkeypatch):
    """The broken twin."""

    async def at_once(change):
        yield await change

    monkeypatch.setattr(bulk, "answered", at_once)
    await client.start(asking)
    assert await cancelled_by(client, interrupted_changes) == 0


def away_after_one_page(change):
    """The way to the store, which is cut after the first page."""
    pages = iter([change])

    async def change_or_fail(parts, requests):
        try:
            return await next(pages)(parts, requests)
        except StopIteration:
            raise StoreUnavailable("The store is away.") from None

    return change_or_fail


MISTAKES = {
    "nothing is named": ([], "say --all"),
    "runs and filters": ([UNKNOWN, "--state", "pending"], "Name runs, or choose them by filters"),
    "runs and all": ([UNKNOWN, "--all"], "Name runs, or choose them by filters"),
}


@pytest.mark.parametrize("action", ["cancel", "pause", "resume", "retry", "rerun"])
@pytest.mark.parametrize(("args", "complaint"), MISTAKES.values(), ids=MISTAKES)
async def test_what_is_meant_is_never_guessed(action, args, complaint):
    done = await invoke("runs", action, *args, "--database", "sqlite:///unused.db")
    assert (done.code, complaint in done.err) == (2, True)


@pytest.mark.parametrize("step", ["charge", ""])
async def test_a_step_needs_its_run(step):
    done = await invoke("runs", "rerun", "--all", "--from", step, "--database", "sqlite:///unused.db")
    assert (done.code, "Name the run" in done.err) == (2, True)


@pytest.mark.parametrize("option", [["--all"], ["--workflow", "checkout"], ["--limit", "3"]], ids=" ".join)
async def test_a_rollback_offers_no_filters_for_it_takes_named_runs_alone(option):
    done = await invoke("runs", "rollback", *option, "--to", "waiting", "--database", "sqlite:///unused.db")
    offered = await invoke("runs", "rollback", "--help")
    assert (done.code, "No such option" in done.err, f" {option[0]} " in offered.out) == (2, True, False)


async def test_a_rollback_needs_a_run():
    done = await invoke("runs", "rollback", "--to", "waiting", "--database", "sqlite:///unused.db")
    assert (done.code, "Missing argument 'RUN...'" in done.err) == (2, True)


@workflow
async def twice() -> None:
    await charge("a", 1)
    await charge("b", 2)


async def test_a_rollback_to_one_of_several_steps_names_words_that_mean_a_step_and_no_event(database, client, office):
    async with app_on(database, [twice]) as app:
        run = await app.start(twice)
        await run.result(timeout="30s")
    refused = await office("runs", "rollback", run.id, "--to", "charge")
    assert (refused.code, "say which by its address: charge#1, charge#2." in refused.err) == (2, True)
    assert (await office("runs", "rollback", run.id, "--to", "charge#2")).code == 0
    assert [step.superseded_by for step in await client.get(run.id).steps()] == [None, None]


ANSWERS = {"yes": ("y\n", 0, RunState.CANCELLED), "no": ("n\n", 1, RunState.PENDING)}


async def test_ctrl_c_at_the_question_changes_nothing(client, office, monkeypatch):
    def interrupted(*args: object) -> str:
        raise KeyboardInterrupt

    run = await client.start(asking)
    monkeypatch.setattr(changing, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr("click.termui._readline_prompt", interrupted)
    done = await office("runs", "cancel", "--workflow", "asking")
    assert (done.code, (await run.info()).state) == (130, RunState.PENDING)


@pytest.mark.parametrize(("answer", "code", "state"), ANSWERS.values(), ids=ANSWERS)
async def test_on_a_terminal_many_runs_are_changed_after_a_question(client, answer, code, state):
    run = await client.start(asking)
    assert ask("runs", "cancel", "--workflow", "asking", "--database", client.database, answer=answer) == code
    assert (await run.info()).state is state


async def test_on_a_terminal_yes_answers_beforehand(client):
    run = await client.start(asking)
    assert ask("runs", "cancel", "--all", "--yes", "--database", client.database, answer="") == 0
    assert (await run.info()).state is RunState.CANCELLED


def ask(*args: str, answer: str) -> int:
    """Run a command whose stdin is a terminal, and answer what it asks; its exit code."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        command = [sys.executable, "-m", "stepfast", *args]
        return subprocess.run(command, cwd=ROOT, env=environment(), stdin=theirs, capture_output=True).returncode
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("command", "option"), [("rollback", "--to"), ("retry", "--step"), ("rerun", "--from")], ids=lambda given: given
)
async def test_a_dry_run_looks_at_the_step_that_is_named(failed, office, command, option):
    done = await office("runs", command, failed.id, option, "nonsense", "--dry-run")
    assert (done.code, done.out, "no step 'nonsense'" in done.err) == (3, "", True)
    step = "charge" if command == "rollback" else "refuse"
    done = await office("runs", command, failed.id, option, step, "--dry-run")
    assert (done.code, done.out) == (0, f"{failed.id}\n")
    assert (await failed.info()).state is RunState.FAILED


@pytest.mark.parametrize(("command", "option"), [("retry", "--step"), ("rerun", "--from")], ids=lambda given: given)
async def test_a_step_that_is_named_by_an_empty_text_is_not_taken_for_the_whole_run(failed, office, command, option):
    done = await office("runs", command, failed.id, option, "")
    assert (done.code, done.out, "has 0 characters" in done.err) == (2, "", True)
    assert (await failed.info()).state is RunState.FAILED


async def test_a_dry_run_looks_at_the_event_or_state_that_is_named(failed, office):
    for to, code in (("99", 3), ("paused", 3), ("2", 0), ("running", 0)):
        assert (await office("runs", "rollback", failed.id, "--to", to, "--dry-run")).code == code
