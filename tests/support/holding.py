"""A step in which a test holds a run for as long as it likes."""

from __future__ import annotations

import asyncio

from stepfast import step


class Hold:
    """A step that holds a run until it is let go."""

    def __init__(self) -> None:
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()

        @step
        async def hold() -> None:
            self.reached.set()
            await self.let_go.wait()

        self.step = hold
