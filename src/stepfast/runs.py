"""The handle of a run: asking for its result, its state and its history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from stepfast.engine.results import Ended, Results
from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import NotFound, RunCancelled, RunFailed, WaitTimeout
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Store
from stepfast.kernel.states import RunState
from stepfast.kernel.views import EventView, OutcomeView, RunView, StepView
from stepfast.workflows import failures
from stepfast.workflows.registry import Registry

T = TypeVar("T")


class Run(Generic[T]):
    """One durable execution of a workflow."""

    def __init__(self, run_id: RunId, store: Store, results: Results, registry: Registry, known_here: bool) -> None:
        self.id: str = run_id
        self._run_id = run_id
        self._store = store
        self._results = results
        self._registry = registry
        self._ended: Ended = results.watch(run_id)
        self._known_here = known_here

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    async def result(self, timeout: Duration | None = None) -> T:
        """What the workflow returned; raises RunFailed, RunCancelled, or WaitTimeout after the timeout."""
        if not self._known_here:
            await self.info()
        waiting = self._results.wait(self._run_id, self._ended, look_at_once=not self._known_here)
        try:
            timeout_s = None if timeout is None else span_ms(timeout, "timeout") / 1_000
            outcome = await asyncio.wait_for(waiting, timeout_s)
        except TimeoutError:
            raise WaitTimeout(f"Run {self.id} has not ended within {timeout}. It goes on; ask for it again.") from None
        return await self._value_of(outcome)

    async def info(self) -> RunView:
        """The run as it stands now."""
        view = await self._store.run(None, self._run_id)
        if view is None:
            raise NotFound(f"Run {self.id} not found. List runs with `stepfast runs list`.")
        return view

    async def steps(self) -> list[StepView]:
        """Every record of the run, in order."""
        await self.info()
        return await self._store.steps(self._run_id)

    async def history(self, after: int = 0, limit: int = 1_000) -> list[EventView]:
        """The run's events after number `after`."""
        await self.info()
        return await self._store.events(self._run_id, after, limit)

    async def _value_of(self, outcome: OutcomeView) -> T:
        if outcome.state is RunState.CANCELLED:
            raise RunCancelled(f"Run {self.id} was cancelled. `stepfast runs rerun {self.id}` starts it again.")
        if outcome.state is RunState.FAILED:
            raise self._failed(outcome)
        view = await self.info() if not self._code else None
        code = self._code or (f"{view.workflow}@{view.version}" if view else "")
        workflow = self._registry.by_code(code)
        value: T = workflow.result.decode(outcome.value or "null") if workflow else json.loads(outcome.value or "null")
        return value

    # Set by the app that started the run, so that its result needs no further read.
    _code: str = ""

    def _failed(self, outcome: OutcomeView) -> RunFailed:
        failure = failures.from_text(outcome.error or "{}")
        error = RunFailed(f"Run {self.id} failed with {failure.type}: {failure.message}")
        error.__cause__ = failures.revive(failure)
        return error
