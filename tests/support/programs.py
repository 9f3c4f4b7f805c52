"""What random programs are put together from: waits, and programs in programs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from stepfast import WaitTimeout, race, receive, sleep, timeout

Program = list[Any]
"""A kind, and what it is made of: numbers, names, other programs."""


async def rest(span_ms: int) -> str:
    await sleep(span_ms / 1_000)
    return "rested"


async def hear(signal: str, span_ms: int) -> str:
    try:
        return await receive(signal, str, timeout=span_ms / 1_000)
    except WaitTimeout:
        return "late"


class Combining:
    """Programs made of programs, each of which is done by `do`."""

    def __init__(self, do: Callable[[Program], Awaitable[Any]]) -> None:
        self._do = do

    async def in_turn(self, *programs: Program) -> list[Any]:
        return [await self._do(program) for program in programs]

    async def at_once(self, *programs: Program) -> list[Any]:
        return list(await asyncio.gather(*map(self._do, programs)))

    async def first(self, *programs: Program) -> list[Any]:
        return list(await race(**{str(index): self._do(program) for index, program in enumerate(programs)}))

    async def in_time(self, span_ms: int, program: Program) -> Any:
        try:
            async with timeout(span_ms / 1_000):
                return await self._do(program)
        except WaitTimeout:
            return "over"


def shared_kinds(do: Callable[[Program], Awaitable[Any]]) -> dict[str, Callable[..., Any]]:
    """What every program may be made of, by its kind."""
    combining = Combining(do)
    return {
        "rest": rest,
        "hear": hear,
        "in_turn": combining.in_turn,
        "at_once": combining.at_once,
        "first": combining.first,
        "in_time": combining.in_time,
    }
