"""Waiting for the result of a run that a command has started."""

from __future__ import annotations

from typing import Any

from stepfast.cli.printing import say
from stepfast.cli.progress import shown_while
from stepfast.cli.shapes import parsed
from stepfast.runs import Run
from stepfast.workflows.functions import Workflow


async def result_of(run: Run[Any], workflow: Workflow) -> Any:
    """Name the run, show what it does, and give its result as JSON would hold it."""
    say(f"Run {run.id} of {workflow.code}")
    async with shown_while(run):
        result = await run.result()
    return parsed(workflow.result.encode(result))
