"""Trouble that is not a run's own: counted while the run comes no further, and waited out for longer each time."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.decisions import HandBack, HeldRun
from stepfast.kernel.durations import Instant, span_ms
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.troubles import LASTING, PATIENCE, Trouble, put_off, trouble_of, troubles_so_far
from stepfast.kernel.views import EventView

RUN = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")
NOW = Instant(1_750_000_000_000)
IDLE = ["claimed", "started", "step_started", "step_progress", "signalled", "reaped"]
MOVES = ["step_completed", "step_failed", "step_waiting", "waiting", "retried", "continued", "queued"]


def held() -> HeldRun:
    return HeldRun(
        RUN, "default", "checkout", 1, "workflow", "default", 1, 1, WorkerId("w1"), "{}", 0, False, 1, 0, 0, 2, NOW
    )


def event(of_type: str, data: str | None = None) -> EventView:
    return EventView(9, 9, RUN, "default", 1, of_type, NOW, None, None, 1, None, data)


def handed_back(number: int) -> EventView:
    (told,) = put_off(held(), Trouble("E-BLOB-001: gone", number), NOW).events
    return event(told.type, told.data)


def delay_ms(number: int) -> int:
    release = put_off(held(), Trouble("E-BLOB-001: gone", number), NOW).release
    assert isinstance(release, HandBack)
    return release.delay_ms


@given(number=st.integers(1, 10**6), idle=st.lists(st.sampled_from(IDLE)))
def test_troubles_add_up_while_the_run_comes_no_further(number, idle):
    assert troubles_so_far([handed_back(number), *map(event, idle)]) == number


@given(number=st.integers(1, 10**6), before=st.lists(st.sampled_from(IDLE)), move=st.sampled_from(MOVES))
def test_they_are_counted_anew_once_it_has(number, before, move):
    assert troubles_so_far([handed_back(number), *map(event, before), event(move)]) == 0


def test_a_worker_that_stopped_meanwhile_changes_nothing():
    stopped = event(EventType.HANDED_BACK, json.dumps({"reason": "the worker stops"}))
    assert troubles_so_far([handed_back(4), event("claimed"), stopped, event("claimed")]) == 4
    assert trouble_of(stopped) is None


@given(number=st.integers(1, 10**6))
def test_the_pause_grows_up_to_its_cap(number):
    longest = span_ms(PATIENCE.cap) * (1 + PATIENCE.jitter)
    assert min(span_ms(PATIENCE.base) * 2 ** min(number - 1, 20), span_ms(PATIENCE.cap)) <= delay_ms(number) <= longest


@given(number=st.integers(1, 100))
def test_a_trouble_is_called_lasting_when_it_has_come_several_times_in_a_row(number):
    told = json.loads(handed_back(number).data or "")
    assert told.get("is_lasting", False) == (number >= LASTING)
    assert trouble_of(handed_back(number)) == Trouble("E-BLOB-001: gone", number)
