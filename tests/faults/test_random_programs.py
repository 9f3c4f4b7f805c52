"""Random programs under random trouble: each ends, with what it must give, and does nothing twice for nothing."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from stepfast import (
    IllegalMove,
    Retry,
    Run,
    RunState,
    StepState,
    current_run,
    each,
    step,
    workflow,
)
from stepfast.kernel.states import ENDED
from stepfast.testing import Engine, engine, record, replay
from tests.support.programs import Program, shared_kinds
from tests.support.turns import turn

SEEDS = range(2_000 if os.environ.get("STEPFAST_LONG") else 120)
SPANS_MS = (1, 500, 1_000, 5_000, 60_000)
SIGNALS = ("paid", "sent")
TROUBLE = ("signal", "signal", "pause", "resume", "crash", "crash later", "time", "time", "work")
# One may still be to come from the program before; with three a run is given up as the one that kills its workers.
MOST_CRASHES = 1

BODIES: Counter[tuple[str, str]] = Counter()
"""How often the body of each step really ran, by run and label."""


@step(retry=Retry(attempts=4, base="5s", jitter=0))
async def work(label: str, failures: int) -> str:
    run_id = current_run().id
    BODIES[run_id, label] += 1
    await turn()
    if BODIES[run_id, label] <= failures:
        raise ConnectionError(label)
    return label


@workflow
async def perform(program: Program) -> Any:
    return await do(program)


async def do(program: Program) -> Any:
    """Do what a program says; what it saw."""
    kind, *parts = program
    return await KINDS[kind](*parts)


async def call(label: str, failures: int) -> str:
    return await work(label, failures)


async def tidied(program: Program, label: str) -> Any:
    try:
        return await do(program)
    finally:
        await work(label, 0)


async def by_children(*programs: Program) -> list[Any]:
    return await each(perform, programs)


KINDS: dict[str, Callable[..., Any]] = {
    "call": call,
    **shared_kinds(do),
    "tidied": tidied,
    "by_children": by_children,
}


class Author:
    """Writes programs; every step in one has a label of its own."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._labels = 0

    def program(self, depth: int) -> Program:
        leaves, nodes = ("call", "rest", "hear"), ("in_turn", "at_once", "first", "in_time", "tidied", "by_children")
        kind = self._chance.choice((*nodes, "call") if depth else leaves)
        match kind:
            case "call":
                return [kind, self._label(), self._chance.choice((0, 0, 1, 2))]
            case "rest":
                return [kind, self._span()]
            case "hear":
                return [kind, self._chance.choice(SIGNALS), self._span()]
            case "in_time":
                return [kind, self._span(), self.program(depth - 1)]
            case "tidied":
                return [kind, self.program(depth - 1), self._label()]
        return [kind, *(self.program(depth - 1) for _ in range(self._chance.randint(1, 3)))]

    def _label(self) -> str:
        self._labels += 1
        return f"step {self._labels}"

    def _span(self) -> int:
        return self._chance.choice(SPANS_MS)


def may_give(program: Program, seen: Any) -> bool:
    """Whether a program can have seen this."""
    kind, *parts = program
    match kind:
        case "call":
            return bool(seen == parts[0])
        case "rest":
            return bool(seen == "rested")
        case "hear":
            return seen in ("late", *SIGNALS)
        case "first":
            return may_give(parts[int(seen[0])], seen[1])
        case "in_time":
            return seen == "over" or may_give(parts[1], seen)
        case "tidied":
            return may_give(parts[0], seen)
    return len(seen) == len(parts) and all(map(may_give, parts, seen))


def troubles(chance: Random) -> list[str]:
    """What happens to a run, one after the other."""
    drawn = chance.choices(TROUBLE, k=chance.randint(0, 10))
    crashes = [index for index, trouble in enumerate(drawn) if "crash" in trouble]
    return [trouble for index, trouble in enumerate(drawn) if index not in crashes[MOST_CRASHES:]]


async def make(trouble: str, opened: Engine, run: Run[Any], chance: Random) -> None:
    """Let one thing happen to a run."""
    match trouble:
        case "signal":
            signal = chance.choice(SIGNALS)
            await opened.signal(run, signal, signal)
        case "pause":
            await opened.insist(run.pause)
        case "resume":
            await opened.insist(run.resume)
        case "crash":
            await opened.crash()
        case "crash later":
            opened.crash_after(chance.randint(1, 12))
        case "time":
            opened.clock.advance(chance.choice(SPANS_MS) / 1_000)
        case "work":
            await opened.run_until_idle()


async def brought_to_its_end(opened: Engine, run: Run[Any]) -> Any:
    await opened.run_until_idle()
    if (await run.info()).state is RunState.PAUSED:
        # With a key, for the process may die before it has answered.
        await opened.insist(lambda: run.resume(key=run.id))
    return await opened.result(run)


async def check(run: Run[Any], crashes: int) -> None:
    """Events have no gaps, records fit the code, and no body ran more often than its failures and crashes explain."""
    events = await run.history()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (await replay(perform, await record(run))).is_good
    failed = [json.loads(step.input)["label"] for step in await run.steps() if step.state is StepState.PENDING]
    ran = {label: count for (run_id, label), count in BODIES.items() if run_id == run.id}
    assert all(count <= 1 + failed.count(label) + crashes for label, count in ran.items()), (ran, failed)


async def play(opened: Engine, seed: int) -> None:
    chance, crashes = Random(seed), opened.crashes
    program = Author(chance).program(depth=chance.randint(1, 3))
    run = await opened.start(perform, program)
    for trouble in troubles(chance):
        with suppress(IllegalMove):
            await make(trouble, opened, run, chance)
    seen = await brought_to_its_end(opened, run)
    assert may_give(program, seen), seen
    # What a race or a timeout has called off ends after its parent.
    await opened.run_until_idle()
    views = await opened.app.runs(limit=1_000)
    assert {view.state for view in views} <= ENDED
    assert await opened.app.findings() == []
    for view in views:
        if view.state is RunState.COMPLETED and run.id in (view.run_id, view.causation_id):
            await check(opened.app.get(view.run_id), opened.crashes - crashes)


@pytest.mark.timeout(900)
async def test_a_random_program_comes_to_its_end_through_all_trouble(database):
    async with engine(database=database, workflows=[perform]) as opened:
        for seed in SEEDS:
            try:
                await play(opened, seed)
            except BaseException as error:
                error.add_note(f"The seed was {seed}.")
                raise
