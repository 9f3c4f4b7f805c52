"""The handle of a run: asking for its result, its state and its history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from stepfast.engine.results import Ended, Results
from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import NotFound, RunCancelled, RunFailed, WaitTimeout
from stepfast.kernel.exchange import Delivered, Delivery
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Store
from stepfast.kernel.states import RunState, check_move
from stepfast.kernel.texts import check_optional_text, check_text
from stepfast.kernel.views import EventView, OutcomeView, RunView, StepView
from stepfast.workflows import failures
from stepfast.workflows.codec import ValueCodec, digest
from stepfast.workflows.registry import Registry
from stepfast.workflows.wait_calls import SIGNAL

T = TypeVar("T")


class Run(Generic[T]):
    """One durable execution of a workflow."""

    def __init__(
        self,
        run_id: RunId,
        store: Store,
        results: Results,
        registry: Registry,
        known_here: bool,
        delivered: Callable[[RunId, Delivered], None],
    ) -> None:
        self.id: str = run_id
        self._run_id = run_id
        self._store = store
        self._results = results
        self._registry = registry
        self._ended: Ended = results.watch(run_id)
        self._known_here = known_here
        self._delivered = delivered

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    async def result(self, timeout: Duration | None = None) -> T:
        """What the workflow returned; raises RunFailed, RunCancelled, or WaitTimeout after the timeout."""
        if not self._known_here:
            await self.info()
        timeout_s = None if timeout is None else span_ms(timeout, "timeout") / 1_000
        try:
            async with asyncio.timeout(timeout_s):
                outcome = await self._results.wait(self._run_id, self._ended, look_at_once=not self._known_here)
        except TimeoutError:
            raise WaitTimeout(f"Run {self.id} has not ended within {timeout}. It goes on; ask for it again.") from None
        return await self._value_of(outcome)

    async def info(self) -> RunView:
        """The run as it stands now."""
        view = await self._store.run(None, self._run_id)
        if view is None:
            raise self._not_found()
        return view

    async def steps(self) -> list[StepView]:
        """Every record of the run, in order."""
        await self.info()
        return await self._store.steps(self._run_id)

    async def history(self, after: int = 0, limit: int = 1_000) -> list[EventView]:
        """The run's events after number `after`."""
        await self.info()
        return await self._store.events(self._run_id, after, limit)

    async def signal(self, name: str, value: Any = None, *, key: str | None = None, actor: str | None = None) -> None:
        """Send something to the run; it is on disk when this returns, and kept until the run's code takes it."""
        codec = ValueCodec(Any if value is None else type(value), f"The value of signal {name!r}")
        text = codec.encode(value)
        delivery = Delivery(
            run_id=self._run_id,
            tenant=None,
            kind=SIGNAL,
            name=check_text("The signal's name", name),
            value=text,
            actor=check_optional_text("actor", actor),
            key=check_optional_text("key", key),
            digest=digest(f"{self.id}:{name}:{text}"),
        )
        delivered = await self._store.deliver(delivery)
        if delivered.state is None:
            raise self._not_found()
        check_move(self.id, delivered.state, "signal")
        self._delivered(self._run_id, delivered)

    def _not_found(self) -> NotFound:
        return NotFound(f"Run {self.id} not found. List runs with `stepfast runs list`.")

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
