"""Workflows for the commands that operators use: one that ends, one that fails, one that waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from stepfast import Retry, Stepfast, receive, step, workflow

HOSTILE = "no card\x1b[31m [bold]left[/bold]\u202e"
SHOWN_HOSTILE = "no card\\x1b[31m [bold]left[/bold]\\u202e"


@step
async def charge(order: str, cents: int) -> str:
    return f"{cents} for {order}"


@step(retry=Retry(attempts=1))
async def refuse(unless: str) -> str:
    if not Path(unless).exists():
        raise ValueError(HOSTILE) from LookupError("no such card")
    return "mended"


@workflow
async def checkout(order: str, cents: int = 100) -> str:
    return await charge(order, cents)


@workflow
async def failing(unless: str = "absent") -> str:
    await charge("before", 1)
    return await refuse(unless)


@workflow
async def forgiving() -> str:
    try:
        return await refuse("absent")
    except ValueError:
        return "forgiven"


def sink_deeper(left: int) -> None:
    # Two functions by turns: Python counts equal frames in place of showing each.
    return sink_on(left - 1)


def sink_on(left: int) -> None:
    if left <= 0:
        raise RuntimeError("bottom")
    return sink_deeper(left)


@workflow
async def sinking() -> None:
    sink_deeper(60)


@workflow
async def asking(tenant: str = "nobody") -> str:
    return f"{await receive('approval', str)} of {tenant}"


@dataclass
class Bill:
    cents: int
    due: datetime


@workflow
async def billing(bill: Bill) -> int:
    return bill.cents


WORKFLOWS: list[Any] = [checkout, failing, asking, billing]
app = Stepfast(workflows=WORKFLOWS)
