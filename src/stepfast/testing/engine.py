"""An engine for tests: a store of its own, time that stands still, and a worker that moves when it is told to."""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from stepfast.app import Stepfast
from stepfast.kernel.commands import Request, Rollback, Skip
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, NotFound
from stepfast.kernel.ids import RunId
from stepfast.kernel.outside import CallbackUsed
from stepfast.kernel.ports import Store
from stepfast.kernel.review_views import ReviewView
from stepfast.kernel.states import ENDED
from stepfast.kernel.views import EventView, RunView, StepView
from stepfast.parts import Parts
from stepfast.runs import Run
from stepfast.testing.clock import VirtualClock
from stepfast.testing.crashes import MortalStore, Point, ProcessDied
from stepfast.testing.sinks import CollectingSink, Feed
from stepfast.testing.worker import NEVER_MS, HandWorker, Stuck
from stepfast.tokens import GivenKeys, NoKeys, fresh_keys
from stepfast.worker.settings import WorkerSettings
from stepfast.workflows.app_policies import Policy
from stepfast.workflows.functions import AnyWorkflow

T = TypeVar("T")

MAX_REVIEWS = 1_000
A_MOMENT_S = 0.001
OTHER_LOOP = (
    "This engine was opened in another event loop than it is used in. Open it in the test, with `async with engine()`, "
    "or let its fixture and the test have one loop: with pytest-asyncio the same `loop_scope`."
)


class HandApp(Stepfast):
    """An app on a store that can die, whose worker is brought by the engine."""

    def __init__(
        self,
        database: str,
        workflows: Iterable[AnyWorkflow] | None,
        executors: Iterable[object] | None,
        clock: VirtualClock,
        mortal: Callable[[Store], Store],
        policies: Iterable[Policy],
    ) -> None:
        super().__init__(
            database, workflows=workflows, worker=False, clock=clock, executors=executors, policies=policies
        )
        self._mortal = mortal
        self._other_loop = OTHER_LOOP
        if isinstance(self.token_keys, NoKeys):
            self.token_keys = GivenKeys(fresh_keys())

    def _new_store(self) -> Store:
        return self._mortal(super()._new_store())

    @property
    def parts(self) -> Parts:
        """What the open app consists of."""
        return self._open_parts()


