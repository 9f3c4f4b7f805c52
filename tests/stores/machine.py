"""Everything that can be asked of a store, asked of several stores and of the model at once."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stepfast.conformance.store.acts import asked
from stepfast.kernel.commands import Cancel, Command, Discard, Pause, Request, Rerun, Resume, RetryRun, TimeOut
from stepfast.kernel.decisions import Continue, DeadLetter, Decision, HandBack, HeldRun, Joins, NewRun, Outcome, Park
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import Claim, Delivery, Enrolment, QueueRoom, Saving, Turns, Upkeep
from stepfast.kernel.ids import RunId, WorkerId, new_id
from stepfast.kernel.reviews import Assign, Comment, Decide, Expire, Owner, ReviewCommand, Verdict
from stepfast.kernel.rules import COMMAND_KINDS
from stepfast.kernel.states import RunState, WaitKind
from stepfast.kernel.views import LetterFilter
from tests.stores.harness import LEASE_MS, NOON, VERDICT, Harness, decide, record, wait
from tests.stores.model import Model
from tests.stores.model_control import change
from tests.stores.model_tables import POSITIONS, QUERIES, TABLES, Rows, check, rows_of

WORKERS = [WorkerId(new_id(NOON, number)) for number in range(5)]
STRANGER = WorkerId(new_id(NOON, 10**8))
NOBODY = RunId(new_id(NOON, 10**9))
EVERYTHING = 1_000
BOTH_CODES = ["order@1", "mail@2"]

workers = st.sampled_from([*WORKERS, *WORKERS[:2], *WORKERS[:2]])
tenants = st.sampled_from(["acme", "beta", "zeta"])
queues = st.sampled_from(["default", "mail"])
crews = st.sampled_from(["red", "blue", "gold"])
codes = st.sampled_from(BOTH_CODES)
code_lists = st.lists(codes, min_size=1, unique=True)
recent = st.integers(0, 4)


def mostly(usual: Any, other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 3).flatmap(lambda turn: other if turn == 3 else st.just(usual))


new_runs = st.fixed_dictionaries({
    "tenant": tenants,
    "queue": queues,
    "code": codes,
    "priority": st.sampled_from([0, 0, 1]),
    "delay_ms": st.sampled_from([0, 0, 0, 1_000, 60_000]),
    "timeout_ms": st.sampled_from([None, None, 2_000]),
    "key": st.sampled_from([None, None, "k1", "k2"]),
    "digest": st.sampled_from(["digest", "digest", "other"]),
})  # fmt: skip

WAITS = {
    "signal": wait(kind=WaitKind.SIGNAL, name="paid"),
    "time": wait(kind=WaitKind.TIME, name="sleep", due_in_ms=20_000),
    "code": wait(-1, WaitKind.CODE, name="order@1"),
}
ENDS = {
    "complete": (RunState.COMPLETED, EventType.COMPLETED),
    "complete_partly": (RunState.PARTIAL, EventType.PARTIAL),
    "cancel": (RunState.CANCELLED, EventType.CANCELLED),
    "fail": (RunState.FAILED, EventType.FAILED),
}
ACTS = st.sampled_from([
    "step", "step", *ENDS, "hand_back", "put_off", "signal", "time", "code", "park", "park_unlooked", "park_unlooked",
    "open_time", "group", "take", "close", "hold_back", "continue", "try_again", "try_later",
    "ask", "ask", "ask",
])  # fmt: skip
COMMANDS: list[Command] = [
    Cancel(), Pause(), Pause(), Pause(), Resume(), Resume(), Resume(), RetryRun(), RetryRun(), Rerun(), Rerun("charge"),
    Rerun("2"), Rerun(version=2), Discard(), TimeOut(VERDICT),
]  # fmt: skip


ANN, EVE = Owner("ann"), Owner("eve")
QUESTIONS: list[dict[str, Any]] = [
    {},
    {"expires_ms": 20_000},
    {"expires_ms": 1_000, "on_expiry": "escalate", "escalate_to": EVE},
    {"expires_ms": 1_000, "on_expiry": "continue"},
    {"quorum": 2, "quorum_reject": 2},
    {"owner": ANN, "escalate_to": EVE},
]
REVIEW_COMMANDS: list[Callable[[int], ReviewCommand]] = [
    lambda n: Decide(n, Verdict.CONTINUE),
    lambda n: Decide(n, Verdict.CONTINUE),
    lambda n: Decide(n, Verdict.REJECT),
    lambda n: Decide(n, Verdict.CORRECT, "7"),
    lambda n: Decide(n, Verdict.ESCALATE, to=EVE),
    lambda n: Assign(n, ANN),
    lambda n: Comment(n, "hm"),
    Expire,
    Expire,
]


class World:
    """One store of each kind for all examples, and the loop that their connections live in."""

    def __init__(self, runner: asyncio.Runner, harnesses: list[Harness]) -> None:
        self._runner = runner
        self.harnesses = harnesses

    def each(self, call: Callable[[Harness], Awaitable[Any]]) -> list[Any]:
        """What each store answers; a refusal is its type."""
        return [self._runner.run(_answer(call(harness))) for harness in self.harnesses]

    def empty(self) -> None:
        self.each(_delete_all)
        self.each(lambda harness: harness.set_clock(NOON))


async def _delete_all(harness: Harness) -> None:
    await harness.unguard()
    for table in TABLES:
        await harness.sql(f"delete from stepfast.{table}")


async def _answer(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except StepfastError as error:
        return type(error)


def refusal_or(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StepfastError as error:
        return type(error)


class Stores(RuleBasedStateMachine):
    """The commands, each given to both stores and to the model."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.model = Model()
        self.holds: list[HeldRun] = []
        self.run_ids: list[RunId] = []
        self.numbers = itertools.count(len(WORKERS))
        self.tokens: dict[RunId, int] = {}
        self.last_group: Joins | None = None
        world.empty()

    def agree(self, expected: Any, answers: list[Any]) -> None:
        for answer in answers:
            assert answer == expected

    def new_run(self, **wanted: Any) -> NewRun:
        run_id = RunId(new_id(Instant(self.model.now), next(self.numbers)))
        self.run_ids.append(run_id)
        basis = NewRun(run_id, "acme", "order", 1, "workflow", "default", "order@1", 0, "{}", "digest")
        return basis._replace(**wanted)

    def hold(self, back: int, is_stale: bool) -> HeldRun:
        """A run that was handed out: one whose fence still holds if there is one, any of them if it may be stale."""
        present = [run for run in self.holds if self.model.holds(run.fence)]
        choice = self.holds if is_stale or not present else present
        return choice[-1 - back % len(choice)]

    def run_id(self, back: int) -> RunId:
        return self.run_ids[-1 - back % len(self.run_ids)] if self.run_ids else NOBODY

    @initialize()
    def two_workers_come(self) -> None:
        for worker_id in WORKERS[:2]:
            self.enrol(worker_id, BOTH_CODES)

    @rule(worker_id=workers, worker_codes=code_lists, crew=crews)
    def enrol(self, worker_id: WorkerId, worker_codes: list[str], crew: str = "red") -> None:
        told = Enrolment(worker_id, "one", "host", 7, ("default", "mail"), worker_codes, LEASE_MS, crew=crew)
        self.agree(self.model.enrol(told), self.world.each(lambda harness: harness.store.enrol(told)))

    @rule(wanted=st.lists(new_runs, min_size=1, max_size=3), holder=st.none() | workers)
    def start(self, wanted: list[dict[str, Any]], holder: WorkerId | None) -> None:
        runs = [self.new_run(**one) for one in wanted]
        expected = refusal_or(lambda: self.model.start(runs, holder))
        self.agree(expected, self.world.each(lambda harness: harness.store.start(runs, holder)))
        for run in runs:
            life = self.model.lives.get(run.run_id)
            if life is not None and life.task is not None and life.task.worker_id is not None:
                self.holds.append(_born(run, life.task.worker_id, self.model.now))

    @rule(
        worker_id=workers,
        served=st.lists(queues, min_size=1, unique=True),
        room=st.sampled_from([1, 2, 3, EVERYTHING]),
        burst=st.sampled_from([1, 2, 10]),
        after=st.just("") | tenants,
        known=mostly(BOTH_CODES, code_lists),
        only=mostly(None, st.lists(tenants, min_size=1, unique=True)),
        suspects=mostly(None, st.tuples(st.integers(0, 3), st.integers(0, 2))),
    )
    def claim(
        self,
        worker_id: WorkerId,
        served: list[str],
        room: int,
        burst: int,
        after: str,
        known: list[str],
        only: list[str] | None,
        suspects: tuple[int, int] | None,
    ) -> None:
        # How several tenants share a room that is larger than a burst and too small for all is each store's own.
        burst = burst if room == EVERYTHING else max(burst, room)
        request = Claim(worker_id, [QueueRoom(queue, room, after) for queue in served], known, burst, only, suspects)
        run_ids, next_due_at, suspects_wait = self.model.claim(request)
        one, other = self.world.each(lambda harness: harness.store.claim(request))
        in_order = list if room <= burst else sorted
        for claimed in (one, other):
            assert in_order(run.run_id for run in claimed.runs) == in_order(run_ids)
            assert (claimed.next_due_at, claimed.suspects_wait) == (next_due_at, suspects_wait)
        assert {run.run_id: asdict(run) for run in one.runs} == {run.run_id: asdict(run) for run in other.runs}
        self.holds += one.runs

    def live_worker(self) -> WorkerId:
        worker_id = next((one for one in WORKERS if self.model.is_alive(one)), None)
        if worker_id is None:
            worker_id = WorkerId(new_id(NOON, next(self.numbers)))
            self.enrol(worker_id, BOTH_CODES)
        return worker_id

    def make_sure_that_something_is_held(self) -> None:
        if any(self.model.holds(run.fence) for run in self.holds):
            return
        self.advance(1_000)
        worker_id = self.live_worker()
        self.start([{}, {"tenant": "beta"}], None)
        for suspects in (None, (3, 2)):
            self.claim(worker_id, ["default", "mail"], EVERYTHING, 10, "", BOTH_CODES, None, suspects)

    @rule(wanted=st.lists(st.tuples(recent, mostly(False, st.just(True)), ACTS), min_size=1, max_size=4))
    def save(self, wanted: list[tuple[int, bool, str]], is_sent_again: bool = False) -> None:
        self.make_sure_that_something_is_held()
        self.save_batch([(self.hold(back, is_stale), act) for back, is_stale, act in wanted], is_sent_again)

    def save_batch(self, wanted: list[tuple[HeldRun, str]], is_sent_again: bool = False) -> None:
        batch = [self.decision(run, act) for run, act in wanted]
        expected = refusal_or(lambda: self.model.save(batch))
        self.agree(expected, self.world.each(lambda harness: harness.store.save(batch)))
        if is_sent_again:
            self.agree(expected, self.world.each(lambda harness: harness.store.save(batch, again=True)))
        for run, _ in wanted:
            life = self.model.lives[run.run_id]
            run.last_event, run.last_seq = len(life.events), len(life.records)

    @rule(wanted=st.lists(st.tuples(st.just(0), st.just(False), ACTS), min_size=1, max_size=2))
    def save_and_send_again(self, wanted: list[tuple[int, bool, str]]) -> None:
        self.save(wanted, is_sent_again=True)

    @rule(back=recent, act=ACTS, is_older=st.booleans())
    def save_with_a_wrong_fence(self, back: int, act: str, is_older: bool) -> None:
        self.make_sure_that_something_is_held()
        run = self.hold(back, is_stale=False)
        wrong = replace(run, token=run.token - 1) if is_older else replace(run, worker_id=STRANGER)
        batch = [self.decision(wrong, act)]
        self.agree([Saving.LOST], self.world.each(lambda harness: harness.store.save(batch)))

    def decision(self, run: HeldRun, act: str) -> Decision:
        if act in ENDS:
            return _ending(run, *ENDS[act])
        if act in WAITS:
            return self.parked(run, act)
        match act:
            case "hand_back" | "put_off":
                return decide(run, EventType.HANDED_BACK, release=HandBack(5_000 if act == "put_off" else 0))
            case "park" | "park_unlooked":
                return self.parked(run, "signal" if not self.model.lives[run.run_id].waits else None, act == "park")
            case "open_time":
                opened = WAITS["time"]._replace(wait_id=run.last_seq + 1)
                return decide(run, EventType.STEP_WAITING, records=(record("sleep"),), opened=(opened,))
            case "group" | "close" | "hold_back":
                return {"group": self.group, "close": self.closed, "hold_back": self.held_back}[act](run)
            case "continue" | "try_again" | "try_later":
                return self.continued(run, act)
            case "ask":
                return asked(run, **QUESTIONS[run.last_seq % len(QUESTIONS)])
            case "take":
                life = self.model.lives[run.run_id]
                # One wait stays, so that a run which parks next has something to wait for.
                return decide(run, records=(record(),), taken=list(life.inbox)[:1], closed=list(life.waits)[1:2])
        return decide(run, records=(record(nth=run.last_seq),))

    def parked(self, run: HeldRun, kind: str | None, has_looked: bool = True) -> Decision:
        task = self.model.lives[run.run_id].task
        seen = task.wakes if task is not None and has_looked else run.wakes
        if kind is None:
            return decide(run, EventType.WAITING, release=Park(seen))
        opened = [WAITS[kind]._replace(wait_id=run.last_seq + 1)]
        if kind == "code":
            # Neither its moment nor what comes wakes a run that waits for code.
            also = WAITS[("time", "signal")[run.last_seq % 2]]
            opened = [WAITS["code"], also._replace(wait_id=run.last_seq + 1, due_in_ms=1_000)]
        return decide(run, EventType.WAITING, records=(record("wait"),), opened=opened, release=Park(seen))

    def closed(self, run: HeldRun) -> Decision:
        """All that a run waited for is called off, for something else: a run that parks next has that to wait for."""
        opened = WAITS["signal"]._replace(wait_id=run.last_seq + 1)
        closed = list(self.model.lives[run.run_id].waits)
        return decide(run, records=(record("join"),), opened=(opened,), closed=closed)

    def held_back(self, run: HeldRun) -> Decision:
        """What a holder does that finds itself told to pause: it tells so, and gives the run back."""
        commands = [(n, mail) for n, mail in self.model.lives[run.run_id].inbox.items() if mail.kind in COMMAND_KINDS]
        kinds = (*(mail.kind for _, mail in commands), EventType.HANDED_BACK)
        taken = [n for n, _ in commands]
        return decide(run, events=tuple(Event(kind, NOON) for kind in kinds), taken=taken, release=HandBack())

    def continued(self, run: HeldRun, act: str) -> Decision:
        if act == "continue":
            return decide(run, EventType.CONTINUED, release=Continue(1, "order@1", '{"n":2}'))
        calls = tuple(kept.record.call for kept in self.model.lives[run.run_id].records[-1:])
        delay_ms = 5_000 if act == "try_later" else 0
        release = Continue(2, "mail@2", "{}", "retry", RunState.FAILED, '{"type":"ValueError"}', calls, delay_ms)
        return decide(run, EventType.RETRY_SCHEDULED, release=release)

    def group(self, run: HeldRun) -> Decision:
        wait_id = run.last_seq + 1
        self.last_group = joins = Joins(run.run_id, wait_id)
        children = [
            self.new_run(tenant=run.tenant, joins=joins, queue=queue, key=key, leave=leave)
            for queue, key, leave in (("default", None, False), ("mail", None, True), ("mail", "k1", False))
        ]
        opened = wait(wait_id, WaitKind.CHILDREN, name="children", need=2, spare=1)
        return decide(run, EventType.STEP_WAITING, records=(record("all"),), opened=(opened,), children=children)

    @rule(
        back=recent,
        tenant=st.none() | tenants,
        name=st.sampled_from(["paid", "other"]),
        key=st.sampled_from([None, None, "m1"]),
        digest=st.sampled_from(["one", "two"]),
    )
    def deliver(self, back: int, tenant: str | None, name: str, key: str | None, digest: str) -> None:
        delivery = Delivery(self.run_id(back), tenant, "signal", name, "1", None, key, digest)
        expected = refusal_or(lambda: self.model.deliver(delivery))
        self.agree(expected, self.world.each(lambda harness: harness.store.deliver(delivery)))

    @rule(back=recent, name=st.sampled_from(["paid", "other"]))
    def deliver_to_a_held_run(self, back: int, name: str) -> None:
        self.make_sure_that_something_is_held()
        delivery = Delivery(self.hold(back, is_stale=False).run_id, None, "signal", name, "1")
        self.agree(self.model.deliver(delivery), self.world.each(lambda harness: harness.store.deliver(delivery)))

    @rule(
        wanted=st.lists(st.tuples(recent, st.sampled_from(COMMANDS)), min_size=1, max_size=3),
        tenant=mostly(None, tenants),
        key=mostly(None, st.sampled_from(["c1", "c2"])),
    )
    def command(self, wanted: list[tuple[int, Command]], tenant: str | None, key: str | None) -> None:
        self.carry_out([Request(self.run_id(back), asked, tenant, "ann", "why", key) for back, asked in wanted])

    @rule(back=recent, asked=st.sampled_from([Pause(), Pause(), Resume(), Cancel()]))
    def command_a_held_run(self, back: int, asked: Command) -> None:
        self.make_sure_that_something_is_held()
        self.carry_out([Request(self.hold(back, is_stale=False).run_id, asked)])

    @rule(back=recent, asked=st.sampled_from([RetryRun(), Rerun(), Rerun("charge"), Discard()]))
    def command_an_ended_run(self, back: int, asked: Command) -> None:
        ended = [run_id for run_id, life in self.model.lives.items() if life.task is None]
        if ended:
            self.carry_out([Request(ended[-1 - back % len(ended)], asked)])

    @rule(
        back=recent,
        command=st.sampled_from(REVIEW_COMMANDS),
        actor=st.sampled_from([None, "ann", "bob", "eve"]),
        key=mostly(None, st.just("r1")),
    )
    def command_a_review(
        self, back: int, command: Callable[[int], ReviewCommand], actor: str | None, key: str | None
    ) -> None:
        reviews = list(self.model.reviews)
        if reviews:
            run_id, number = reviews[-1 - back % len(reviews)]
            self.carry_out([Request(run_id, command(number), actor=actor, key=key)])

    def carry_out(self, requests: list[Request]) -> None:
        expected = change(self.model, requests)
        for answers in self.world.each(lambda harness: harness.store.change(requests)):
            assert [type(one) if isinstance(one, StepfastError) else one for one in answers] == expected

    @rule(worker_id=workers, back=recent, known=mostly(BOTH_CODES, code_lists))
    def claim_run(self, worker_id: WorkerId, back: int, known: list[str], wanted: RunId | None = None) -> None:
        run_id = wanted or self.run_id(back)
        expected = self.model.claim_run(worker_id, run_id, known)
        one, other = self.world.each(lambda harness: harness.store.claim_run(worker_id, run_id, known))
        assert (one and one.run_id, one and asdict(one)) == (expected, other and asdict(other))
        self.holds += [one] if one else []

    @rule(worker_id=workers, errand=st.sampled_from(["beat", "beat", "give_back"]), back=recent)
    def workers_errand(self, worker_id: WorkerId, errand: str, back: int) -> None:
        args = (worker_id, [self.run_id(back)]) if errand == "give_back" else (worker_id,)
        expected = getattr(self.model, errand)(*args)
        self.agree(expected, self.world.each(lambda harness: getattr(harness.store, errand)(*args)))

    @rule(worker_id=workers, crew=crews, served=st.dictionaries(queues, tenants))
    def retire(self, worker_id: WorkerId, crew: str, served: dict[str, str]) -> None:
        turns = Turns(crew, served)
        expected = self.model.retire(worker_id, turns)
        self.agree(expected, self.world.each(lambda harness: harness.store.retire(worker_id, turns)))

    @rule(
        may_bury=st.sampled_from([True, True, False]), max_crashes=st.integers(1, 3), limit=st.sampled_from([1, 2, 100])
    )
    def upkeep(self, may_bury: bool, max_crashes: int, limit: int) -> None:
        request = Upkeep(may_bury, max_crashes, limit, VERDICT)
        expected = self.model.upkeep(request)
        for report in self.world.each(lambda harness: harness.store.upkeep(request)):
            assert tuple(sorted(part) for part in report[:5]) == expected

    @rule(worker_id=workers, max_crashes=st.integers(1, 3))
    def all_workers_die_but_one(self, worker_id: WorkerId, max_crashes: int) -> None:
        self.advance(LEASE_MS + 1)
        self.workers_errand(worker_id, "beat", 0)
        self.upkeep(True, max_crashes, 100)

    @rule(span_ms=st.sampled_from([1, 1_000, 19_000]))
    def advance(self, span_ms: int) -> None:
        self.model.now += span_ms
        self.world.each(lambda harness: harness.set_clock(self.model.now))

    @rule(back=recent)
    def read(self, back: int) -> None:
        one, other = self.world.each(partial(_read, run_id=self.run_id(back)))
        assert one == other

    @invariant()
    def the_rows_are_those_of_the_model(self) -> None:
        expected = rows_of(self.model)
        for rows in self.world.each(_rows):
            for table in QUERIES:
                assert rows[table] == expected[table], table
            check(rows)
            self.check_tokens(rows)

    @invariant()
    def positions_grow_with_the_numbers_of_events(self) -> None:
        for rows in self.world.each(lambda harness: harness.sql(POSITIONS)):
            for (run_id, position), (next_run, following) in pairwise(rows):
                assert run_id != next_run or position < following

    def check_tokens(self, rows: Rows) -> None:
        for run_id, _, token, *_ in rows["run"]:
            assert token >= self.tokens.get(run_id, 0)
            self.tokens[run_id] = token


