"""A store under test, its clock, and short ways to say what a test does with them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepfast.kernel.commands import Command, Request
from stepfast.kernel.decisions import (
    CallId,
    DeadLetter,
    Decision,
    HandBack,
    HeldRun,
    Joins,
    NewRun,
    Outcome,
    Park,
    Record,
    Started,
    Wait,
)
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import Claim, Claimed, DeadRun, Enrolment, QueueRoom, Saving, Upkeep, UpkeepReport
from stepfast.kernel.ids import RunId, WorkerId, new_id
from stepfast.kernel.ports import Store
from stepfast.kernel.states import RunState, StepState, WaitKind

NOON = Instant(1_700_000_000_000)
LEASE_MS = 30_000
HOUR_MS = 3_600_000
TABLES = (
    "run", "task", "generation", "outcome", "step", "event", "wait", "unjoined", "inbox", "dead_letter", "idempotency",
)  # fmt: skip
VERDICT = DeadRun('{"type": "RunCrashed"}', "RunCrashed", "E-RUN-002: it took its worker down too often.")


@dataclass
class Harness:
    """Everything that a test needs of one store; a new kind of store brings `set_clock` and `query`."""

    store: Store
    set_clock: Callable[[int], Awaitable[None]]
    query: Callable[[str, dict[str, Any]], Awaitable[list[tuple[Any, ...]]]]
    """Run a statement written as in the shared files: tables `stepfast.run`, parameters `:name`."""
    now: int = NOON
    counter: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def advance(self, span_ms: int) -> None:
        self.now += span_ms
        await self.set_clock(self.now)

    async def sql(self, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return await self.query(text, parameters)

    async def task(self, run_id: RunId, columns: str) -> tuple[Any, ...] | None:
        rows = await self.sql(f"select {columns} from stepfast.task where run_id = :run_id", run_id=run_id)
        return tuple(rows[0]) if rows else None

    async def state(self, run_id: RunId) -> RunState:
        view = await self.store.run(None, run_id)
        assert view is not None
        return view.state

    def new_run(self, **changes: Any) -> NewRun:
        run_id = RunId(new_id(Instant(self.now), next(self.counter)))
        return NewRun(run_id, "acme", "order", 1, "workflow", "default", "order@1", 0, '{"n":1}', "digest")._replace(
            **changes
        )

    async def start(self, holder: str | None = None, **changes: Any) -> Started:
        (started,) = await self.store.start([self.new_run(**changes)], None if holder is None else WorkerId(holder))
        return started

    async def start_many(self, count: int, **changes: Any) -> list[RunId]:
        runs = [self.new_run(**changes) for _ in range(count)]
        return [started.run_id for started in await self.store.start(runs, None)]

    async def enrol(self, worker: str = "w1", **changes: Any) -> WorkerId:
        worker_id = WorkerId(worker)
        told = Enrolment(worker_id, "first", "host", 7, ("default",), ("order@1",), LEASE_MS)
        await self.store.enrol(told._replace(**changes))
        return worker_id

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
        return await self.store.claim(Claim(WorkerId(worker), rooms, codes, burst, tenants, suspects))

    async def claim(self, **request: Any) -> list[HeldRun]:
        return (await self.ask(**request)).runs

    async def held(self, worker: str = "w1", **changes: Any) -> HeldRun:
        """A run that was started and claimed by an enrolled worker."""
        await self.enrol(worker)
        await self.start(**changes)
        (run,) = await self.claim(worker=worker)
        return run

    async def upkeep(self, may_bury: bool = True, max_crashes: int = 3, limit: int = 1_000) -> UpkeepReport:
        return await self.store.upkeep(Upkeep(may_bury, max_crashes, limit, VERDICT))

    async def save(self, *decisions: Decision, again: bool = False) -> list[Saving]:
        return await self.store.save(decisions, again)

    async def change(self, run_id: RunId, command: Command, **origin: Any) -> Any:
        (answer,) = await self.store.change([Request(run_id, command, **origin)])
        return answer

    async def event_types(self, run_id: RunId) -> list[str]:
        return [event.type for event in await self.store.events(run_id)]

    async def contents(self) -> dict[str, list[str]]:
        """Every row that a run can have, to see that something changed nothing."""
        return {table: sorted(map(str, await self.sql(f"select * from stepfast.{table}"))) for table in TABLES}

    async def bury(self, worker: str = "w1", max_crashes: int = 3, limit: int = 1_000) -> UpkeepReport:
        """Let a worker's lease run out and do an upkeep pass; workers that beat meanwhile are spared by the test."""
        await self.advance(LEASE_MS + 1)
        return await self.upkeep(max_crashes=max_crashes, limit=limit)


def decide(run: HeldRun, event: EventType = EventType.STEP_COMPLETED, **changes: Any) -> Decision:
    """A decision of a run's holder with one event; the holder counts on, as the engine's committer does."""
    events = changes.pop("events", (Event(event, NOON),))
    records = changes.get("records", ())
    decision = Decision(run.fence, run.tenant, run.generation, events=events, **changes)
    decision.first_seq, decision.first_event = run.last_seq + 1, run.last_event + 1
    run.last_seq += len(records)
    run.last_event += len(events)
    return decision


def record(name: str = "charge", nth: int = 0, value: str | None = "1") -> Record:
    return Record(CallId("", name, nth), "step", StepState.COMPLETED, 1, "d", "[]", value, None, NOON, NOON)


def step(run: HeldRun, name: str = "charge", value: str | None = "1") -> Decision:
    return decide(run, records=(record(name, run.last_seq, value),))


def end(run: HeldRun, state: RunState = RunState.COMPLETED) -> Decision:
    event = {RunState.COMPLETED: EventType.COMPLETED, RunState.CANCELLED: EventType.CANCELLED}.get(
        state, EventType.FAILED
    )
    return decide(run, event, outcome=Outcome(state, "1", None, NOON, run.joins))


def fail(run: HeldRun, step: str | None = None, error_type: str = "ValueError") -> Decision:
    """The end of a run whose code raised, as the engine has it: a dead letter, unless another run awaits it."""
    error = json.dumps({"type": error_type, "message": "no", "step": step})
    outcome = Outcome(RunState.FAILED, None, error, NOON, run.joins)
    if run.joins is not None:
        return decide(run, EventType.FAILED, outcome=outcome)
    kinds = (EventType.DLQ_PENDING, EventType.DLQ_RECORDED, EventType.FAILED)
    letter = DeadLetter(run.workflow, run.version, error_type, "no", step)
    return decide(run, events=tuple(Event(kind, NOON) for kind in kinds), outcome=outcome, dead_letter=letter)


def park(run: HeldRun, *waits: Wait, wakes: int | None = None) -> Decision:
    seen = run.wakes if wakes is None else wakes
    return decide(run, EventType.WAITING, opened=waits, release=Park(seen))


def hand_back(run: HeldRun, delay_ms: int = 0) -> Decision:
    return decide(run, EventType.HANDED_BACK, release=HandBack(delay_ms))


def wait(wait_id: int = 1, kind: WaitKind = WaitKind.SIGNAL, **changes: Any) -> Wait:
    return Wait(wait_id, kind, "paid", CallId("", "receive", 0))._replace(**changes)


def joins(parent: HeldRun, wait_id: int = 1) -> Joins:
    return Joins(parent.run_id, wait_id)
