"""Following a run: its events as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from stepfast.kernel.states import ENDED
from stepfast.kernel.views import EventView
from stepfast.runs import Run

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5


async def follow(
    run: Run[Any], after: int = 0, meanwhile: Callable[[], object] = lambda: None
) -> AsyncIterator[EventView]:
    """The run's events after number `after` as they come, until it has ended and all are told.

    Whenever there is none, `meanwhile` is called, and may raise.
    """
    seen, pause_s = after, FIRST_PAUSE_S
    while True:
        # Asked before the events are: when it has ended by then, none can come after those.
        has_ended = (await run.info()).state in ENDED
        events = await run.history(after=seen)
        for event in events:
            seen, pause_s = event.seq, FIRST_PAUSE_S
            yield event
        if has_ended and not events:
            return
        if not events:
            meanwhile()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
