"""Why a run stands where it stands, from what was read of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepfast.kernel.decisions import CallId, Message, OpenWait
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Look
from stepfast.kernel.generations import ChildView
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.outside import Asking
from stepfast.kernel.reasons import explain, putting_off_events, telling_events
from stepfast.kernel.reviews import Owner
from stepfast.kernel.seen import Seen
from stepfast.kernel.states import RunState, StepState, WaitKind
from stepfast.kernel.views import EventView, RunView, StepView, WorkerView

RUN = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")
NOW = Instant(1_750_000_000_000)  # 2025-06-15 15:06:40 UTC
LATER = Instant(NOW + 60_000)


def view(state: RunState, **more: Any) -> RunView:
    known: dict[str, Any] = dict.fromkeys(RunView._fields)
    known |= {"run_id": RUN, "tenant": "default", "workflow": "checkout", "version": 3, "kind": "workflow"}
    known |= {"state": state, "generation": 1, "queue": "gpu", "priority": 0, "queued_at": NOW, "updated_at": NOW}
    known |= {"token": 1, "crashes": 0, "claims": 0, "input": "{}", "code": "checkout@3"}
    return RunView(**{**known, **more})


def worker(**more: Any) -> WorkerView:
    known: dict[str, Any] = {"worker_id": WorkerId("w1"), "label": "web", "host": "box", "pid": 1}
    known |= {"queues": ("gpu",), "codes": ("checkout@3",), "lease_ms": 30_000, "started_at": NOW, "seen_at": NOW}
    return WorkerView(**{**known, "dead_at": None, **more})


def wait(kind: WaitKind, name: str = "x", due_at: Instant | None = None, **more: int) -> OpenWait:
    numbers = {"need": 1, "spare": 0, "total": 1, "got": 0, "failed": 0, **more}
    return OpenWait(1, kind, name, due_at, **numbers)


def event(of_type: str, actor: str | None = None, **data: str) -> EventView:
    return EventView(9, 9, RUN, "default", 1, of_type, NOW, None, None, 1, actor, json.dumps(data))


def why(
    run: RunView, *waits: OpenWait, hold: bool = False, workers: Any = None, told: Any = None, put_off: Any = None
) -> str:
    workers = [worker()] if workers is None else workers
    look = None if run.ended_at else Look(1, 0, hold, list(waits), [])
    return str(explain(Seen(run, look, workers, told, NOW, put_off=put_off)))


def test_a_run_that_is_handed_back_for_trouble_says_what_it_is_and_how_often_it_was():
    backoff = wait(WaitKind.BACKOFF, "backoff", LATER)._replace(wait_id=0)
    told = event("handed_back", reason="E-BLOB-001: The blob is gone.", troubles="7")
    said = why(view(RunState.PENDING), backoff, put_off=told)
    assert "handed back 7 times in a row and is tried again at 2025-06-15 15:07:40 UTC: E-BLOB-001: The blob" in said
    assert "handed_back" in putting_off_events(Look(1, 0, False, [backoff], []))


def test_the_backoff_of_a_step_is_not_taken_for_trouble_of_the_run():
    backoff = wait(WaitKind.BACKOFF, "charge", LATER)
    assert putting_off_events(Look(1, 0, False, [backoff], [])) == frozenset()
    assert "It is backing off until 2025-06-15 15:07:40 UTC." in why(view(RunState.PENDING), backoff)


def failed_try(**error: str) -> StepView:
    call = CallId("0", "charge", 2)
    error_text, at = json.dumps(error), Instant(NOW - 1)
    return StepView(7, call, "step", StepState.FAILED, 3, 1, None, "[]", None, error_text, at, at, LATER)


def why_tried_again(**error: str) -> str:
    backoff = wait(WaitKind.BACKOFF, "charge", LATER)._replace(wait_id=7)
    look = Look(1, 0, False, [backoff], [])
    seen = Seen(view(RunState.PENDING), look, [worker()], None, NOW, tries={7: failed_try(**error)})
    return str(explain(seen)).splitlines()[1]


def test_a_step_that_is_tried_again_is_named_with_what_it_failed_with():
    step = failed_try().call.address
    assert why_tried_again(type="builtins:ConnectionError", message="refused") == (
        f"Step {step} is tried again at 2025-06-15 15:07:40 UTC: attempt 3 failed with ConnectionError: refused. "
        "Time moves it."
    )
    assert "failed with ValueError. Time" in why_tried_again(type="builtins:ValueError", message="")
    assert len(why_tried_again(type="builtins:ValueError", message="x" * 5_000)) < 500


def test_a_run_that_is_tried_again_as_a_whole_says_what_it_failed_with():
    backoff = wait(WaitKind.BACKOFF, "backoff", LATER)._replace(wait_id=0)
    told = event("retry_scheduled", error_type="builtins:ValueError", message="no card")
    said = why(view(RunState.PENDING), backoff, put_off=told)
    assert "It failed and is tried again at 2025-06-15 15:07:40 UTC: ValueError: no card. Time moves it." in said
    assert "retry_scheduled" in putting_off_events(Look(1, 0, False, [backoff], []))


@pytest.mark.parametrize(
    ("run", "waits"),
    [
        (view(RunState.WAITING), [wait(WaitKind.SIGNAL, "paid")]),
        (view(RunState.PAUSED), [wait(WaitKind.SIGNAL, "paid")]),
        (view(RunState.PENDING), []),
        (view(RunState.RUNNING, worker_id=WorkerId("w1")), []),
    ],
)
def test_an_open_run_with_a_time_limit_says_when_that_is_over(run, waits):
    look = Look(1, 0, False, waits, [], LATER)
    *_, last = explain(Seen(run, look, [worker()], None, NOW)).reasons
    assert (last.kind, last.due_at) == ("deadline", LATER)
    assert str(last) == "Its time is over at 2025-06-15 15:07:40 UTC. If it has not ended by then, it fails."


@pytest.mark.parametrize("kind", [WaitKind.BACKOFF, WaitKind.DELAY, WaitKind.TIME])
def test_a_run_that_waits_for_time_says_if_nobody_will_take_it_then(kind):
    run = view(RunState.WAITING if kind is WaitKind.TIME else RunState.PENDING)
    pause = wait(kind, "charge", LATER)
    assert "No worker is alive. Start one that has checkout@3" in why(run, pause, workers=[])
    assert "No live worker has checkout@3." in why(run, pause, workers=[worker(codes=("mail@1",))])
    assert "serves queue gpu." in why(run, pause, workers=[worker(queues=("default",))])
    assert "worker" not in why(run, pause)


def test_a_run_that_waits_for_a_signal_alone_does_not_speak_of_workers():
    assert "worker" not in why(view(RunState.WAITING), wait(WaitKind.SIGNAL, "paid"), workers=[])


def test_the_run_and_its_state_come_first():
    assert why(view(RunState.PENDING)).startswith(f"Run {RUN} is pending.\n")


def test_a_leased_run_names_its_worker():
    run = view(RunState.RUNNING, worker_id=WorkerId("w1"))
    assert "leased by worker w1 (web, host box) since 2025-06-15 15:06:40 UTC" in why(run)


def test_a_worker_that_is_silent_is_said_to_be():
    run = view(RunState.RUNNING, worker_id=WorkerId("w1"))
    silent = worker(seen_at=Instant(NOW - 30_001))
    assert "last heard of at 2025-06-15 15:06:09 UTC. No live worker" in why(run, workers=[silent])
    assert "The upkeep of any live worker" in why(run, workers=[silent, worker(worker_id=WorkerId("w2"))])


def test_a_worker_of_which_nothing_is_known_is_named():
    assert "leased by worker w9" in why(view(RunState.RUNNING, worker_id=WorkerId("w9")))


def test_a_pause_that_has_not_come_into_force_is_told():
    assert "A pause was asked for" in why(view(RunState.RUNNING, worker_id=WorkerId("w1")), hold=True)


@pytest.mark.parametrize(
    ("open_wait", "sentence"),
    [
        (wait(WaitKind.TIME, due_at=LATER), "It sleeps until 2025-06-15 15:07:40 UTC."),
        (
            wait(WaitKind.SIGNAL, "paid"),
            f"It waits for signal 'paid'. `stepfast runs signal {RUN} paid JSON` sends it.",
        ),
        (wait(WaitKind.SIGNAL, "paid in full"), f"`stepfast runs signal {RUN} 'paid in full' JSON` sends it."),
        (wait(WaitKind.SIGNAL, "-paid"), f"`stepfast runs signal {RUN} -- -paid JSON` sends it."),
        (wait(WaitKind.SIGNAL, "paid", LATER), "It waits for signal 'paid' until 2025-06-15 15:07:40 UTC."),
        (
            wait(WaitKind.CHILDREN, "charge", need=9, spare=1, total=10, got=6, failed=1),
            "3 of 10 children of charge (1 failed)",
        ),
        (
            wait(WaitKind.REVIEW, "price"),
            f"It waits for review 'price' ({RUN}.1). `stepfast reviews decide {RUN}.1 VERDICT`",
        ),
        (wait(WaitKind.REVIEW, "price", LATER), f"'price' ({RUN}.1) until 2025-06-15 15:07:40 UTC."),
        (
            wait(WaitKind.OUTSIDE, Asking("train#1", "b7").text, LATER),
            'Step train#1 waits for outside work (handle "b7"), asked again at 2025-06-15 15:07:40 UTC. An answer',
        ),
        (
            wait(WaitKind.OUTSIDE, Asking("train#1", "b7", error="OSError: no route").text, LATER),
            "at 2025-06-15 15:07:40 UTC. The last question failed: OSError: no route. An answer",
        ),
        (
            wait(WaitKind.OUTSIDE, Asking("train#1", {"id": 7}, polled=False).text),
            'Step train#1 waits for outside work (handle {"id": 7}). Its call back moves it.',
        ),
        (wait(WaitKind.CODE, "checkout@3"), "Its records do not fit the code of checkout@3."),
    ],
)
def test_a_waiting_run_names_what_it_waits_for(open_wait, sentence):
    assert sentence in why(view(RunState.WAITING), open_wait)


@pytest.mark.parametrize(
    ("owner", "asked"), [(Owner(role="legal"), "role legal"), (Owner("anna", "legal"), "anna"), (Owner("anna"), "anna")]
)
def test_a_review_names_whom_it_asks(owner, asked):
    look = Look(1, 0, False, [wait(WaitKind.REVIEW, "price", LATER)], [])
    seen = Seen(view(RunState.WAITING), look, [worker()], None, NOW, {1: owner})
    assert f"'price' ({RUN}.1), for {asked}, until 2025-06-15 15:07:40 UTC." in str(explain(seen))


def test_every_wait_of_a_run_is_named():
    both = why(view(RunState.WAITING), wait(WaitKind.SIGNAL, "paid"), wait(WaitKind.TIME, due_at=LATER))
    assert ("'paid'" in both, "sleeps" in both) == (True, True)


def message(kind: str, name: str, at: Instant = NOW) -> Message:
    return Message(1, kind, name, "1", None, at, True)


@pytest.mark.parametrize(
    ("open_wait", "came", "sentence"),
    [
        (wait(WaitKind.SIGNAL, "go"), [message("signal", "go")], "Signal 'go' has come."),
        (wait(WaitKind.REVIEW, "price"), [message("review", "1")], f"Review 'price' ({RUN}.1) has its answer."),
        (
            wait(WaitKind.OUTSIDE, Asking("train#1", "b7").text),
            [message("callback", "1:train#1")],
            "The outside work of step train#1 has called back.",
        ),
        (wait(WaitKind.CHILDREN, "charge", got=1), [], "Enough of its children of charge have ended."),
    ],
)
def test_what_has_come_for_a_paused_run_is_not_asked_for_again(open_wait, came, sentence):
    seen = Seen(view(RunState.PAUSED), Look(1, 0, True, [open_wait], came), [worker()], None, NOW)
    assert str(explain(seen)).endswith(f"\n{sentence} The run goes on from there when it is resumed.")


def test_what_has_come_for_a_run_that_was_handed_back_is_taken_when_it_is_tried_again():
    backoff = wait(WaitKind.BACKOFF, "backoff", LATER)._replace(wait_id=0)
    look = Look(1, 0, False, [backoff, wait(WaitKind.SIGNAL, "go")], [message("signal", "go")])
    said = str(explain(Seen(view(RunState.WAITING), look, [worker()], None, NOW)))
    assert "Signal 'go' has come. The run goes on from there when it is tried again." in said


@pytest.mark.parametrize(
    "other", [message("signal", "other"), message("cancel", "go"), message("signal", "go", Instant(LATER + 1))]
)
def test_what_comes_for_something_else_or_too_late_ends_no_wait(other):
    look = Look(1, 0, True, [wait(WaitKind.SIGNAL, "go", LATER)], [other])
    assert "It waits for signal 'go'" in str(explain(Seen(view(RunState.PAUSED), look, [worker()], None, NOW)))


def test_one_signal_ends_one_of_two_waits_for_it():
    waits = [wait(WaitKind.SIGNAL, "go"), wait(WaitKind.SIGNAL, "go")._replace(wait_id=2)]
    said = str(explain(Seen(view(RunState.PAUSED), Look(1, 0, True, waits, [message("signal", "go")]), [], None, NOW)))
    assert (said.count("has come"), said.count("It waits for signal 'go'")) == (1, 1)


def test_a_paused_run_whose_time_has_come_is_moved_by_a_resume():
    said = why(view(RunState.PAUSED), wait(WaitKind.TIME, due_at=NOW), hold=True)
    assert "Its time has come: The run goes on from there when it is resumed." in said


def test_a_run_that_is_ready_is_in_line_though_one_of_its_steps_is_backing_off():
    run = view(RunState.RUNNING)
    assert "It is queued in gpu" in why(run, wait(WaitKind.SIGNAL, "go"), wait(WaitKind.BACKOFF, "charge", LATER))


def test_a_wait_whose_time_has_come_needs_a_worker():
    overdue, run = wait(WaitKind.TIME, due_at=NOW), view(RunState.WAITING, queue="default")
    missing = "Its time has come: No worker is alive. Start one that has checkout@3 with `stepfast worker`."
    assert missing in why(run, overdue, workers=[])


def test_a_wait_whose_time_has_come_needs_a_worker_with_its_code():
    overdue, run = wait(WaitKind.TIME, due_at=NOW), view(RunState.WAITING)
    said = why(run, overdue, workers=[worker(codes=("other@1",))])
    assert f"Its time has come: No live worker has {run.code}. Start one whose app has it." in said
    assert "Its time has come: The next worker with a free slot takes it up." in why(run, overdue)


@pytest.mark.parametrize(
    ("queue", "command"),
    [
        ("default", "stepfast worker"),
        ("gpu", "stepfast worker --queues gpu"),
        ("gpu; jobs", "stepfast worker --queues 'gpu; jobs'"),
        ("gpu,jobs", "app.worker(queues=['gpu,jobs'])"),
        (" gpu", "app.worker(queues=[' gpu'])"),
    ],
)
def test_without_any_worker_a_run_names_the_command_that_serves_its_queue(queue, command):
    said = why(view(RunState.PENDING, queue=queue), workers=[])
    assert f"No worker is alive. Start one that has checkout@3 with `{command}`." in said


def test_code_that_does_not_fit_says_where():
    told = event("waiting", kind="code", reason="charge#1 was called with 5, recorded is 4.")
    text = why(view(RunState.WAITING), wait(WaitKind.CODE, "checkout@3"), told=told)
    assert "code of checkout@3 that fits: charge#1 was called with 5, recorded is 4." in text


def test_what_a_run_waits_for_besides_code_does_not_move_it():
    for_code, goes_on = wait(WaitKind.CODE, "checkout@3"), "The run goes on from there when it has code that fits."
    assert f"It sleeps until 2025-06-15 15:07:40 UTC. {goes_on}" in why(
        view(RunState.WAITING), for_code, wait(WaitKind.TIME, due_at=LATER)
    )
    assert f"Its time has come: {goes_on}" in why(view(RunState.WAITING), for_code, wait(WaitKind.TIME, due_at=NOW))


def test_a_run_that_no_code_fits_any_more_names_the_way_out():
    said = why(view(RunState.WAITING), wait(WaitKind.CODE, "checkout@3"))
    assert f"`stepfast runs rollback {RUN} --to STEP`" in said
    assert f"`stepfast runs resume {RUN}` lets it go on from there." in said


def test_a_run_that_was_taken_back_is_not_said_to_wait_for_code():
    told = event("rolled_back", "ann", reason="back to before the change")
    said = why(view(RunState.PAUSED), wait(WaitKind.CODE, "checkout@3"), hold=True, told=told)
    assert said.endswith("did not fit the code of checkout@3. It is tried again when it is resumed.")


@pytest.mark.parametrize(("kind", "words"), [(WaitKind.DELAY, "put off"), (WaitKind.BACKOFF, "backing off")])
def test_a_run_that_is_put_off_says_until_when(kind, words):
    assert f"It is {words} until 2025-06-15 15:07:40 UTC." in why(view(RunState.PENDING), wait(kind, due_at=LATER))


def test_a_run_whose_delay_is_over_stands_in_line():
    assert "It is queued in gpu" in why(view(RunState.PENDING), wait(WaitKind.DELAY, due_at=NOW))


@pytest.mark.parametrize(
    ("workers", "sentence"),
    [
        ([], "No worker is alive."),
        ([worker(dead_at=NOW)], "No worker is alive."),
        ([worker(seen_at=Instant(NOW - 30_001))], "No worker is alive."),
        (
            [worker(codes=("checkout@2",))],
            "No live worker has checkout@3. There is checkout@2. Start one whose app has it.",
        ),
        ([worker(codes=("checkout@2#0123456789ab",))], "No live worker has checkout@3. Start one whose app has it."),
        ([worker(queues=("default",))], "No live worker that has checkout@3 serves queue gpu."),
        ([worker()], "It is queued in gpu since 2025-06-15 15:06:40 UTC; 1 worker serves it."),
        ([worker(), worker(worker_id=WorkerId("w2"))], "2 workers serve it."),
    ],
)
def test_a_run_in_line_says_who_can_take_it(workers, sentence):
    assert sentence in why(view(RunState.PENDING), workers=workers)


def test_a_step_with_a_queue_of_its_own_needs_a_worker_with_its_executor():
    run = view(RunState.PENDING, kind="step", workflow="render", code="render")
    assert "No live worker has executor render." in why(run)


def child(state: RunState = RunState.PENDING, number: int = 1, **more: Any) -> ChildView:
    known: dict[str, Any] = {"run_id": RunId(f"child-{number}"), "workflow": "render", "code": "render", "queue": "gpu"}
    return ChildView(**{**known, "state": state, "worker_id": None, "waits_for_code": False, **more})


def why_of_parent(*children: ChildView, workers: Any = None) -> str:
    look = Look(1, 0, False, [wait(WaitKind.CHILDREN, "render")], [])
    workers = [worker(codes=("render",), queues=("default",))] if workers is None else workers
    return str(explain(Seen(view(RunState.WAITING), look, workers, None, NOW, children=children)))


@pytest.mark.parametrize(
    ("workers", "sentence"),
    [
        ([worker()], "No live worker has executor render. Start one whose app has it."),
        (
            [worker(codes=("render",), queues=("default",))],
            "No live worker that has executor render serves queue gpu. Start one with `stepfast worker --queues gpu`.",
        ),
        ([], "No worker is alive. Start one that has executor render with `stepfast worker --queues gpu`."),
    ],
)
def test_a_run_that_waits_for_a_child_which_nobody_can_take_says_why(workers, sentence):
    said = (
        f"It waits for 1 of 1 children of render. Their ends move it.\nChild child-1 of render cannot move: {sentence}"
    )
    assert said in why_of_parent(child(), workers=workers)


def test_children_that_stand_still_for_one_reason_are_told_of_once():
    said = why_of_parent(*(child(number=number) for number in range(1, 4)))
    assert said.count("Child ") == 1
    assert "Child child-1 of render, and at least 2 more like it, cannot move: No live worker" in said


def test_a_child_that_is_held_or_has_no_code_that_fits_is_told_of():
    said = why_of_parent(child(RunState.PAUSED), child(RunState.WAITING, 2, waits_for_code=True))
    assert "Child child-1 of render cannot move: It is paused. `stepfast runs resume child-1` lets it go on." in said
    assert "Child child-2 of render cannot move: Its records do not fit the code. `stepfast runs why child-2`" in said


def test_a_child_whose_worker_died_is_told_of_while_nobody_lives():
    said = why_of_parent(child(RunState.RUNNING, worker_id=WorkerId("w1")), workers=[])
    assert "Child child-1 of render cannot move: No worker is alive. Start one that has executor render with" in said


@pytest.mark.parametrize(
    "moving", [child(RunState.RUNNING, worker_id=WorkerId("w1")), child(RunState.WAITING), child(queue="default")]
)
def test_children_that_can_move_are_not_told_of(moving):
    assert "Child " not in why_of_parent(moving)


def test_a_spread_step_needs_the_code_of_the_run_that_spread_it():
    run = view(RunState.PENDING, kind="step", workflow="render", code="film@1")
    assert "No live worker has film@1." in why(run)


@pytest.mark.parametrize(("crashes", "often"), [(1, "1 time"), (2, "2 times")])
def test_a_suspect_says_why_it_waits_longer(crashes, often):
    assert f"Its workers died {often} while they held it." in why(view(RunState.RUNNING, crashes=crashes))


def test_a_paused_run_says_who_paused_it_and_what_is_underneath():
    told = event("paused", "ann", reason="price check")
    text = why(view(RunState.PAUSED), wait(WaitKind.SIGNAL, "paid"), hold=True, told=told)
    assert "It was paused by ann at 2025-06-15 15:06:40 UTC: price check." in text
    assert "It waits for signal 'paid'." in text


def test_a_failed_run_says_with_what():
    error = json.dumps({"type": "builtins:ValueError", "message": "no card"})
    text = why(view(RunState.FAILED, ended_at=NOW, error=error))
    assert f"It failed at 2025-06-15 15:06:40 UTC with ValueError: no card. `stepfast runs retry {RUN}`" in text


def test_a_cancelled_run_says_by_whom():
    told = event("cancelled", "ann", reason="a mistake")
    assert "It was cancelled by ann at 2025-06-15 15:06:40 UTC: a mistake." in why(
        view(RunState.CANCELLED, ended_at=NOW), told=told
    )


def test_a_completed_run_waits_for_nothing():
    text = why(view(RunState.COMPLETED, ended_at=NOW))
    assert "It ended at 2025-06-15 15:06:40 UTC." in text
    assert "Nothing moves it any more but a rerun or a rollback." in text


def test_only_what_people_did_is_looked_up_in_the_history():
    code = Look(1, 0, False, [wait(WaitKind.CODE)], [])
    assert telling_events(view(RunState.PAUSED), None) == {"paused", "rolled_back"}
    assert telling_events(view(RunState.CANCELLED), None) == {"cancelled"}
    assert telling_events(view(RunState.WAITING), code) == {"waiting"}
    assert telling_events(view(RunState.RUNNING), None) == frozenset()
