"""The workflows that are measured: the least that can be asked of a step, so that the engine is what is seen."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from stepfast import each, review, step, workflow
from stepfast.workflows.functions import AsyncWorkflow, SyncWorkflow

STEPS = 10
SHORT_NAP_S = 0.005
LONG_NAP_S = 0.05
TRACE_VARIABLE = "STEPFAST_BENCH_TRACE"

step_seconds: list[float] = []
"""How long each step of `ten_steps` took as its workflow saw it."""


@step
async def trivial(run: int, number: int) -> dict[str, Any]:
    return {"run": run, "number": number, "ok": True}


@step
async def short_nap(run: int) -> int:
    await asyncio.sleep(SHORT_NAP_S)
    return run


@step
def short_sum(run: int) -> int:
    """Keeps a core busy for a while, however many others want it."""
    until = time.thread_time() + SHORT_NAP_S
    while time.thread_time() < until:
        run = sum(range(run % 100))
    return run


@step
async def traced_nap(run: int, number: int) -> int:
    """Leaves a line for each time that its body runs: what an engine's own history cannot show."""
    trace = os.open(os.environ[TRACE_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(trace, b"%d %d\n" % (run, number))
    os.close(trace)
    await asyncio.sleep(LONG_NAP_S)
    return number


@workflow
async def ten_steps(run: int) -> int:
    for number in range(STEPS):
        begun = time.perf_counter()
        await trivial(run, number)
        step_seconds.append(time.perf_counter() - begun)
    return run


@workflow
async def one_step(run: int) -> dict[str, Any]:
    return await trivial(run, 0)


@workflow
async def no_step(run: int) -> dict[str, int]:
    return {"run": run}


@workflow
async def one_nap(run: int) -> int:
    return await short_nap(run)


@workflow
def one_sum(run: int) -> int:
    return short_sum(run)


@workflow
async def traced_naps(run: int, naps: int) -> int:
    for number in range(naps):
        await traced_nap(run, number)
    return run


@workflow
async def fan_out(width: int) -> int:
    return len(await asyncio.gather(*(trivial(0, number) for number in range(width))))


@workflow
async def children(width: int) -> int:
    return len(await each(no_step, range(width)))


@workflow
async def reviewed(run: int) -> str:
    return (await review("May it go out?", show={"run": run})).verdict


ALL: list[AsyncWorkflow[..., Any] | SyncWorkflow[..., Any]] = [
    *(ten_steps, one_step, no_step, one_nap, one_sum, traced_naps, fan_out, children, reviewed)
]
BY_NAME = {given.workflow.name: given for given in ALL}
