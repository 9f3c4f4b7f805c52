"""Which records of a plan's run go when a step of it goes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepfast.kernel.commands import LockedRun, Request, Rerun, RetryRun, Rollback, Skip, StepMark
from stepfast.kernel.control import decide
from stepfast.kernel.decisions import CallId
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, Invalid, StepNotFound
from stepfast.kernel.ids import RunId
from stepfast.kernel.plan_control import Ties, owner_of
from stepfast.kernel.states import ENDED, RunState, StepState, TaskState

RUN = RunId("0198aaaa-0000-7000-8000-000000000001")
NOW = Instant(1_000)


def ties(followers: dict[str, str], inside: dict[str, str] | None = None, **more: Any) -> Ties:
    """A plan of steps with names of one letter: `ab` are the steps a and b."""
    names = set(followers).union(*followers.values())
    inside = inside or {}
    around = {name: tuple(outer for outer in inside if name in inside[outer]) for name in names}
    told: dict[str, Any] = {"undoes": {}, "fans": frozenset(), "many": frozenset(), **more}
    return Ties(
        followers={name: frozenset(followers.get(name, "")) for name in names},
        inside={name: frozenset(inside.get(name, "")) for name in names},
        around=around,
        **told,
    )


def mark(seq: int, name: str, state: StepState = StepState.COMPLETED, path: str = "", kind: str = "step") -> StepMark:
    return StepMark(seq, CallId(path, name, 1), state, kind)


def locked(*steps: StepMark, state: RunState = RunState.COMPLETED, **changes: Any) -> LockedRun:
    run = LockedRun(
        RUN, "acme", "score", 1, "workflow", "score@1", "{}", 1, state,
        None if state in ENDED else TaskState.WAITING, hold=state is RunState.PAUSED, is_put_off=False, error=None,
        joins=None, is_awaited=False, has_letter=False, steps=steps,
    )  # fmt: skip
    return run._replace(**changes)


def change(run: LockedRun, command: Any) -> Any:
    return decide(run, Request(RUN, command), NOW)


def gone(run: LockedRun, command: Any) -> set[str]:
    done = change(run, command)
    calls = done.reopen.superseded if done.reopen else done.superseded
    return {call.address for call in calls}


@pytest.mark.parametrize(
    ("call", "owner"),
    [
        (CallId("", "score", 1), "score"),
        (CallId("", "score.timeout", 1), "score"),
        (CallId("score[a.b]", "score.undo", 1), "score"),
        (CallId("score", "review", 2), "score"),
        (CallId("group[k].score", "policy", 1), "score"),
        (CallId("group[k]", "inner", 1), "inner"),
        (CallId("poll[~2.3]", "inner", 1), "inner"),
    ],
)
def test_a_record_belongs_to_the_step_that_its_place_names(call, owner):
    assert owner_of(call) == owner


def test_what_rests_on_a_step_goes_with_it_and_nothing_else():
    run = locked(mark(1, "a"), mark(2, "b"), mark(3, "x"), mark(4, "c"))
    assert gone(run, Rerun("b", ties=ties({"a": "bx", "b": "c"}))) == {"b#1", "c#1"}


def test_a_key_with_a_point_in_it_is_no_path():
    run = locked(mark(1, "a"), mark(2, "f", path="f[a.b]"), mark(3, "b"))
    assert gone(run, Rerun("f", ties=ties({"a": "", "f": "", "b": ""}))) == {"f[a.b]/f#1"}


def test_what_a_group_did_before_the_step_inside_it_stays():
    before, after = StepMark(1, CallId("g", "review", 1), StepState.COMPLETED), mark(4, "g")
    run = locked(before, mark(2, "i"), mark(3, "j"), after)
    plan = ties({"g": "", "i": "", "j": ""}, {"g": "ij"})
    assert gone(run, Rerun("i", ties=plan)) == {"i#1", "g#1"}


def test_other_items_stay_when_one_is_named():
    run = locked(mark(1, "f", path="f[1]"), mark(2, "f", path="f[2]"), mark(3, "f"), mark(4, "z"))
    plan = ties({"f": "z"}, fans=frozenset("f"))
    assert gone(run, Rerun("f[1]/f#1", ties=plan)) == {"f[1]/f#1", "f#1", "z#1"}


def test_a_failure_that_ended_the_run_goes_with_every_rerun():
    error = json.dumps({"type": "E", "message": "m", "step": "x#1"})
    steps = (mark(1, "a"), mark(2, "b"), mark(3, "x", StepState.FAILED), mark(4, "y", StepState.CANCELLED))
    run = locked(*steps, state=RunState.FAILED, error=error)
    assert gone(run, Rerun("b", ties=ties({"a": "b", "x": "", "y": ""}))) == {"b#1", "x#1", "y#1"}


def test_what_was_called_off_before_the_failure_stays():
    error = json.dumps({"type": "E", "message": "m", "step": "x#1"})
    steps = (mark(1, "a"), mark(2, "a.timeout", StepState.CANCELLED), mark(3, "x", StepState.FAILED), mark(4, "b"))
    run = locked(*steps, state=RunState.FAILED, error=error)
    assert gone(run, Rerun("b", ties=ties({"a": "", "x": "", "b": ""}))) == {"x#1", "b#1"}


def test_a_retry_of_a_step_of_a_partial_run_leaves_the_other_failures():
    steps = (mark(1, "a", StepState.FAILED), mark(2, "b", StepState.FAILED), mark(3, "c", StepState.SKIPPED))
    run = locked(*steps, state=RunState.PARTIAL, error=json.dumps({"borne": ["a#1", "b#1"]}))
    assert gone(run, RetryRun("a", ties=ties({"a": "c", "b": ""}))) == {"a#1", "c#1"}


def test_what_was_told_of_a_failure_goes_with_it():
    steps = (mark(1, "a", StepState.FAILED), mark(2, "a.borne", kind="borne"), mark(3, "b.borne", kind="borne"))
    run = locked(*steps, state=RunState.PARTIAL, error=json.dumps({"borne": ["a#1"]}))
    assert gone(run, RetryRun("a", ties=ties({"a": "", "b": ""}))) == {"a#1", "a.borne#1"}


def test_what_a_person_gave_is_kept_by_a_retry():
    given = mark(1, "a", StepState.SKIPPED, kind="given")
    run = locked(given, mark(2, "b", StepState.FAILED), state=RunState.PARTIAL, error='{"borne": ["b#1"]}')
    assert gone(run, RetryRun()) == {"b#1"}


def test_a_step_that_waits_is_given_in_the_same_generation_and_waits_no_more():
    run = locked(mark(1, "a"), mark(2, "w", StepState.WAITING), mark(3, "o", StepState.WAITING), state=RunState.WAITING)
    done = change(run, Skip("w", "1", ties({"a": "wo"})))
    assert (done.reopen, done.superseded, done.closed) == (None, (CallId("", "w", 1),), (2,))
    assert [(record.call, record.value) for record in done.records] == [(CallId("", "w", 1), "1")]
    assert (done.state, done.ready) == (RunState.RUNNING, True)


def test_a_step_of_a_gate_is_given_at_the_place_of_the_step():
    run = locked(mark(1, "review", StepState.WAITING, path="g[k].s"), state=RunState.WAITING)
    plan = ties({"g": "", "s": ""}, {"g": "s"}, many=frozenset("s"))
    assert change(run, Skip("g[k].s/review#1", "1", plan)).records[0].call == CallId("g[k]", "s", 1)


def test_a_step_that_is_done_many_times_is_not_given_by_its_id():
    run = locked(mark(1, "s", path="g[k]"), state=RunState.FAILED)
    with pytest.raises(Invalid, match="address"):
        change(run, Skip("s", "1", ties({"g": "", "s": ""}, {"g": "s"}, many=frozenset("s"))))


def test_items_that_are_runs_of_their_own_are_not_given_one_by_one():
    run = locked(mark(1, "f", StepState.FAILED, path="f[page0]", kind="children"), state=RunState.FAILED)
    with pytest.raises(Invalid, match="as a whole"):
        change(run, Skip("1", "1", ties({"f": ""}, fans=frozenset("f"))))


@pytest.mark.parametrize("command", [Skip("a", "1", ties({"a": ""})), Rollback("a")])
def test_a_run_that_a_worker_holds_is_left_alone(command):
    run = locked(mark(1, "a"), state=RunState.WAITING, task=TaskState.LEASED)
    with pytest.raises(IllegalMove, match="pause"):
        change(run, command)


def test_a_rollback_supersedes_what_ended_after_the_step_and_holds_the_run():
    run = locked(mark(1, "a"), mark(2, "w", StepState.WAITING), mark(3, "b"), mark(4, "w"), mark(5, "c"))
    done = change(run, Rollback("b"))
    assert {call.name for call in done.reopen.superseded} == {"w", "c"}
    assert (done.state, done.hold) == (RunState.PAUSED, True)


def test_a_rollback_to_a_step_that_has_not_ended_is_refused():
    run = locked(mark(1, "w", StepState.WAITING), state=RunState.WAITING)
    with pytest.raises(IllegalMove, match="has not ended"):
        change(run, Rollback("w"))


def test_a_rollback_to_a_step_that_was_not_reached_is_refused():
    with pytest.raises(StepNotFound, match="not reached"):
        change(locked(mark(1, "a")), Rollback("b", ties=ties({"a": "b"})))


def test_what_was_looked_up_for_a_command_is_no_part_of_what_its_key_stands_for():
    plain, tied = Rerun("a"), Rerun("a", ties=ties({"a": "b"}))
    assert Request(RUN, plain).digest == Request(RUN, tied).digest
