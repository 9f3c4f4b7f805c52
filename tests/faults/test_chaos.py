"""kill -9 of real workers, two at a time, while runs are cancelled, paused, resumed, retried and begun anew."""

from __future__ import annotations

import os

import pytest

from stepfast import Stepfast
from tests.faults.chaos import Chaos
from tests.faults.victim import chain

# `make chaos` is the long form.
IS_LONG = bool(os.environ.get("STEPFAST_LONG"))
TRIALS, RUNS, ROUNDS = (20, 60, 15) if IS_LONG else (1, 12, 3)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(TRIALS))
async def test_workers_are_killed_while_commands_rain_and_every_promise_holds(database, tmp_path, seed):
    chaos = Chaos(database, tmp_path / "trace", seed)
    async with Stepfast(database, workflows=[chain], worker=False) as client:
        runs = await chaos.play(client, RUNS, ROUNDS)
        await chaos.check(runs, client)
    assert chaos.kills == ROUNDS
