"""The service that Restate's server calls; served by hypercorn in Restate's own environment."""

from __future__ import annotations

from typing import Any

import restate

STEPS = 10

service = restate.Service("bench")


async def trivial(run: int, number: int) -> dict[str, Any]:
    return {"run": run, "number": number, "ok": True}


@service.handler()
async def ten_steps(context: restate.Context, run: int) -> int:
    for number in range(STEPS):
        await context.run_typed(f"trivial-{number}", trivial, restate.RunOptions(), run, number)
    return run


@service.handler()
async def one_step(context: restate.Context, run: int) -> dict[str, Any]:
    result: dict[str, Any] = await context.run_typed("trivial", trivial, restate.RunOptions(), run, 0)
    return result


@service.handler()
async def fan_out(context: restate.Context, width: int) -> int:
    calls = [context.run_typed(f"trivial-{n}", trivial, restate.RunOptions(), 0, n) for n in range(width)]
    await restate.gather(*calls)
    return width


app = restate.app(services=[service])
