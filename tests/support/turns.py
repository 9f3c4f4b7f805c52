"""Turns of the event loop: one, and as many as there is something to do in."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any


class _Turn:
    def __await__(self) -> Generator[None]:
        yield


async def turn() -> None:
    """Let everybody else in this event loop go on once, so that what could overlap does; no time passes."""
    await _Turn()


async def until_idle() -> None:
    """Wait until nothing in this event loop can go on by itself: everybody else waits for the test."""
    # Only the loop itself knows what it still has to call; a number of turns would be a guess.
    loop: Any = asyncio.get_running_loop()
    while loop._ready:
        await turn()
