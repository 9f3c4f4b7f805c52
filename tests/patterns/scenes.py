"""Scenes for patterns: the tasks of a pattern do nothing but note that they were done, when the test lets them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from stepfast import Retry, Run, RunState, Stepfast, StepState, step
from stepfast.testing import Engine
from stepfast.workflows.functions import AsyncWorkflow, Workflow
from stepfast.workflows.graphs.graph import Graph
from stepfast.workflows.plans.checking import uses_of
from stepfast.workflows.templates.loading import load_template
from tests.support.turns import turn

WORKFLOWS = (AsyncWorkflow, Graph)


class Tasks:
    """What the bodies of a pattern's tasks have done, and what each of them waits for.

    A task that was given something is called by both: `print` for 3 is "print 3".
    """

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.called_off: list[str] = []
        self.answers: dict[str, list[Any]] = {}
        """What a task gives, one answer for each time; without one what it was given."""
        self.most_at_once = 0
        self._under_way = 0
        self._until: dict[str, list[asyncio.Event]] = defaultdict(list)
        self._has_begun: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._has_ended: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def hold(self, name: str) -> asyncio.Event:
        """Let a task not end before the test says so."""
        release = asyncio.Event()
        self._until[name].append(release)
        return release

    def after(self, name: str, earlier: str) -> None:
        """Let a task end after another one has ended."""
        self._until[name].append(self._has_ended[earlier])

    def when_begun(self, name: str, other: str) -> None:
        """Let a task end after another one has begun."""
        self._until[name].append(self._has_begun[other])

    def together(self, *names: str) -> None:
        """Let no task end before all of them have begun: those that are not side by side are stuck."""
        for name in names:
            for other in names:
                self.when_begun(name, other)

    async def begins(self, name: str) -> None:
        """Wait until a task has begun."""
        await self._has_begun[name].wait()

    async def perform(self, name: str, given: Any = None) -> Any:
        """The body of every task."""
        label = name if given is None else f"{name} {given}"
        self.begun.append(label)
        self._has_begun[label].set()
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            await asyncio.gather(*(event.wait() for event in self._until.get(label, ())))
            # One turn of the loop more than none, so that tasks that could overlap do.
            await turn()
        except asyncio.CancelledError:
            self.called_off.append(label)
            raise
        finally:
            self._under_way -= 1
        self.ended.append(label)
        self._has_ended[label].set()
        return self.answers[name].pop(0) if name in self.answers else given

    def step(self) -> Any:
        """The step that a pattern's Python calls."""

        @step(retry=Retry(attempts=1))
        async def task(name: str, given: Any = None) -> Any:
            return await self.perform(name, given)

        return task

    def offer(self, app: Stepfast, template: str) -> None:
        """Let an app have the executors that a template names."""
        for name in {use.executor for each in load_template(template).plan for use in uses_of(each)}:
            app.executors.register(self._executor(name.removeprefix("task.")), name)

    def _executor(self, name: str) -> Any:
        async def perform(given: Any = None) -> Any:
            return await self.perform(name, given)

        return perform


class Scene:
    """A pattern in a test's hands: it is started, told things, and looked at."""

    def __init__(self, engine: Engine, tasks: Tasks, module: Any, workflow: Any) -> None:
        self.engine = engine
        self.tasks = tasks
        self.module = module
        self._workflow = workflow

    async def start(self, *args: Any, **inputs: Any) -> Run[Any]:
        """Start a run of the pattern; nothing of it is done yet."""
        return await self.engine.start(self._workflow, *args, **inputs)

    async def run(self, *args: Any, **inputs: Any) -> Any:
        """Run the pattern to its end; what it gives."""
        return await self.engine.run(self._workflow, *args, **inputs)

    async def go_on(self) -> None:
        """Do all that can be done now."""
        await self.engine.run_until_idle()

    async def signal(self, run: Run[Any], name: str, value: Any = None) -> None:
        """Tell the run something, and do all that can be done then."""
        await self.engine.signal(run, name, value)
        await self.go_on()

    async def signal_while(self, run: Run[Any], task: str, name: str, value: Any = None) -> None:
        """Tell the run something while a task is under way, and do all that can be done then."""
        working = asyncio.ensure_future(self.go_on())
        await self.tasks.begins(task)
        await self.engine.signal(run, name, value)
        await working

    async def state(self, run: Run[Any]) -> RunState:
        return (await self.engine.info(run)).state

    async def skipped(self, run: Run[Any]) -> set[str]:
        """The names of the steps that a run has skipped."""
        return {each.call.name for each in await self.engine.steps(run) if each.state is StepState.SKIPPED}


def workflows_of(module: Any) -> list[Workflow]:
    """The workflows of a pattern's Python, in the order they are written; the last is the one to start."""
    return [_definition(each) for each in _values(module) if isinstance(each, WORKFLOWS)]


def _definition(given: Any) -> Workflow:
    definition: Workflow = given.workflow
    return definition


def _values(module: Any) -> Iterable[Any]:
    return vars(module).values() if module is not None else ()
