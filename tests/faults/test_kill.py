"""kill -9 of the worker: what was answered is kept, and no body runs again without reason."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.processes import RESULT, results, victim
from tests.faults.victim import STEPS, trace_of
from tests.support.victims import died


def bodies_run_after_their_result_was_seen(trace: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Bodies that ran although a later step of their run, computed from their result, had already begun."""
    furthest: dict[int, int] = {}
    wrong = []
    for number, index in trace:
        if index < furthest.get(number, 0):
            wrong.append((number, index))
        furthest[number] = max(index, furthest.get(number, 0))
    return wrong


@pytest.mark.parametrize("index", range(STEPS))
async def test_a_run_killed_in_any_step_goes_on_behind_the_last_finished_one(database, tmp_path, index):
    trace = tmp_path / "trace"
    with victim(database=database, trace=str(trace), start=1, die_at=[0, index]) as process:
        await died(process)
    with victim(database=database, trace=str(trace)):
        assert await results(database, 1) == [RESULT]
    expected = Counter((0, step) for step in range(STEPS)) + Counter([(0, index)])
    assert Counter(trace_of(trace)) == expected


async def test_many_runs_survive_several_kills_and_repeat_only_what_was_under_way(database, tmp_path):
    trace, runs = tmp_path / "trace", 40
    for bodies in (30, 50, 40):
        with victim(database=database, trace=str(trace), start=runs, die_after=bodies) as process:
            await died(process)
    with victim(database=database, trace=str(trace)):
        assert await results(database, runs) == [RESULT] * runs
    assert bodies_run_after_their_result_was_seen(trace_of(trace)) == []
    assert all(times <= 4 for times in Counter(trace_of(trace)).values())


async def test_the_broken_twin_without_saved_before_seen_is_found_out(database, tmp_path):
    trace = tmp_path / "trace"
    with victim(database=database, trace=str(trace), start=1, die_at=[0, 3], broken="saved-before-seen") as process:
        await died(process)
    with victim(database=database, trace=str(trace)):
        assert await results(database, 1) == [RESULT]
    assert bodies_run_after_their_result_was_seen(trace_of(trace)) != []
