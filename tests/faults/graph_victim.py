"""A worker process that walks a layered graph of a thousand steps, and dies where it is told to.

Called as `python -m tests.faults.graph_victim OPTIONS` with a JSON object: database, trace, start (whether to start the
run), die_after (how many bodies run before it dies).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from dataclasses import replace
from typing import Any

from stepfast import Stepfast
from tests.faults.victim import OPTIONS, leave_trace
from tests.plans.harness import Executors, plan_workflow, step, use, value
from tests.support.apps import MORTAL

LAYERS, WIDTH, TIES = 20, 50, 5
STEPS = LAYERS * WIDTH


async def add(number: int, given: list[int]) -> int:
    leave_trace(0, number)
    OPTIONS["ran"] = OPTIONS.get("ran", 0) + 1
    if OPTIONS.get("die_after") == OPTIONS["ran"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return (sum(given) + number) % 1_000_003


def read(names: list[str]) -> Any:
    return value(lambda scope: [scope["steps"][name]["output"] for name in names], *names)


def layered() -> Any:
    """Each step adds up what some steps of the layer before it gave; the same graph in every process."""
    chance, steps = random.Random(1), []
    for number in range(STEPS):
        layer = number // WIDTH
        before = chance.sample(range((layer - 1) * WIDTH, layer * WIDTH), TIES) if layer else []
        names = [f"s{each}" for each in before]
        steps.append(step(f"s{number}", use("add", number=number, given=read(names) if names else [])))
    return plan_workflow(*steps, executors=Executors(add=add), name="layered")


def expected() -> dict[str, int]:
    """What the steps give that nothing follows, computed without an engine."""
    chance, outputs, followed = random.Random(1), list[int](), set[int]()
    for number in range(STEPS):
        layer = number // WIDTH
        before = chance.sample(range((layer - 1) * WIDTH, layer * WIDTH), TIES) if layer else []
        followed.update(before)
        outputs.append((sum(outputs[each] for each in before) + number) % 1_000_003)
    return {f"s{number}": outputs[number] for number in range(STEPS) if number not in followed}


async def main() -> None:
    # It is not the run that kills its workers here.
    patient = replace(MORTAL, max_crashes=20)
    async with Stepfast(OPTIONS["database"], workflows=[LAYERED], worker=patient) as app:
        if OPTIONS.get("start"):
            await app.start(LAYERED, key="graph")
        await asyncio.Event().wait()


LAYERED = layered()

if __name__ == "__main__":
    OPTIONS.update(json.loads(sys.argv[1]))
    asyncio.run(main())
