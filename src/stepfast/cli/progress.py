"""What a run does, before the eyes of the person who waits for it; nothing where nobody is looking."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from stepfast.cli.following import follow
from stepfast.cli.printing import console, visible
from stepfast.cli.shapes import parsed
from stepfast.kernel.events import EventType
from stepfast.kernel.views import EventView
from stepfast.runs import Run

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOWN_STEPS = 15
BEGINS = frozenset({EventType.STEP_STARTED, EventType.STEP_WAITING})
ENDS = frozenset({EventType.STEP_COMPLETED, EventType.STEP_FAILED, EventType.STEP_CANCELLED, EventType.STEP_UNDONE})


@asynccontextmanager
async def shown_while(run: Run[Any]) -> AsyncIterator[None]:
    """Show the run's steps on the terminal until the block ends."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        teller = asyncio.create_task(_tell(run, Steps(progress)))
        try:
            yield
        finally:
            teller.cancel()
            await asyncio.gather(teller, return_exceptions=True)


async def _tell(run: Run[Any], steps: Steps) -> None:
    async for event in follow(run):
        steps.take(event)


class Steps:
    """A line for each step: under way, how far it has told that it is, or ended; the oldest lines make room."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lines: dict[str, TaskID] = {}

    def take(self, event: EventView) -> None:
        """Show what an event tells."""
        if event.type in BEGINS:
            self._update(event, total=None)
        elif event.type in ENDS:
            self._update(event, total=1, completed=1)
        elif event.type == EventType.STEP_PROGRESS:
            told = parsed(event.data) or {}
            self._update(event, total=told.get("total"), completed=told.get("done", 0))

    def _update(self, event: EventView, **fields: Any) -> None:
        step = event.step or "run"
        if step not in self._lines:
            self._make_room()
            self._lines[step] = self._progress.add_task(visible(step), total=None)
        self._progress.update(self._lines[step], description=visible(_description(step, event)), **fields)

    def _make_room(self) -> None:
        while len(self._lines) >= SHOWN_STEPS:
            self._progress.remove_task(self._lines.pop(next(iter(self._lines))))


def _description(step: str, event: EventView) -> str:
    if event.type == EventType.STEP_WAITING:
        return f"{step} (waits)"
    if event.type == EventType.STEP_FAILED:
        return f"{step} (failed)"
    return f"{step} (attempt {event.attempt})" if (event.attempt or 1) > 1 else step
