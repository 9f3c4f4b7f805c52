"""What commands mean: the pure rules over a locked run."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.commands import (
    Cancel,
    Discard,
    LockedRun,
    Pause,
    Request,
    Rerun,
    Resume,
    RetryRun,
    StepMark,
    TimeOut,
)
from stepfast.kernel.control import decide
from stepfast.kernel.decisions import CallId, Joins
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, Invalid, NothingBefore, StepNotFound
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import DeadRun
from stepfast.kernel.ids import RunId
from stepfast.kernel.marks import failing_steps, find_step
from stepfast.kernel.rules import CODE_WAIT_ID
from stepfast.kernel.states import ENDED, OPEN, RunState, StepState, TaskState

RUN = RunId("0198aaaa-0000-7000-8000-000000000001")
NOW = Instant(1_000)
VERDICT = DeadRun("{}", "RunTimeout", "too late")

SOME_STATES = st.sampled_from(list(RunState))
SOME_COMMANDS = st.sampled_from([Cancel(), Pause(), Resume(), RetryRun(), Rerun(), Discard(), TimeOut(VERDICT)])


def locked(state=RunState.FAILED, **changes):
    task = None if state in ENDED else changes.pop("task", TaskState.READY)
    run = LockedRun(
        RUN, "acme", "checkout", 2, "workflow", "checkout@2", "{}", 1, state, task,
        hold=state is RunState.PAUSED, is_put_off=False, error=None, joins=None, is_awaited=False, has_letter=False,
        deadline_at=NOW,
    )  # fmt: skip
    return run._replace(**changes)


def judged(run: LockedRun, request: Request, now: Instant) -> Any:
    return decide(run, request, now)


def asked(command, **origin):
    return Request(RUN, command, **origin)


def mark(seq, name, state=StepState.COMPLETED, nth=1, path=""):
    return StepMark(seq, CallId(path, name, nth), state)


def failure(step=None, **more):
    return json.dumps({"type": "E", "message": "m", "step": step, **more})


@given(state=SOME_STATES, command=SOME_COMMANDS)
def test_a_command_is_refused_or_leads_to_a_state_that_its_move_allows(state, command):
    try:
        change = judged(locked(state, has_letter=state is RunState.FAILED), asked(command), NOW)
    except IllegalMove:
        return
    ends = change.outcome is not None
    assert not ends or (state in OPEN and change.outcome.state in ENDED and change.state is change.outcome.state)
    assert (change.reopen is None) or state in ENDED


@given(state=SOME_STATES, command=SOME_COMMANDS)
def test_every_change_is_told_by_an_event_or_by_the_holder(state, command):
    try:
        change = judged(locked(state, has_letter=True), asked(command, actor="ann", reason="why not"), NOW)
    except IllegalMove:
        return
    assert change.events or change.owed


def test_a_cancelled_run_says_who_cancelled_it_and_why():
    change = judged(locked(RunState.WAITING), asked(Cancel(), actor="ann", reason="wrong order"), NOW)
    (event,) = change.events
    assert (event.type, event.actor, json.loads(event.data)) == ("cancelled", "ann", {"reason": "wrong order"})
    assert json.loads(change.outcome.error)["message"] == "wrong order"


def test_a_run_that_a_worker_holds_is_told_to_pause_and_stays_running_until_it_has():
    change = judged(locked(RunState.RUNNING, task=TaskState.LEASED), asked(Pause()), NOW)
    assert (change.state, change.hold, change.events) == (RunState.RUNNING, True, ())
    assert [event.type for event in change.owed] == ["paused"]


def test_a_pause_that_was_asked_for_can_be_taken_back_before_it_happened():
    run = locked(RunState.RUNNING, task=TaskState.LEASED, hold=True)
    assert judged(run, asked(Resume()), NOW).hold is False


def test_a_run_is_not_paused_twice():
    with pytest.raises(IllegalMove, match="is paused, so it cannot be paused"):
        judged(locked(RunState.PAUSED), asked(Pause()), NOW)


def test_a_run_whose_steps_are_still_under_way_after_a_pause_is_not_called_paused():
    with pytest.raises(IllegalMove, match="was asked to pause before, and is paused as soon as its steps under way"):
        judged(locked(RunState.RUNNING, task=TaskState.LEASED, hold=True), asked(Pause()), NOW)


def test_resuming_does_not_start_a_delayed_run_early():
    run = locked(RunState.PAUSED, task=TaskState.WAITING, is_put_off=True)
    change = judged(run, asked(Resume()), NOW)
    assert (change.ready, change.state) == (False, RunState.PENDING)


def test_resuming_lets_a_waiting_run_look_at_its_waits_again():
    assert judged(locked(RunState.PAUSED, task=TaskState.WAITING), asked(Resume()), NOW).ready


def test_a_retry_leaves_caught_failures_alone():
    steps = [mark(1, "a", StepState.FAILED), mark(2, "b"), mark(3, "c", StepState.FAILED), mark(4, "d")]
    run = locked(error=failure("c#1"), steps=steps)
    assert judged(run, asked(RetryRun()), NOW).reopen.superseded == (CallId("", "c", 1),)


def test_a_retry_of_a_run_that_waits_for_code_opens_no_generation():
    run = locked(RunState.WAITING, task=TaskState.WAITING, lacks_code=True)
    change = judged(run, asked(RetryRun(), actor="ann"), NOW)
    assert (change.state, change.ready, change.reopen) == (RunState.RUNNING, True, None)
    assert [event.type for event in change.events] == [EventType.EXCEPTION_RESOLVED, EventType.RESUMED]
    assert ({event.actor for event in change.events}, change.closed) == ({"ann"}, (CODE_WAIT_ID,))


def test_a_run_that_waits_for_code_and_is_resumed_looks_at_the_code_again():
    run = locked(RunState.PAUSED, task=TaskState.WAITING, lacks_code=True)
    change = judged(run, asked(Resume()), NOW)
    assert [event.type for event in change.events] == [EventType.EXCEPTION_RESOLVED, EventType.RESUMED]
    assert change.closed == (CODE_WAIT_ID,)


@pytest.mark.parametrize("command", [RetryRun("charge"), RetryRun(version=3)])
def test_a_run_that_waits_for_code_is_retried_as_a_whole_and_under_its_version(command):
    run = locked(RunState.WAITING, task=TaskState.WAITING, lacks_code=True)
    with pytest.raises(IllegalMove, match="as a whole only, and under no other version"):
        judged(run, asked(command), NOW)


def test_a_retry_supersedes_every_attempt_of_the_step_that_failed():
    steps = [mark(1, "c", StepState.PENDING), mark(2, "c", StepState.FAILED)]
    change = judged(locked(error=failure("c#1"), steps=steps), asked(RetryRun()), NOW)
    assert change.reopen.superseded == (CallId("", "c", 1),)


def test_a_retry_of_a_run_that_failed_by_itself_keeps_all_its_steps():
    change = judged(locked(error=failure(), steps=[mark(1, "a")]), asked(RetryRun()), NOW)
    assert change.reopen.superseded == ()


def test_a_retry_from_a_failed_step_supersedes_what_came_after_it():
    steps = [mark(1, "a"), mark(2, "b", StepState.FAILED), mark(3, "c")]
    change = judged(locked(steps=steps), asked(RetryRun(step="b")), NOW)
    assert [call.name for call in change.reopen.superseded] == ["b", "c"]


def test_a_step_that_did_not_fail_is_not_retried():
    with pytest.raises(IllegalMove, match=r"a#1 .* is completed"):
        judged(locked(steps=[mark(1, "a")]), asked(RetryRun(step="a")), NOW)


def test_the_failing_steps_are_found_in_causes_and_groups():
    inner = {"inner": [{"step": "b#1"}, {"cause": {"step": "x/c#2"}}], "cause": {"step": "a#1"}}
    assert failing_steps(json.dumps(inner)) == {"a#1", "b#1", "x/c#2"}


def test_a_rerun_keeps_what_was_handed_out_before_the_step():
    steps = [mark(1, "a"), mark(2, "b"), mark(3, "c")]
    change = judged(locked(RunState.COMPLETED, steps=steps), asked(Rerun(from_step="b")), NOW)
    assert [call.name for call in change.reopen.superseded] == ["b", "c"]


def test_a_rerun_drops_a_wait_that_was_opened_before_the_step_and_met_after_it():
    steps = [mark(1, "a"), mark(2, "nap", StepState.WAITING), mark(3, "b"), mark(4, "nap")]
    change = judged(locked(RunState.COMPLETED, steps=steps), asked(Rerun(from_step="b")), NOW)
    assert {call.name for call in change.reopen.superseded} == {"nap", "b"}


def test_a_rerun_without_a_step_keeps_nothing():
    steps = [mark(1, "a"), mark(2, "b")]
    change = judged(locked(RunState.CANCELLED, steps=steps), asked(Rerun()), NOW)
    assert len(change.reopen.superseded) == 2


class Compared(CallId):
    """A call that counts how often it is compared with others."""

    times = 0
    __hash__ = CallId.__hash__

    def __eq__(self, other):
        Compared.times += 1
        return tuple.__eq__(self, other)


def test_a_rerun_looks_each_call_up_instead_of_through_all():
    """The rest of a run of 10,000 steps took seconds in the middle of a transaction, and the server hung up."""
    Compared.times = 0
    steps = [StepMark(seq, Compared("", "charge", seq), StepState.COMPLETED) for seq in range(1, 2_001)]
    change = judged(locked(RunState.COMPLETED, steps=steps), asked(Rerun(from_step="1001")), NOW)
    assert len(change.reopen.superseded) == 1_000
    assert Compared.times < 10 * len(steps)


def test_a_rerun_from_the_first_step_is_refused_and_names_the_whole_rerun():
    with pytest.raises(NothingBefore, match="runs rerun") as refused:
        judged(locked(RunState.COMPLETED, steps=[mark(1, "a"), mark(2, "b")]), asked(Rerun(from_step="a")), NOW)
    assert refused.value.code == "E-RUN-005"


@given(names=st.lists(st.sampled_from("abcd"), min_size=2, max_size=12), chosen=st.integers(min_value=1))
def test_a_rerun_supersedes_exactly_the_calls_from_the_chosen_one_on(names, chosen):
    steps = [mark(seq, name, nth=seq) for seq, name in enumerate(names, start=1)]
    seq = 2 + chosen % (len(names) - 1)
    change = judged(locked(RunState.COMPLETED, steps=steps), asked(Rerun(from_step=str(seq))), NOW)
    assert [call.nth for call in change.reopen.superseded] == list(range(seq, len(names) + 1))


def test_another_version_is_what_the_next_generation_runs():
    change = judged(locked(RunState.COMPLETED), asked(Rerun(version=3)), NOW)
    assert (change.reopen.version, change.reopen.code) == (3, "checkout@3")


def test_an_ambiguous_step_is_refused_with_the_candidates():
    run = locked(steps=[mark(1, "a"), mark(2, "a", nth=2)])
    with pytest.raises(Invalid, match=r"by its address: a#1, a#2\."):
        find_step(run, "a")


def test_an_unknown_step_is_refused():
    with pytest.raises(StepNotFound, match="no step 'z'"):
        find_step(locked(steps=[mark(1, "a")]), "z")


def test_a_child_that_its_parent_has_counted_is_not_opened_again_while_the_parent_waits():
    run = locked(joins=Joins(RunId("p"), 4), is_awaited=True)
    with pytest.raises(IllegalMove, match="counted by its parent"):
        judged(run, asked(RetryRun()), NOW)


def test_replaying_a_dead_letter_resolves_it():
    assert judged(locked(has_letter=True), asked(RetryRun()), NOW).resolution == "replayed"


def test_only_an_open_dead_letter_is_discarded():
    assert judged(locked(has_letter=True), asked(Discard()), NOW).resolution == "discarded"
    with pytest.raises(IllegalMove, match="no open dead letter"):
        judged(locked(), asked(Discard()), NOW)


def test_a_run_that_times_out_becomes_a_dead_letter_unless_somebody_awaits_it():
    alone = judged(locked(RunState.PAUSED, task=TaskState.WAITING), asked(TimeOut(VERDICT)), NOW)
    child = judged(locked(RunState.WAITING, joins=Joins(RunId("p"), 1)), asked(TimeOut(VERDICT)), NOW)
    assert [event.type for event in alone.events] == ["exception_opened", "dlq_pending", "dlq_recorded", "failed"]
    assert (child.dead_letter, [event.type for event in child.events]) == (None, ["failed"])


def test_one_key_means_one_command_with_one_set_of_arguments():
    assert asked(Rerun(from_step="a")).digest != asked(Rerun(from_step="b")).digest
    assert asked(Cancel(), actor="ann").digest == asked(Cancel(), actor="bob").digest


@pytest.mark.parametrize("deadline_at", [None, Instant(NOW + 1)])
def test_a_run_whose_deadline_has_not_passed_is_not_timed_out(deadline_at):
    with pytest.raises(IllegalMove, match="its deadline has not passed"):
        judged(locked(RunState.WAITING, deadline_at=deadline_at), asked(TimeOut(VERDICT)), NOW)


@pytest.mark.parametrize(("has_begun", "state"), [(True, RunState.RUNNING), (False, RunState.PENDING)])
def test_a_resumed_run_that_no_worker_has_claimed_is_pending(has_begun, state):
    assert judged(locked(RunState.PAUSED, has_begun=has_begun), asked(Resume()), NOW).state is state
