"""kill -9 of those who publish: every event arrives, those of a run in order, and none that never was."""

from __future__ import annotations

import os
import random
import subprocess
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from stepfast import Stepfast
from tests.faults.publishing_victim import POINTS, notes
from tests.support import victims
from tests.support.apps import migrated
from tests.support.sql import fetch
from tests.support.victims import ear, first_of

IS_LONG = bool(os.environ.get("STEPFAST_LONG"))
RUNS = 60 if IS_LONG else 24
DEATHS = 40 if IS_LONG else 8
LONGEST_S = 100


def victim(options: dict[str, Any]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A publishing process."""
    return victims.victim("tests.faults.publishing_victim", options)


class Trial:
    """Runs whose events are published to a file by two processes at a time that die again and again."""

    def __init__(self, database: str, file: Path, seed: int = 0, **options: Any) -> None:
        self._database = database
        self._file = file
        self._ears = file.with_suffix(".ears")
        self._options = {"database": database, "file": str(file), "ears": str(self._ears), **options}
        self._chance = random.Random(seed)
        self.ahead: list[tuple[str, int]] = []
        """What counted as delivered and was not."""

    async def make(self, deaths: int, points: tuple[str, ...] = POINTS) -> None:
        """Until so many have died and everything was delivered."""
        await migrated(self._database)
        async with Stepfast(self._database, workflows=[notes], worker=False) as app:
            with ExitStack() as stack:
                crew = [self._next(stack, points[number % len(points)]) for number in range(2)]
                died = 0
                while died < deaths:
                    run = await app.start(notes)
                    await first_of(run.result(), *map(victims.died, crew), longest_s=LONGEST_S)
                    for place, process in enumerate(crew):
                        if process.poll() is not None:
                            died += 1
                            await self._look_for_lies()
                            crew[place] = self._next(stack, points[died % len(points)])
                for _ in range(RUNS):
                    await app.start(notes)
                others = stack.enter_context(ear(self._ears))
                self._next(stack, None)
                await others.until(self._is_all_delivered, LONGEST_S)

    def _next(self, stack: ExitStack, point: str | None) -> subprocess.Popen[bytes]:
        return stack.enter_context(victim({**self._options, "point": point, "after": self._chance.randint(1, 3)}))

    async def _look_for_lies(self) -> None:
        """What the cursor has passed, and neither the file has nor somebody holds back."""
        passed = await fetch(
            self._database,
            "select cast(e.run_id as text), e.seq from stepfast.event e join stepfast.sink s on e.position <= s.cursor"
            " where not exists (select 1 from stepfast.sink_held h where h.run_id = e.run_id and h.seq <= e.seq)"
            " and not exists (select 1 from stepfast.sink_letter l where l.position = e.position)",
        )
        there = set(self.delivered())
        self.ahead += [(run, seq) for run, seq in passed if (run, seq) not in there]

    async def _is_all_delivered(self) -> bool:
        found = await fetch(
            self._database,
            "select (select count(*) from stepfast.task), (select count(*) from stepfast.sink_held),"
            " (select count(*) from stepfast.event e where e.position > (select max(s.cursor) from stepfast.sink s))",
        )
        return not any(found[0])

    async def written(self) -> set[tuple[str, int]]:
        """Every event that there is."""
        found = await fetch(self._database, "select cast(run_id as text), seq from stepfast.event")
        return {(run, seq) for run, seq in found}

    def delivered(self) -> list[tuple[str, int]]:
        """Every delivery, in order; a line that was cut off is none."""
        lines = self._file.read_text().split("\n")[:-1] if self._file.exists() else []
        return [(run, int(seq)) for run, seq in (line.split(" ") for line in lines)]

    def out_of_order(self) -> list[tuple[str, int]]:
        """First deliveries that came before one that belongs in front of them."""
        last: dict[str, int] = {}
        early = []
        for run, seq in dict.fromkeys(self.delivered()):
            if seq != last.get(run, 0) + 1:
                early.append((run, seq))
            last[run] = max(last.get(run, 0), seq)
        return early


@pytest.fixture
def trial(database, tmp_path):
    return Trial(database, tmp_path / "events")


async def test_whoever_is_killed_when_every_event_arrives_and_first_in_order(trial):
    await trial.make(DEATHS)
    assert trial.ahead == []
    assert trial.out_of_order() == []
    assert set(trial.delivered()) == await trial.written()


async def test_the_broken_twin_that_records_before_it_delivers_loses_events(database, tmp_path):
    twin = Trial(database, tmp_path / "events", twin="records_first")
    await twin.make(3, ("before_delivery",))
    assert twin.ahead


async def test_the_broken_twin_that_holds_nobody_back_delivers_out_of_order(database, tmp_path):
    twin = Trial(database, tmp_path / "events", twin="holds_nobody_back")
    await twin.make(2, ("after_delivery",))
    assert twin.out_of_order()