class Engine:
    """A whole engine in the hands of a test; nothing happens in it but what the test asks for."""

    def __init__(
        self,
        database: str,
        workflows: Iterable[AnyWorkflow] | None,
        executors: Iterable[object] | None,
        clock: VirtualClock,
        settings: WorkerSettings,
        sinks: Sequence[CollectingSink],
        policies: Iterable[Policy],
        set_time: Callable[[], Awaitable[None]],
        around: Callable[[Store], Store],
        crash: Point | None,
        patience_s: float,
    ) -> None:
        self.clock = clock
        self._settings = settings
        self._patience_s = patience_s
        # Keys of this engine alone: a database that several tests share, one after the other, keeps those of all.
        mark = secrets.token_hex(4)
        self._keys = (f"try-{mark}-{number}" for number in itertools.count(1))
        self._mortal: MortalStore | None = None
        self._worker: HandWorker | None = None
        self._deadlines: dict[RunId, Instant] = {}

        def mortal(store: Store) -> Store:
            self._mortal = MortalStore(store, around, set_time, crash)
            self._mortal.on_death = self._die
            self._mortal.on_change = self._let_time_pass
            return cast(Store, self._mortal)

        self.app = HandApp(database, workflows, executors, clock, mortal, policies)
        self._feed = Feed(self.app, sinks)

    @property
    def crashes(self) -> int:
        """How often the engine's process has died."""
        return len(self._store.deaths)

    @property
    def died(self) -> str:
        """Where the engine's process has died last; empty when it has not."""
        return self._store.deaths[-1] if self._store.deaths else ""

    @property
    def store_calls(self) -> list[str]:
        """The calls of the store that this process has made, each a point at which it can die."""
        return list(self._store.calls)

    async def open(self) -> None:
        await self.app.open()
        try:
            await self._set_clock_right()
            await self.insist(self._hire)
        except BaseException:
            await self.app.close()
            raise

    async def close(self) -> None:
        await self.app.close()

    async def start(
        self, workflow: AnyWorkflow | str, /, *args: Any, key: str | None = None, **options: Any
    ) -> Run[Any]:
        """Store a run, as `app.start` does; it is executed when the engine is told to run."""
        key = key or self._key_for_a_second_try()
        return await self.insist(lambda: self.app.start(cast(Any, workflow), *args, key=key, **options))

    async def signal(
        self,
        run: Run[Any] | str,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Send something to a run; its code takes it when the engine is told to run."""
        key = key or self._key_for_a_second_try()
        await self.insist(lambda: self._handle(run).signal(name, value, key=key, reason=reason, actor=actor))

    async def reviews(self, run: Run[Any] | str | None = None) -> list[ReviewView]:
        """The reviews that wait for an answer, of one run or of all, in the order in which they were asked for."""
        run_id = run.id if isinstance(run, Run) else run
        newest_first = await self.app.reviews.list(run_id=run_id, limit=MAX_REVIEWS)
        return newest_first[::-1]

    async def decide(
        self,
        review: Run[Any] | ReviewView | str,
        verdict: str,
        value: Any = None,
        *,
        actor: str | None = None,
        role: str | None = None,
        key: str | None = None,
        **options: Any,
    ) -> None:
        """Answer a review, or the only one that a run waits for; its code hears of it when the engine is told to run.

        Unless it is said who answers, that is whoever was asked. Takes the options of `app.reviews.decide`.
        """
        view = await self._asked(review)
        who = {"actor": actor or view.assignee, "role": role or view.role}
        key = key or self._key_for_a_second_try()
        decide = self.app.reviews.decide
        await self.insist(lambda: decide(view.review_id, verdict, value, **who, key=key, **options))

    async def expire(self, review: Run[Any] | ReviewView | str) -> None:
        """Let the time to answer a review pass, and execute what follows."""
        view = await self._asked(review)
        if view.due_at is None:
            raise Invalid(f"Review {view.review_id} never expires: it was asked for without `expires`.")
        self.clock.advance(max(view.due_at - self.clock.now(), 0) / 1_000)
        await self.run_until_idle()

    async def complete_callback(self, token: str, value: Any = None) -> None:
        """Say that the outside work of a step is done; its code hears of it when the engine is told to run.

        Asked once more after a crash: an earlier try that was stored counts.
        """
        with contextlib.suppress(CallbackUsed) if self._store.may_die else contextlib.nullcontext():
            await self.insist(lambda: self.app.callbacks.complete(token, value))

    async def run_until_idle(self) -> None:
        """Execute until no run is ready or under way: all have ended, or wait for time, a signal or each other."""
        await self._work()

    async def run(self, workflow: AnyWorkflow | str, /, *args: Any, **options: Any) -> Any:
        """Start a run, execute it to its end, moving the clock over every wait for time, and return its result."""
        return await self.result(await self.start(workflow, *args, **options))

    async def result(self, run: Run[Any] | str) -> Any:
        """Execute a run to its end, moving the clock over every wait for time; what it returned, or its error."""
        handle = self._handle(run)
        while True:
            rest_ms = await self._work()
            if (await handle.info()).state in ENDED:
                return await handle.result()
            rest_ms = min(rest_ms, await self._until_deadline_ms())
            if rest_ms >= NEVER_MS:
                raise Stuck(await self._why_it_stays(handle))
            self.clock.advance(rest_ms / 1_000)

    async def info(self, run: Run[Any] | str) -> RunView:
        """A run as it stands now."""
        return await self._handle(run).info()

    async def steps(self, run: Run[Any] | str) -> list[StepView]:
        """Every record of a run, in order."""
        return await self._handle(run).steps()

    async def events(self, run: Run[Any] | str) -> list[EventView]:
        """A run's history."""
        return await self._handle(run).history()

    def crash_after(self, point: Point) -> None:
        """Let the process die at a point, counted from here on; the next thing that is asked for starts a new one."""
        self._store.crash_at(point)

    async def crash(self) -> None:
        """Let the process die now, and start a new one."""
        self._store.die("now")
        await self._recover()

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask as a patient caller does: once more, of the next process, when this one died before it had answered."""
        while True:
            try:
                return await call()
            except ProcessDied:
                await self._recover()

    async def _work(self) -> int:
        """Do all that can be done now; how long it is until something falls due."""
        rest_ms = await self.insist(self._work_off)
        await self._feed.pass_on()
        return rest_ms

    async def _work_off(self) -> int:
        worker = self._hired
        while True:
            await worker.make_rounds()
            moved = False
            while not (rest_ms := await worker.claim()):
                moved |= await worker.until_still(self.clock, self._patience_s)
            moved |= await worker.until_still(self.clock, self._patience_s)
            if not moved:
                return min([rest_ms, *self.clock.spans_ahead_ms()])

    async def _until_deadline_ms(self) -> int:
        """How long it is until the time of a run is over, which nothing in the store falls due for."""
        now = self.clock.now()
        for run_id, at in sorted(self._deadlines.items(), key=lambda deadline: deadline[1]):
            view = await self._store.run(None, run_id)
            if view is None or view.state in ENDED:
                del self._deadlines[run_id]
            elif at > now:
                return at - now
        return NEVER_MS

    async def _set_clock_right(self) -> None:
        """Time never goes back: what is in a database that was used before has happened before the test."""
        moments = [view.updated_at for view in await self.app.runs()]
        for worker in await self.app.workers.list():
            moments += [worker.seen_at, worker.dead_at or worker.seen_at]
        self.clock.advance(max(max(moments, default=0) - self.clock.now(), 0) / 1_000)

    async def _hire(self) -> None:
        worker = await self.app.parts.add_worker(self._settings, HandWorker)
        assert isinstance(worker, HandWorker)
        worker.deadlines = self._deadlines
        self._worker = worker

    def _let_time_pass(self, requests: Sequence[Request]) -> None:
        # A run that does a call again in its generation, after these, tells its children from the first ones by the
        # moment alone: in a process that cannot be the same.
        if any(isinstance(each.command, Rollback | Skip) and not each.dry_run for each in requests):
            self.clock.advance(A_MOMENT_S)

    def _die(self) -> None:
        if self._worker is not None:
            self._worker.die()

    async def _recover(self) -> None:
        """A new process takes over from the dead one, once the lease of that is over."""
        if self._worker is not None:
            await self.app.parts.remove_worker(self._worker, 0)
            self._worker = None
        self.clock.advance((self._settings.lease_ms + 1) / 1_000)
        await self._store.revive()
        await self.insist(self._hire)

    @property
    def _hired(self) -> HandWorker:
        assert self._worker is not None
        return self._worker

    @property
    def _store(self) -> MortalStore:
        assert self._mortal is not None
        return self._mortal

    def _handle(self, run: Run[Any] | str) -> Run[Any]:
        return self.app.get(run) if isinstance(run, str) else run

    async def _asked(self, review: Run[Any] | ReviewView | str) -> ReviewView:
        if isinstance(review, ReviewView):
            return review
        if isinstance(review, str) and "." in review:
            return await self.app.reviews.get(review)
        found = await self.reviews(review)
        if len(found) == 1:
            return found[0]
        if found:
            titles = ", ".join(f"{each.title!r} ({each.review_id})" for each in found)
            raise Invalid(f"The run waits for {len(found)} reviews: {titles}. Name one by its id.")
        raise NotFound(f"{review!r} waits for no review. Let it run first: `await engine.run_until_idle()`.")

    def _key_for_a_second_try(self) -> str | None:
        # Without a crash to come nobody asks twice, and runs stay as the test wrote them.
        return next(self._keys) if self._store.may_die else None

    async def _why_it_stays(self, handle: Run[Any]) -> str:
        view = await handle.info()
        return f"No time that passes brings {view.workflow}@{view.version} any further. {await handle.why()}"