async def _read(harness: Harness, run_id: RunId) -> list[Any]:
    """What the store shows of a run."""
    store = harness.store
    views = [await store.run(None, run_id), await store.look(run_id), await store.steps(run_id)]
    histories = await store.histories([run_id]) if views[0] is not None else {}
    letters = await store.dead_letters(LetterFilter(resolved=True))
    shown = [await store.queues(), await store.findings(), letters]
    return [*views, *shown, await store.outcomes([run_id]), list(histories.values())]


async def _rows(harness: Harness) -> Rows:
    return {table: await harness.sql(query) for table, query in QUERIES.items()}


def _ending(run: HeldRun, state: RunState, kind: EventType) -> Decision:
    error = (
        json.dumps({"type": "ValueError", "step": f"charge#{run.last_seq - 1}"}) if state is RunState.FAILED else None
    )
    outcome = Outcome(state, "1", error, Instant(NOON + 1), run.joins)
    if state is not RunState.FAILED or run.joins is not None:
        return decide(run, kind, outcome=outcome)
    kinds = (EventType.DLQ_PENDING, EventType.DLQ_RECORDED, kind)
    letter = DeadLetter(run.workflow, run.version, "ValueError", "no", None)
    return decide(run, events=tuple(Event(one, NOON) for one in kinds), outcome=outcome, dead_letter=letter)


def _born(run: NewRun, holder: WorkerId, now: int) -> HeldRun:
    """A run born leased, as its starter knows it."""
    place = (run.run_id, run.tenant, run.workflow, run.version, run.kind, run.queue)
    return HeldRun(*place, 1, 1, holder, run.input, 0, False, 1, 0, 0, 2, Instant(now), joins=run.joins)
