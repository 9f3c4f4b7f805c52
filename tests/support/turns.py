"""Turns of the event loop, for tests that say of something that it does not happen."""

from __future__ import annotations

import asyncio
from typing import Any


async def until_idle() -> None:
    """Wait until nothing in this event loop can go on by itself: everybody else waits for the test."""
    # Only the loop itself knows what it still has to call; a number of turns would be a guess.
    loop: Any = asyncio.get_running_loop()
    while loop._ready:  # noqa: ASYNC110 - that nothing is left to be called sets no event
        await asyncio.sleep(0)
