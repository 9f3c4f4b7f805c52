"""Runs that end in part, and what their retries and other versions mean; definitions that stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepfast.kernel.commands import LockedRun, Request, Rerun, RetryRun, StepMark
from stepfast.kernel.control import decide
from stepfast.kernel.decisions import CallId, HeldRun, Record
from stepfast.kernel.definitions import (
    DefinitionId,
    DefinitionKind,
    DefinitionView,
    NewDefinition,
    Registered,
    check_same,
    code_of,
)
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import InvalidDefinition
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.plan_rules import UNDO, complete_partly, note
from stepfast.kernel.rules import continue_as, record_step
from stepfast.kernel.states import RunState, StepState

RUN = RunId("0198aaaa-0000-7000-8000-000000000001")
NOW = Instant(1_000)
DIGEST, OTHER = "3f2a9c1b7d5e4f60", "a0b1c2d3e4f56789"


def held(**changes: Any) -> HeldRun:
    origin = (RUN, "acme", "checkout", 2, "workflow", "default", 1, 1, WorkerId("w"), "{}")
    return HeldRun(*origin, 0, False, 1, 0, 0, 0, NOW, **changes)


def locked(*steps: StepMark, state: RunState = RunState.PARTIAL, **changes: Any) -> LockedRun:
    identity = (RUN, "acme", "checkout", 2, "workflow", code_of("checkout", 2, DIGEST), "{}", 1, state, None)
    run = LockedRun(*identity, False, False, None, None, False, False, steps, definition=DIGEST)
    return run._replace(**changes)


def call(name: str) -> CallId:
    return CallId("", name, 1)


def mark(seq: int, name: str, state: StepState = StepState.COMPLETED) -> StepMark:
    return StepMark(seq, call(name), state)


def superseded(run: LockedRun, command: RetryRun) -> set[str]:
    reopened = decide(run, Request(RUN, command), NOW).reopen
    assert reopened is not None
    return {each.name for each in reopened.superseded}


def record(state: StepState, kind: str = "set") -> Record:
    return Record(call("speak"), kind, state, 1, "d", "{}", None, None, NOW, NOW)


MARKS = (
    mark(1, "count"),
    mark(2, "guess", StepState.FAILED),
    mark(3, "fetch", StepState.FAILED),
    mark(4, "publish", StepState.SKIPPED),
    mark(5, "archive"),
)


def test_a_partial_end_names_the_steps_that_failed():
    outcome = complete_partly(held(), "7", (call("fetch"), call("send")), NOW).outcome
    assert outcome is not None
    assert (outcome.state, outcome.value) == (RunState.PARTIAL, "7")
    assert json.loads(outcome.error or "")["message"] == "2 steps failed: fetch#1, send#1"


def test_however_many_steps_failed_a_partial_end_stays_small():
    outcome = complete_partly(held(), "7", [call(f"item{n}") for n in range(100_000)], NOW).outcome
    assert outcome is not None
    assert len(outcome.error or "") < 20_000


def test_a_retry_of_a_partial_run_does_again_what_it_bore_and_what_was_skipped():
    end = complete_partly(held(), "7", (call("fetch"),), NOW).outcome
    assert end is not None
    assert superseded(locked(*MARKS, error=end.error), RetryRun()) == {"fetch", "publish"}


def test_without_names_a_retry_of_a_partial_run_does_all_that_failed_again():
    assert superseded(locked(*MARKS), RetryRun()) == {"guess", "fetch", "publish"}


def test_a_retry_of_one_step_of_a_partial_run_leaves_the_other_failures():
    assert superseded(locked(*MARKS), RetryRun("fetch")) == {"fetch", "publish"}


def test_a_retry_of_a_failed_run_does_what_was_skipped_again():
    error = json.dumps({"type": "ValueError", "message": "no", "step": "fetch#1"})
    failed = locked(*MARKS, state=RunState.FAILED, error=error)
    assert superseded(failed, RetryRun()) == {"fetch", "publish"}


@pytest.mark.parametrize("command", [RetryRun(), Rerun(), RetryRun(version=2, definition=OTHER)])
def test_a_run_that_stays_on_its_version_keeps_its_content(command):
    reopened = decide(locked(*MARKS), Request(RUN, command), NOW).reopen
    assert reopened is not None
    assert (reopened.code, reopened.definition) == (code_of("checkout", 2, DIGEST), DIGEST)


def test_a_run_that_goes_over_to_another_version_has_the_content_of_that():
    reopened = decide(locked(*MARKS), Request(RUN, Rerun(version=3, definition=OTHER)), NOW).reopen
    assert reopened is not None
    assert (reopened.code, reopened.definition) == (code_of("checkout", 3, OTHER), OTHER)


def test_a_run_that_starts_over_keeps_its_content():
    release: Any = continue_as(held(definition=DIGEST), "[1]", NOW).release
    assert (release.code, release.definition) == (code_of("checkout", 2, DIGEST), DIGEST)


def test_a_key_answers_for_a_version_whatever_content_that_stands_for():
    asked = Request(RUN, Rerun(version=3), key="k")
    assert asked.digest == asked._replace(command=Rerun(version=3, definition=OTHER)).digest


@pytest.mark.parametrize(
    ("state", "kind", "told"),
    [
        (StepState.COMPLETED, "set", "step_completed"),
        (StepState.SKIPPED, "skip", "step_skipped"),
        (StepState.COMPLETED, UNDO, "step_undone"),
    ],
)
def test_a_note_is_told_by_what_it_says(state, kind, told):
    assert [event.type for event in note(held(), record(state, kind), "why").events] == [told]


@pytest.mark.parametrize(("state", "told"), [(StepState.COMPLETED, "step_undone"), (StepState.FAILED, "step_failed")])
def test_a_step_that_takes_another_back_is_told_as_that_if_it_comes_to_a_good_end(state, told):
    assert [event.type for event in record_step(held(), record(state, UNDO)).events] == [told]


def test_a_code_of_a_plan_names_its_content_and_one_of_a_function_does_not():
    assert (code_of("say", 1), code_of("say", 1, DIGEST)) == ("say@1", "say@1#3f2a9c1b7d5e")


def registered(digest: str) -> tuple[NewDefinition, Registered]:
    new = NewDefinition(DefinitionId("d1"), "acme", "say", 1, digest, DefinitionKind.TEMPLATE, "{}")
    stands = DefinitionView(1, DefinitionId("d0"), "acme", "say", 1, DIGEST, DefinitionKind.TEMPLATE, "{}", NOW, None)
    return new, Registered(stands, False, 4)


def test_equal_content_is_answered_with_what_stands():
    new, answer = registered(DIGEST)
    assert check_same(new, answer) == answer.definition


def test_other_content_is_refused_with_both_digests_and_the_version_that_is_free():
    with pytest.raises(InvalidDefinition, match=f"(?s){DIGEST}.*{OTHER}.*version 5"):
        check_same(*registered(OTHER))
