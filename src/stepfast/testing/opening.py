"""Ways to an engine for tests: `async with engine()` in async tests, `with engine()` in the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, StepfastError, WrongCall
from stepfast.kernel.ports import Store
from stepfast.kernel.retry import Retry
from stepfast.kernel.review_views import ReviewView
from stepfast.kernel.texts import check_list, shown
from stepfast.kernel.views import EventView, RunView, StepView
from stepfast.runs import Run
from stepfast.testing.clock import VirtualClock
from stepfast.testing.crashes import Point, point_of
from stepfast.testing.engine import Engine
from stepfast.testing.sinks import CollectingSink
from stepfast.testing.temporary import temporary_store
from stepfast.testing.worker import BY_HAND
from stepfast.workflows.app_policies import Policy
from stepfast.workflows.functions import AnyWorkflow

T = TypeVar("T")

PATIENCE = "10s"


def engine(
    *,
    database: str | None = None,
    workflows: Iterable[AnyWorkflow] | None = None,
    executors: Iterable[object] | None = None,
    clock: VirtualClock | None = None,
    sinks: Sequence[CollectingSink] = (),
    policies: Iterable[Policy] = (),
    lease: Duration = "30s",
    retry: Retry | None = None,
    crash_at: Point | None = None,
    around: Callable[[Store], Store] = lambda store: store,
    patience: Duration = PATIENCE,
) -> Opening:
    """An engine for a test: a store that is gone afterwards, time that stands still, a worker that waits to be told.

    Without `database` the store is a temporary SQLite file. A given PostgreSQL database goes by the virtual clock while
    the engine is open, so it must be one that nobody else uses. `workflows` are those that it knows, by default all of
    the process, `executors` what its graphs and templates can call, and `policies` those of the app; `retry` is for
    steps that name no policy.
    `crash_at` lets its process die at a point. `around` puts a store of yours around the real one. `patience` is the
    real time after which a test that hangs fails.
    """
    settings = replace(BY_HAND.with_lease(span_ms(lease, "lease")), retry=retry or BY_HAND.retry)
    options: dict[str, Any] = {
        "workflows": workflows,
        "executors": executors,
        "settings": settings,
        "sinks": _collecting(sinks),
        "policies": policies,
        "around": around,
        "crash": None if crash_at is None else point_of(crash_at),
        "patience_s": span_ms(patience, "patience") / 1_000,
    }
    return Opening(database, clock or VirtualClock(), options)


def crash_after(point: Point, **options: Any) -> Opening:
    """An engine whose process dies at a point: after so many store calls, or when a step of that name is recorded.

    What the call did is done, but nobody hears of it, and nothing more is written; a new process takes over when the
    lease of the dead one is over. It is an error when the point is never reached. Takes the options of `engine`.
    """
    opening = engine(crash_at=point_of(point), **options)
    opening.must_crash = point_of(point)
    return opening


class Opening:
    """An engine that opens with `async with`, or with `with` for tests without an event loop."""

    def __init__(self, database: str | None, clock: VirtualClock, options: dict[str, Any]) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self._open = AsyncExitStack()
        self._engine: Engine | None = None
        self._runner: asyncio.Runner | None = None
        self._blocking: BlockingEngine | None = None
        self.must_crash: Point | None = None

    async def __aenter__(self) -> Engine:
        async with AsyncExitStack() as stack:
            database = self._database or await _temporary(stack)
            set_time = await _follow(stack, database, self._clock)
            self._engine = Engine(database, clock=self._clock, set_time=set_time, **self._options)
            await self._engine.open()
            stack.push_async_callback(self._engine.close)
            self._open = stack.pop_all()
        return self._engine

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()
        if error is None:
            self._check_crash()

    def __enter__(self) -> BlockingEngine:
        if _has_loop():
            raise WrongCall(
                "`with engine()` is for tests without an event loop. Here one runs: use `async with engine()`."
            )
        self._runner = asyncio.Runner()
        try:
            self._blocking = BlockingEngine(self._runner.run(self.__aenter__()), self._runner)
            return self._blocking
        except BaseException:
            self._runner.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        assert self._blocking is not None
        self._blocking.close()
        with self._runner:
            self._runner.run(self.__aexit__(kind, error, trace))

    def _check_crash(self) -> None:
        if self.must_crash is not None and self._engine is not None and not self._engine.crashes:
            raise AssertionError(
                f"The crash {point_of(self.must_crash)} never came: the engine made {len(self._engine.store_calls)} "
                f"store calls. Name a step that is recorded, or a lower number."
            )


class BlockingEngine:
    """An engine for tests without an event loop: the same names, each of which returns when it is done."""

    def __init__(self, engine: Engine, runner: asyncio.Runner) -> None:
        self.engine = engine
        self.app = engine.app
        self.clock = engine.clock
        self._runner = runner
        self._is_open = True

    def wait(self, call: Awaitable[T]) -> T:
        """The result of anything else that an engine, an app or a run can be asked: `engine.wait(run.history())`."""

        refusal = self._refusal()
        if refusal is not None:
            if asyncio.iscoroutine(call):
                # Or Python would warn of it, too.
                call.close()
            raise refusal

        async def wait() -> T:
            return await call

        return self._runner.run(wait())

    def _refusal(self) -> StepfastError | None:
        """Why nothing can be waited for now; None: something can."""
        if _has_loop():
            return WrongCall(
                "A blocking engine was asked for something where an event loop runs. In an `async def` test take the "
                "fixture stepfast_engine, or `async with engine()`."
            )
        if not self._is_open:
            return StepfastError("This engine is closed. Use it inside `with engine():`.")
        return None

    def close(self) -> None:
        """Refuse whatever is asked for from here on."""
        self._is_open = False

    @property
    def crashes(self) -> int:
        return self.engine.crashes

    @property
    def died(self) -> str:
        return self.engine.died

    @property
    def store_calls(self) -> list[str]:
        return self.engine.store_calls

    def start(self, workflow: AnyWorkflow | str, /, *args: Any, **options: Any) -> Run[Any]:
        return self.wait(self.engine.start(workflow, *args, **options))

    def signal(self, run: Run[Any] | str, name: str, value: Any = None, **options: Any) -> None:
        self.wait(self.engine.signal(run, name, value, **options))

    def reviews(self, run: Run[Any] | str | None = None) -> list[ReviewView]:
        return self.wait(self.engine.reviews(run))

    def decide(self, review: Run[Any] | ReviewView | str, verdict: str, value: Any = None, **options: Any) -> None:
        self.wait(self.engine.decide(review, verdict, value, **options))

    def expire(self, review: Run[Any] | ReviewView | str) -> None:
        self.wait(self.engine.expire(review))

    def complete_callback(self, token: str, value: Any = None) -> None:
        self.wait(self.engine.complete_callback(token, value))

    def run_until_idle(self) -> None:
        self.wait(self.engine.run_until_idle())

    def run(self, workflow: AnyWorkflow | str, /, *args: Any, **options: Any) -> Any:
        return self.wait(self.engine.run(workflow, *args, **options))

    def result(self, run: Run[Any] | str) -> Any:
        return self.wait(self.engine.result(run))

    def info(self, run: Run[Any] | str) -> RunView:
        return self.wait(self.engine.info(run))

    def steps(self, run: Run[Any] | str) -> list[StepView]:
        return self.wait(self.engine.steps(run))

    def events(self, run: Run[Any] | str) -> list[EventView]:
        return self.wait(self.engine.events(run))

    def crash_after(self, point: Point) -> None:
        self.engine.crash_after(point)

    def crash(self) -> None:
        self.wait(self.engine.crash())

    def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        return self.wait(self.engine.insist(call))


def _collecting(sinks: object) -> Sequence[CollectingSink]:
    # One alone passes for a list of no sinks: it can be gone through, and has no events yet.
    kept: list[object] = list(check_list("sinks", sinks, "CollectingSink()"))
    collecting = [sink for sink in kept if isinstance(sink, CollectingSink)]
    if isinstance(sinks, CollectingSink) or len(collecting) < len(kept):
        raise Invalid(f"sinks is {shown(sinks)}; give a list of CollectingSink().")
    return collecting


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _temporary(stack: AsyncExitStack) -> str:
    return await stack.enter_async_context(temporary_store())


async def _follow(stack: AsyncExitStack, database: str, clock: VirtualClock) -> Callable[[], Awaitable[None]]:
    """How the database learns what time it is; a SQLite file asks the clock by itself."""
    if urlsplit(database).scheme == "sqlite":
        return _nothing
    from stepfast.testing.postgres_time import PostgresTime

    time = PostgresTime(database, clock)
    await time.open()
    stack.push_async_callback(time.close)
    return time.follow


async def _nothing() -> None:
    """Nobody needs to be told."""
