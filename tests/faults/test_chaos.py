"""Real workers are killed, frozen and stopped, while runs are cancelled, paused, resumed, retried and begun anew."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.chaos import Chaos
from tests.faults.chaos_victim import GIVE_OUT_AGAIN_ON_POSTGRES
from tests.support.guards import rewrite
from tests.support.promises import broken_promises, promises_of

# `make chaos` is the long form.
IS_LONG = bool(os.environ.get("STEPFAST_LONG"))
TRIALS, RUNS, ROUNDS = (20, 60, 15) if IS_LONG else (1, 12, 3)
BLOWS = ["kill", "freeze", "stop"]


def blows(seed: int) -> list[str]:
    """Each of them at least once, then what chance brings."""
    return BLOWS + random.Random(seed).choices(BLOWS, k=ROUNDS - len(BLOWS))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(TRIALS))
async def test_workers_are_struck_while_commands_rain_and_every_promise_holds(database, tmp_path, seed):
    chaos = Chaos(database, tmp_path / "trace", seed)
    recordings = await chaos.play(RUNS, blows(seed))
    assert broken_promises(recordings) == []
    assert await chaos.stuck() == []
    assert len(chaos.blows) == ROUNDS


async def broken_in_the_middle(database: str, trace: Path, **options: str) -> set[str]:
    """What a trial breaks that is cut off with everything under way: its last blow kills all workers."""
    chaos = Chaos(database, trace, 1, linger=0.05, **options)
    return promises_of(broken_promises(await chaos.play(12, ["kill"] * 3, to_the_end=False)))


async def test_a_trial_that_is_cut_off_in_the_middle_breaks_no_promise(database, tmp_path):
    assert await broken_in_the_middle(database, tmp_path / "trace") == set()


async def test_the_broken_twin_that_answers_before_it_saves_is_found_out(database, tmp_path):
    assert "P8" in await broken_in_the_middle(database, tmp_path / "trace", broken="saved-before-seen")


async def test_the_broken_twin_whose_leases_end_by_themselves_is_found_out(database, tmp_path):
    await rewrite(database, "pick_all", ("if stepfast.next_due_at(q_name[i]) <= moment then", "if true then"))
    await rewrite(database, "promote", ("begin", GIVE_OUT_AGAIN_ON_POSTGRES))
    chaos = Chaos(database, tmp_path / "trace", 1, broken="lease", linger=0.06)
    assert {"P6", "P9"} <= promises_of(broken_promises(await chaos.play(12, [])))
