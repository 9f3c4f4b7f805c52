"""Waiting for what the engine writes to its log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_S = 60


class Lines(logging.Handler):
    """The lines that come from now on, whichever thread writes them."""

    def __init__(self) -> None:
        super().__init__()
        self._loop, self._lines = asyncio.get_running_loop(), asyncio.Queue[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self._lines.put_nowait, record.getMessage())

    async def come(self, number: int, event: str = "") -> None:
        """Wait for so many more: of any event, or of one."""
        async with asyncio.timeout(LONGEST_S):
            while number:
                number -= (await self._lines.get()).startswith(event)


@contextmanager
def lines_of_the_log() -> Iterator[Lines]:
    """Listen for a while."""
    lines, logger = Lines(), logging.getLogger("stepfast")
    logger.addHandler(lines)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)
