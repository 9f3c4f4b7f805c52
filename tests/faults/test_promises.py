"""The checker of the trials finds each broken promise in recordings made by hand, and nothing in good ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.promises import (
    Body,
    Command,
    Kept,
    Recordings,
    Result,
    Start,
    Stored,
    Told,
    broken_promises,
    promises_of,
)

# Two steps; the first worker died in the second step, which the next one did again.
EVENTS = (
    Told(1, "queued", 1, 0),
    Told(2, "claimed", 1, 1),
    Told(3, "step_completed", 1, 1),
    Told(4, "reaped", 1, 2),
    Told(5, "claimed", 1, 3),
    Told(6, "step_completed", 1, 3),
    Told(7, "completed", 1, 3),
)
RECORDS = (Kept("a", "completed", 1, 1, False, "x"), Kept("b", "completed", 1, 3, False, "y"))
RUN = Stored("r", "k", "completed", "[x, y]", EVENTS, RECORDS, [(1, "completed")])
BODIES = (
    Body("r", "a", 1, 7, 10, 20, "start", "x"),
    Body("r", "b", 1, 7, 30, 45, "x", "z"),
    Body("r", "b", 3, 8, 40, 50, "x", "y"),
)
GOOD = Recordings([Start("k", "r")], [], [Result("r", "[x, y]")], BODIES, [RUN])


def changed(event: int, **changes: Any) -> list[Told]:
    return [told._replace(**changes) if told.seq == event else told for told in EVENTS]


def with_run(**changes: Any) -> Recordings:
    return GOOD._replace(runs=[RUN._replace(**changes)])


def with_bodies(*more: Body, without: int | None = None) -> Recordings:
    kept = [body for number, body in enumerate(BODIES) if number != without]
    return GOOD._replace(bodies=[*kept, *more])


def test_good_recordings_break_no_promise():
    assert broken_promises(GOOD) == []


CANCELLED = (*EVENTS[:3], Told(4, "cancelled", 1, 2), Told(5, "rerun", 2, 3), Told(6, "claimed", 2, 4))
GOOD_ONES = {
    "a start that was asked for twice": GOOD._replace(starts=[Start("k", "r")] * 2),
    "a command that nobody got an answer to": GOOD._replace(commands=[Command("r", "cancel", "c", (), True)]),
    "a refused command": GOOD._replace(commands=[Command("r", "cancel", "c", ())]),
    "a body of a killed process": with_bodies(BODIES[1]._replace(ended_at=None, gave=None), without=1),
    "a failure that is recorded": with_run(records=[*RECORDS, Kept("b", "pending", 1, 3, False, None)])._replace(
        bodies=[*BODIES, Body("r", "b", 3, 8, 36, 38, "x", None)]
    ),
    "a run that was cancelled in a step and begun anew": Recordings(
        [Start("k", "r")],
        [Command("r", "cancel", "c", ("cancelled",)), Command("r", "rerun", "d", ("pending", "pending"))],
        [],
        [BODIES[0], BODIES[1], Body("r", "a", 4, 8, 31, None, "start", None)],
        [Stored("r", "k", "running", None, CANCELLED, [RECORDS[0]._replace(superseded=True)], [(1, "cancelled")])],
    ),
    "a worker that handed its run back in a step": with_run(
        events=[*EVENTS[:3], Told(4, "handed_back", 1, 1), *EVENTS[4:]]
    )._replace(bodies=[BODIES[0], BODIES[1]._replace(ended_at=35), BODIES[2]]),
}


@pytest.mark.parametrize("recordings", GOOD_ONES.values(), ids=GOOD_ONES)
def test_what_is_allowed_breaks_no_promise(recordings):
    assert broken_promises(recordings) == []


BAD = {
    "an answered start that is lost": ("P1", GOOD._replace(starts=[Start("k", "r"), Start("l", "s")])),
    "a cancel that was answered and never told": (
        "P1",
        GOOD._replace(commands=[Command("r", "cancel", "c", ("cancelled",))]),
    ),
    "a cancel that nobody asked for": ("P1", with_run(events=changed(7, type="cancelled"))),
    "a body of a run that is not stored": ("P1", with_bodies(Body("s", "a", 1, 7, 1, 2, "start", "x"))),
    "a body that was given what no record holds": ("P1", with_bodies(BODIES[2]._replace(given="w"), without=2)),
    "two runs of one key": ("P2", GOOD._replace(runs=[RUN, RUN._replace(run_id="s")])),
    "a key that was answered with two runs": ("P2", GOOD._replace(starts=[Start("k", "r"), Start("k", "s")])),
    "two answers to one key": ("P2", GOOD._replace(commands=[Command("r", "pause", "c", ("paused", "refused"))])),
    "a token that went back": ("P4", with_run(events=changed(6, token=2))),
    "a claim that did not raise the token": ("P4", with_run(events=changed(5, token=2))),
    "two bodies at once and no lease lost": ("P6", with_run(events=changed(4, type="waiting"))),
    "two bodies at once under one token": ("P6", with_bodies(BODIES[2]._replace(pid=9))),
    "a body that goes on beside the next after a hand-back": ("P6", with_run(events=changed(4, type="handed_back"))),
    "two results of one call": ("P7", with_run(records=[*RECORDS, RECORDS[0]._replace(token=3)])),
    "a record that no body gave": ("P7", with_bodies(BODIES[2]._replace(gave="w"), without=2)),
    "a body that ran again for nothing": ("P9", with_bodies(BODIES[0]._replace(begun_at=21, ended_at=22))),
    "a body that ran although its record stands": ("P9", with_bodies(Body("r", "a", 3, 8, 35, 36, "start", "x"))),
    "a body that was cut off for nothing": ("P9", with_run(events=changed(4, type="paused"))),
    "a result that is not the stored one": ("P12", GOOD._replace(results=[Result("r", "[x, z]")])),
    "two ends of one generation": ("P12", with_run(outcomes=[(1, "completed"), (1, "failed")])),
    "an end that is not told": ("P12", with_run(events=EVENTS[:-1])),
    "a step after the end": ("P14", with_run(events=[*EVENTS, Told(8, "step_completed", 1, 3)])),
    "a gap in the history": ("P16", with_run(events=[*EVENTS[:2], *EVENTS[3:]])),
}


@pytest.mark.parametrize(("promise", "recordings"), BAD.values(), ids=BAD)
def test_a_broken_promise_is_found(promise, recordings):
    assert promise in promises_of(broken_promises(recordings))
