"""A desk for templates: executors that note what they do, fail when told to, and can be held."""

from __future__ import annotations

import asyncio
from typing import Any

from stepfast import Domain, Retry, Run, RunState, StepState, storage
from stepfast.kernel.views import StepView
from stepfast.testing import Engine

service = Domain("service", retry=Retry(attempts=1))


class Desk:
    """What the executors have done, and what is wrong with the world around them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.broken: set[str] = set()
        self.held: dict[str, asyncio.Event] = {}
        self.begun: dict[str, asyncio.Event] = {}

    def clear(self) -> None:
        for each in (self.done, self.broken, self.held, self.begun):
            each.clear()

    def hold(self, name: str) -> asyncio.Event:
        """Let a step begin and not end; what it waits for."""
        self.begun[name] = asyncio.Event()
        self.held[name] = asyncio.Event()
        return self.held[name]

    async def perform(self, name: str) -> None:
        if name in self.held:
            self.begun[name].set()
            await self.held[name].wait()
        self.done.append(name)
        if name in self.broken:
            raise ConnectionError(f"{name} has no connection")


desk = Desk()


@service.step("note")
async def note(name: str, after: Any = None) -> str:
    await desk.perform(name)
    return name


@service.step("score")
async def score(text: str) -> dict[str, Any]:
    await desk.perform("score")
    return {"score": len(text), "confidence": 0.4 if desk.done.count("score") == 1 else 0.9}


@service.step("write")
async def write(text: str) -> str:
    return (await storage.write_asset("report", text)).id


@service.step("mark")
async def mark() -> dict[str, Any]:
    return {"text": "unsure", "review_required": True}


@service.step("allow")
async def allow(output: Any) -> dict[str, Any]:
    return {"ok": False, "reason": "it names a person"}


def noting(name: str, **more: Any) -> dict[str, Any]:
    """A step that notes that it was done."""
    return {"id": name, "use": "service.note", "with": {"name": name}, **more}


def template(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"stepfast": 1, "workflow": "evaluation", "version": 1, "steps": list(steps), **more}


async def started(opened: Engine, *steps: dict[str, Any], **more: Any) -> Run[Any]:
    """A run of a template that was registered for it, as far as it comes by itself."""
    await opened.app.register(template(*steps, **more))
    run = await opened.start("evaluation")
    await opened.run_until_idle()
    return run


async def state_of(run: Run[Any]) -> RunState:
    return (await run.info()).state


async def states_of(run: Run[Any]) -> dict[str, StepState]:
    """How the steps of a run stand in its present generation."""
    steps: list[StepView] = await run.steps()
    return {step.call.name: step.state for step in steps if step.superseded_by is None}
