"""Functions for `python.call`."""

from __future__ import annotations

import asyncio
from os import getcwd
from typing import Any

from stepfast import step

__all__ = ["getcwd"]


def add(first: int, second: int = 1) -> int:
    return first + second


async def add_async(first: int) -> int:
    return first + 1


async def hang() -> None:
    await asyncio.Event().wait()


def fail() -> None:
    raise LookupError("no such thing")


@step(name="shop_add_step")
def add_step(first: int) -> int:
    return first + 1


def _hidden() -> None: ...


NUMBER: Any = 7
