"""An app with an executor, for the commands that look at templates."""

from __future__ import annotations

from typing import TypedDict

from stepfast import Stepfast
from stepfast.workflows.executors.domains import Domain

kitchen = Domain("kitchen")


class Dinner(TypedDict):
    dish: str


@kitchen.step("cook")
async def cook(portions: int) -> Dinner:
    """Cook for some people."""
    return {"dish": f"soup for {portions}"}


app = Stepfast("sqlite:///unused.db", workflows=[], executors=[kitchen])
