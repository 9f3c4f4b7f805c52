"""A store under test, its clock, and short ways to say what a test does with them."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepfast.conformance.store.acts import LEASE_MS, NOON, VERDICT, decide, joins, park, wait, worker
from stepfast.kernel.commands import Changed, Command, Request
from stepfast.kernel.decisions import Decision, HeldRun, NewRun, Record, Started, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.exchange import (
    Claim,
    Claimed,
    Delivered,
    Delivery,
    Enrolment,
    Look,
    QueueRoom,
    Saving,
    Turns,
    Upkeep,
    UpkeepReport,
)
from stepfast.kernel.ids import RunId, WorkerId, new_id
from stepfast.kernel.ports import Store
from stepfast.kernel.states import RunState, TaskState, WaitKind
from stepfast.kernel.views import (
    EventView,
    LetterFilter,
    LetterView,
    OutcomeView,
    QueueView,
    RunFilter,
    RunView,
    StepView,
)

PAGE = 1_000
PUT_OFF = {WaitKind.DELAY, WaitKind.BACKOFF}


class RunContents(NamedTuple):
    """All that the port tells of one run."""

    view: RunView
    look: Look | None
    steps: list[StepView]
    events: list[EventView]


class Contents(NamedTuple):
    """All that the port tells of every run, and the rows, if the store under test shows them."""

    runs: dict[RunId, RunContents]
    outcomes: dict[RunId, OutcomeView]
    letters: list[LetterView]
    queues: list[QueueView]
    rows: object


async def no_rows() -> object:
    return None


def no_other() -> AbstractAsyncContextManager[Store]:
    raise AssertionError("this harness has one store only")


@dataclass
class Harness:
    """Everything that a test needs of one store, which is open and stands at noon."""

    store: Store
    set_clock: Callable[[int], Awaitable[None]]
    rows: Callable[[], Awaitable[object]] = no_rows
    another: Callable[[], AbstractAsyncContextManager[Store]] = no_other
    """A second store on the same database, open for a while, as another process has it."""
    now: int = NOON
    counter: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def worker_id(self, name: str) -> WorkerId:
        return worker(name)

    async def advance(self, span_ms: int) -> None:
        self.now += span_ms
        await self.set_clock(self.now)

    def new_run(self, **changes: Any) -> NewRun:
        run_id = RunId(new_id(Instant(self.now), next(self.counter)))
        return NewRun(run_id, "acme", "order", 1, "workflow", "default", "order@1", 0, '{"n":1}', "digest")._replace(
            **changes
        )

    async def start(self, holder: str | None = None, **changes: Any) -> Started:
        worker_id = None if holder is None else self.worker_id(holder)
        (started,) = await self.store.start([self.new_run(**changes)], worker_id)
        return started

    async def start_many(self, count: int, **changes: Any) -> list[RunId]:
        runs = [self.new_run(**changes) for _ in range(count)]
        return [started.run_id for started in await self.store.start(runs, None)]

    async def enrol(self, worker: str = "w1", **changes: Any) -> WorkerId:
        worker_id = self.worker_id(worker)
        told = Enrolment(worker_id, "first", "host", 7, ("default",), ("order@1",), LEASE_MS)
        await self.store.enrol(told._replace(**changes))
        return worker_id

    async def turns(self, worker: str, **changes: Any) -> Mapping[str, str]:
        """Who was served last in each queue, as a worker hears that comes now."""
        told = Enrolment(self.worker_id(worker), "first", "host", 7, ("default",), ("order@1",), LEASE_MS, crew="crew")
        return (await self.store.enrol(told._replace(**changes))).turns

    async def leave(self, worker: str, crew: str = "crew", **served: str) -> None:
        """A worker comes and goes, and has served these tenants last, each in its queue."""
        await self.store.retire(await self.enrol(worker, crew=crew), Turns(crew, served))

    async def ask(
        self,
        worker: str = "w1",
        room: int = 100,
        after: str = "",
        codes: Sequence[str] = ("order@1",),
        burst: int = 10,
        tenants: Sequence[str] | None = None,
        queue: str = "default",
        suspects: Sequence[int] | None = None,
    ) -> Claimed:
        rooms = [QueueRoom(queue, room, after)]
        return await self.store.claim(Claim(self.worker_id(worker), rooms, codes, burst, tenants, suspects))

    async def claim(self, **request: Any) -> list[HeldRun]:
        return (await self.ask(**request)).runs

    async def claim_run(self, run_id: RunId, worker: str = "w1", codes: Sequence[str] = ("order@1",)) -> HeldRun | None:
        return await self.store.claim_run(self.worker_id(worker), run_id, codes)

    async def held(self, worker: str = "w1", **changes: Any) -> HeldRun:
        """A run that was started and claimed by an enrolled worker."""
        await self.enrol(worker)
        await self.start(**changes)
        (run,) = await self.claim(worker=worker)
        return run

    async def parked(self, *waits: Wait) -> HeldRun:
        """A run that waits for what is given, as its last holder knew it."""
        run = await self.held()
        await self.save(park(run, *(waits or (wait(),))))
        return run

    async def parent(self, children: int, need: int, spare: int = 0, **changes: Any) -> tuple[HeldRun, list[RunId]]:
        """A parent as its holder knows it, and the children in queue `children` that its wait 1 is for."""
        parent = await self.held()
        born = [self.new_run(joins=joins(parent), queue="children", **changes) for _ in range(children)]
        await self.save(decide(parent, opened=(wait(1, WaitKind.CHILDREN, need=need, spare=spare),), children=born))
        return parent, [child.run_id for child in born]

    async def upkeep(
        self, may_bury: bool = True, max_crashes: int = 3, limit: int = 1_000, by: WorkerId | None = None
    ) -> UpkeepReport:
        return await self.store.upkeep(Upkeep(may_bury, max_crashes, limit, VERDICT, by))

    async def bury(self, worker: str = "w1", max_crashes: int = 3, limit: int = 1_000) -> UpkeepReport:
        """Let a worker's lease run out and do an upkeep pass; workers that beat meanwhile are spared by the test."""
        await self.advance(LEASE_MS + 1)
        return await self.upkeep(max_crashes=max_crashes, limit=limit)

    async def save(self, *decisions: Decision, again: bool = False) -> list[Saving]:
        return await self.store.save(decisions, again)

    async def signal(self, run_id: RunId, name: str = "paid", value: str = "1", **changes: Any) -> Delivered:
        return await self.store.deliver(Delivery(run_id, None, "signal", name, value)._replace(**changes))

    async def answer(self, run_id: RunId, command: Command, **origin: Any) -> Changed | StepfastError:
        (answer,) = await self.store.change([Request(run_id, command, **origin)])
        return answer

    async def change(self, run_id: RunId, command: Command, **origin: Any) -> Changed:
        """Carry out a command that must not be refused."""
        answer = await self.answer(run_id, command, **origin)
        assert isinstance(answer, Changed), answer
        return answer

    async def refusal(self, run_id: RunId, command: Command, **origin: Any) -> StepfastError:
        """Why a command was refused that must be."""
        answer = await self.answer(run_id, command, **origin)
        assert isinstance(answer, StepfastError), answer
        return answer

    async def view(self, run_id: RunId) -> RunView:
        view = await self.store.run(None, run_id)
        assert view is not None, f"run {run_id} is gone"
        return view

    async def state(self, run_id: RunId) -> RunState:
        return (await self.view(run_id)).state

    async def look(self, run_id: RunId) -> Look:
        look = await self.store.look(run_id)
        assert look is not None, f"run {run_id} has ended"
        return look

    async def standing(self, run_id: RunId) -> tuple[TaskState, int]:
        """What an open run that nobody paused does, and how often something has come for it."""
        view, look = await self.view(run_id), await self.look(run_id)
        assert not look.hold, "whether a paused run is ready or waits, the port does not tell"
        if view.worker_id is not None:
            return TaskState.LEASED, look.wakes
        is_put_off = view.state is RunState.PENDING and any(wait.kind in PUT_OFF for wait in look.waits)
        is_waiting = view.state is RunState.WAITING or is_put_off
        return TaskState.WAITING if is_waiting else TaskState.READY, look.wakes

    async def run_ids(self) -> list[RunId]:
        """All runs, newest first."""
        found: list[RunId] = []
        while page := await self.store.runs(RunFilter(before=found[-1] if found else None, limit=PAGE)):
            found += [view.run_id for view in page]
        return found

    async def records(self, run_id: RunId) -> list[Record]:
        """The records that the run's code gets back."""
        return (await self.store.histories([run_id]))[run_id].records

    async def letters(self, **where: Any) -> list[LetterView]:
        return await self.store.dead_letters(LetterFilter(**where))

    async def last_event(self, run_id: RunId) -> EventView:
        return (await self.store.events(run_id))[-1]

    async def event_types(self, run_id: RunId) -> list[str]:
        return [event.type for event in await self.store.events(run_id)]

    async def contents(self) -> Contents:
        """Everything, to see that something changed nothing."""
        ids = await self.run_ids()
        return Contents(
            {run_id: await self._contents_of(run_id) for run_id in ids},
            await self.store.outcomes(ids),
            await self.letters(resolved=True, limit=PAGE),
            await self.store.queues(),
            await self.rows(),
        )

    async def _contents_of(self, run_id: RunId) -> RunContents:
        return RunContents(
            await self.view(run_id),
            await self.store.look(run_id),
            await self.store.steps(run_id),
            await self.store.events(run_id),
        )
