"""The demo's workflow: an order in five steps, slow enough to watch."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from stepfast.app import Stepfast
from stepfast.worker.settings import WorkerSettings
from stepfast.workflows.functions import workflow
from stepfast.workflows.steps import step

STEP_SECONDS = 0.4
SETTINGS = WorkerSettings(lease_ms=2_000, heartbeat_ms=500, poll_ms=100, upkeep_ms=200)


async def work(name: str) -> None:
    """Leave a trace of the body in a file, so that the demo can count how often each one really ran."""
    await asyncio.to_thread(leave_trace, name)
    await asyncio.sleep(STEP_SECONDS)


def leave_trace(name: str) -> None:
    with Path(os.environ["STEPFAST_DEMO_TRACE"]).open("a") as trace:
        trace.write(f"{name}\n")


@step
async def check_stock(item: str) -> int:
    await work("check_stock")
    return 3


@step
async def reserve(item: str) -> str:
    await work("reserve")
    return f"reservation of one {item}"


@step
async def charge(cents: int) -> str:
    await work("charge")
    return f"receipt over {cents / 100:.2f}"


@step
async def pack(reservation: str) -> str:
    await work("pack")
    return f"parcel with the {reservation}"


@step
async def ship(parcel: str) -> str:
    await work("ship")
    return f"{parcel}, on its way"


@workflow
async def order(item: str, cents: int) -> str:
    await check_stock(item)
    reservation = await reserve(item)
    receipt = await charge(cents)
    parcel = await pack(reservation)
    return f"{await ship(parcel)}; {receipt}"


async def serve(database: str) -> None:
    """A worker for this workflow, until it is stopped."""
    async with Stepfast(database, workflows=[order], worker=SETTINGS):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
