"""What a store is to do, in the plainest words: dictionaries, and a loop for every rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stepfast.kernel.decisions import CallId, Decision, Fence, HandBack, Joins, NewRun, Park, Record, Started, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused, RowsRefused
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Beat, Claim, Delivered, Delivery, Enrolment, Holding, QueueRoom, Saving, Upkeep
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import PENDING_WAITS, RunState, TaskState, WaitKind
from tests.stores.harness import NOON

PRIORITY_MS = 3_600_000


@dataclass
class Task:
    """The hot row of an unended run."""

    run: NewRun
    place: int
    state: TaskState
    since_at: int
    due_at: int | None = None
    worker_id: WorkerId | None = None
    token: int = 0
    claims: int = 0
    crashes: int = 0
    strikes: int = 0
    wakes: int = 0

    def give_back(self, now: int) -> None:
        self.state, self.worker_id, self.since_at = TaskState.READY, None, now

    def wake(self, now: int) -> None:
        if self.state is TaskState.WAITING:
            self.state, self.due_at, self.since_at = TaskState.READY, None, now


@dataclass
class Open:
    """Something that a run waits for."""

    wait: Wait
    opened_at: int
    due_at: int | None
    got: int = 0
    failed: int = 0

    @property
    def is_decided(self) -> bool:
        is_over = self.got + self.failed >= self.wait.total
        return self.got >= self.wait.need or self.failed > self.wait.spare or is_over


@dataclass
class Mail:
    """Something that came for a run."""

    name: str
    at: int
    told: bool


@dataclass
class Member:
    """A worker."""

    codes: frozenset[str]
    lease_ms: int
    seen_at: int
    dead_at: int | None = None


@dataclass
class End:
    """How a run ended."""

    state: RunState
    seq: int
    token: int
    ended_at: int


Key = tuple[str, str, str]


@dataclass
class Life:
    """All that is known of a run."""

    run: NewRun
    queued_at: int
    events: list[tuple[str, int]] = field(default_factory=list)
    records: list[tuple[Record, int]] = field(default_factory=list)
    waits: dict[int, Open] = field(default_factory=dict)
    inbox: dict[int, Mail] = field(default_factory=dict)
    task: Task | None = None
    end: End | None = None
    letter: str | None = None

    @property
    def state(self) -> RunState:
        if self.task is None:
            assert self.end is not None
            return self.end.state
        if self.task.state is TaskState.LEASED:
            return RunState.RUNNING
        if self.task.state is TaskState.READY:
            return RunState.RUNNING if self.task.claims else RunState.PENDING
        return RunState.PENDING if {w.wait.kind for w in self.waits.values()} <= PENDING_WAITS else RunState.WAITING

    def tell(self, kind: EventType, token: int) -> None:
        self.events.append((kind.value, token))


class Model:
    """A store that remembers nothing when it is gone."""

    def __init__(self) -> None:
        self.now = int(NOON)
        self.lives: dict[RunId, Life] = {}
        self.workers: dict[WorkerId, Member] = {}
        self.keys: dict[Key, tuple[str, RunId, int]] = {}

    def tasks(self) -> Iterator[Task]:
        return (life.task for _, life in sorted(self.lives.items()) if life.task is not None)

    def held(self, worker_id: WorkerId) -> list[Task]:
        return [task for task in self.tasks() if task.worker_id == worker_id]

    def is_alive(self, worker_id: WorkerId | None) -> bool:
        return worker_id in self.workers and self.workers[worker_id].dead_at is None

    def enrol(self, told: Enrolment) -> Instant:
        known = self.workers.get(told.worker_id)
        if known is None:
            self.workers[told.worker_id] = Member(frozenset(told.codes), told.lease_ms, self.now)
        elif known.dead_at is None:
            known.codes, known.lease_ms, known.seen_at = frozenset(told.codes), told.lease_ms, self.now
        for task in self.tasks():
            waits = self.lives[task.run.run_id].waits
            codes = [number for number, opened in waits.items() if opened.wait.kind is WaitKind.CODE]
            if codes and task.state is TaskState.WAITING and task.run.code in told.codes:
                for number in codes:
                    del waits[number]
                task.wake(self.now)
        return Instant(self.now)

    def start(self, runs: Sequence[NewRun], holder: WorkerId | None) -> list[Started]:
        self._check_keys(runs)
        busy = {task.run.queue for task in self.tasks() if task.state is TaskState.READY and not task.crashes}
        return [self._start(run, holder if self.is_alive(holder) and run.queue not in busy else None) for run in runs]

    def _check_keys(self, runs: Sequence[NewRun]) -> None:
        digests = {key: digest for key, (digest, _, _) in self.keys.items()}
        for run in runs:
            if run.key is not None and digests.setdefault((run.tenant, "start", run.key), run.digest) != run.digest:
                raise KeyReused

    def _start(self, run: NewRun, holder: WorkerId | None) -> Started:
        if run.key is not None:
            use = (run.digest, run.run_id, self.now)
            _, first, at = self.keys.setdefault((run.tenant, "start", run.key), use)
            if first != run.run_id:
                return Started(first, False, None, Instant(at))
        due_at = self.now + run.delay_ms
        life = self.lives[run.run_id] = Life(run, self.now)
        task = life.task = Task(run, due_at - run.priority * PRIORITY_MS, TaskState.READY, self.now)
        life.tell(EventType.QUEUED, 0)
        if run.delay_ms:
            task.state, task.due_at = TaskState.WAITING, due_at
            life.waits[0] = Open(Wait(0, WaitKind.DELAY, "delay", CallId("", "", 0)), self.now, due_at)
        elif holder is not None:
            self._lease(task, holder)
        return Started(run.run_id, True, task.token or None, Instant(self.now))

    def _lease(self, task: Task, worker_id: WorkerId) -> None:
        task.state, task.worker_id, task.due_at, task.since_at = TaskState.LEASED, worker_id, None, self.now
        task.token += 1
        task.claims += 1
        life = self.lives[task.run.run_id]
        own_trouble = PENDING_WAITS | {WaitKind.CODE}
        life.waits = {n: opened for n, opened in life.waits.items() if opened.wait.kind not in own_trouble}
        life.tell(EventType.CLAIMED, task.token)

    def claim(self, request: Claim) -> tuple[list[RunId], int | None, bool]:
        if not self.is_alive(request.worker_id):
            return [], None, False
        chosen = [task for room in request.queues for task in self._serve(request, room)]
        queues = {room.queue for room in request.queues}
        due = [task.due_at for task in self.tasks() if task.run.queue in queues and task.due_at is not None]
        suspects_wait = any(self._line(request, room.queue, suspects=True) for room in request.queues)
        return [task.run.run_id for task in chosen], min(due, default=None), suspects_wait

    def _serve(self, request: Claim, room: QueueRoom) -> list[Task]:
        for task in self.tasks():
            if task.run.queue == room.queue and task.due_at is not None and task.due_at <= self.now:
                task.wake(self.now)
        chosen = self._choose(request, room) if request.suspects is None else self._choose_suspects(request, room)
        for task in chosen:
            self._lease(task, request.worker_id)
        return chosen

    def _line(self, request: Claim, queue: str, suspects: bool) -> list[Task]:
        line = [
            task
            for task in self.tasks()
            if (task.state, task.run.queue) == (TaskState.READY, queue)
            and task.run.code in request.codes
            and (request.tenants is None or task.run.tenant in request.tenants)
            and bool(task.crashes) == suspects
        ]
        return sorted(line, key=lambda task: (task.place, task.run.run_id))

    def _choose(self, request: Claim, room: QueueRoom) -> list[Task]:
        line = self._line(request, room.queue, suspects=False)
        tenants = sorted({task.run.tenant for task in line}, key=lambda tenant: (tenant <= room.after, tenant))
        lines = {tenant: [task for task in line if task.run.tenant == tenant] for tenant in tenants}
        chosen: list[Task] = []
        while any(lines.values()) and len(chosen) < room.room:
            for tenant in tenants:
                share = min(request.burst, room.room - len(chosen))
                chosen += lines[tenant][:share]
                del lines[tenant][:share]
        return chosen

    def _choose_suspects(self, request: Claim, room: QueueRoom) -> list[Task]:
        line = self._line(request, room.queue, suspects=True)
        if not line or not request.suspects:
            return []
        level = min(task.crashes for task in line)
        most = min(room.room, request.suspects[min(level, len(request.suspects)) - 1])
        return [task for task in line if task.crashes == level][:most]

    def save(self, decisions: Sequence[Decision]) -> list[Saving]:
        answers = list(self._answers(decisions))
        saved = [decision for decision, answer in zip(decisions, answers, strict=True) if answer is Saving.SAVED]
        try:
            self._check_keys([child for decision in saved for child in decision.children])
        except KeyReused:
            raise RowsRefused from None
        for decision in saved:
            self._write(decision)
        ends = [decision.outcome for decision in saved if decision.outcome is not None]
        self._count([(end.joins, end.state) for end in ends if end.joins is not None])
        return answers

    def _answers(self, decisions: Sequence[Decision]) -> Iterator[Saving]:
        """Nothing counts that follows a decision by which its run was ended or given away."""
        given_away = set()
        for decision in decisions:
            yield Saving.LOST if decision.fence in given_away else self._judge(decision)
            if decision.release is not None or decision.outcome is not None:
                given_away.add(decision.fence)

    def _judge(self, decision: Decision) -> Saving:
        if not self.holds(decision.fence):
            return Saving.LOST
        task = self.lives[decision.fence.run_id].task
        if task is not None and isinstance(decision.release, Park) and decision.release.wakes != task.wakes:
            return Saving.WOKEN
        return Saving.SAVED

    def holds(self, fence: Fence) -> bool:
        """Whether whoever has this fence may write."""
        task = self.lives[fence.run_id].task
        return task is not None and (task.token, task.worker_id) == (fence.token, fence.worker_id)

    def _write(self, decision: Decision) -> None:
        life, token = self.lives[decision.fence.run_id], decision.fence.token
        assert len(life.events) + 1 == decision.first_event
        life.events += [(str(event.type), token) for event in decision.events]
        life.records += [(record, token) for record in decision.records]
        for number in decision.closed:
            life.waits.pop(number, None)
        for n in decision.taken:
            life.inbox.pop(n, None)
        for wait in decision.opened:
            due_at = None if wait.due_in_ms is None else self.now + wait.due_in_ms
            life.waits[wait.wait_id] = Open(wait, self.now, due_at)
        for child in decision.children:
            self._start(child, None)
        if isinstance(decision.release, Park | HandBack):
            self._release(life, decision.release)
        if decision.outcome is not None:
            self._end(life, decision.outcome.state, token, decision.outcome.ended_at)
            life.letter = decision.dead_letter and decision.dead_letter.error_type

    def _release(self, life: Life, release: Park | HandBack) -> None:
        task = life.task
        assert task is not None
        task.give_back(self.now)
        if isinstance(release, Park):
            task.state, task.crashes, task.strikes = TaskState.WAITING, 0, 0
            dues = [opened.due_at for opened in life.waits.values() if opened.due_at is not None]
            task.due_at = min(dues, default=None)
            return
        task.token += 1
        if release.delay_ms:
            task.state, task.due_at = TaskState.WAITING, self.now + release.delay_ms
            life.waits[0] = Open(Wait(0, WaitKind.BACKOFF, "backoff", CallId("", "", 0)), self.now, task.due_at)

    def _end(self, life: Life, state: RunState, token: int, at: int) -> None:
        life.end = End(state, len(life.events), token, at)
        life.task = None
        life.waits.clear()
        life.inbox.clear()

    def _count(self, ends: Sequence[tuple[Joins, RunState]]) -> None:
        """Ended children of one commit count together; the group that they decide wakes its parent once."""
        groups: dict[Joins, list[RunState]] = {}
        for joins, state in ends:
            groups.setdefault(joins, []).append(state)
        for joins, states in groups.items():
            life = self.lives.get(joins.parent_id)
            group = None if life is None else life.waits.get(joins.wait_id)
            if life is None or life.task is None or group is None:
                continue
            was_decided = group.is_decided
            group.got += states.count(RunState.COMPLETED)
            group.failed += len(states) - states.count(RunState.COMPLETED)
            if group.is_decided and not was_decided:
                life.task.wakes += 1
                life.task.wake(self.now)

    def deliver(self, delivery: Delivery) -> Delivered:
        life = self.lives.get(delivery.run_id)
        if life is None or delivery.tenant not in (None, life.run.tenant):
            return Delivered(None)
        task, before = life.task, life.state
        if task is None:
            return Delivered(before)
        holder = task.worker_id
        if not self._is_repeated(delivery, life.run.tenant):
            task.wakes += 1
            is_leased = task.state is TaskState.LEASED
            life.inbox[task.wakes] = Mail(delivery.name, self.now, not is_leased)
            if not is_leased:
                life.tell(EventType.SIGNALLED, task.token)
            if any((w.wait.kind, w.wait.name) == (delivery.kind, delivery.name) for w in life.waits.values()):
                task.wake(self.now)
        return Delivered(before, life.run.queue, holder)

    def _is_repeated(self, delivery: Delivery, tenant: str) -> bool:
        if delivery.key is None:
            return False
        key = (tenant, delivery.kind, delivery.key)
        if key not in self.keys:
            self.keys[key] = (delivery.digest, delivery.run_id, self.now)
            return False
        if self.keys[key][0] != delivery.digest:
            raise KeyReused
        return True

    def beat(self, worker_id: WorkerId) -> Beat:
        alive = self.is_alive(worker_id)
        if alive:
            self.workers[worker_id].seen_at = self.now
        held = [Holding(task.run.run_id, task.token, task.wakes, False) for task in self.held(worker_id)]
        return Beat(Instant(self.now), alive, held)

    def retire(self, worker_id: WorkerId) -> list[RunId]:
        if self.is_alive(worker_id):
            self.workers[worker_id].dead_at = self.now
        run_ids = [task.run.run_id for task in self.held(worker_id)]
        self.give_back(worker_id, run_ids)
        return run_ids

    def give_back(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> None:
        for task in self.held(worker_id):
            if task.run.run_id in run_ids:
                task.token += 1
                task.give_back(self.now)
                self.lives[task.run.run_id].tell(EventType.HANDED_BACK, task.token)

    def upkeep(self, request: Upkeep) -> tuple[list[WorkerId], list[RunId], list[RunId]]:
        buried = [worker_id for worker_id in sorted(self.workers) if request.may_bury and self._is_late(worker_id)]
        for worker_id in buried:
            self.workers[worker_id].dead_at = self.now
        returned: list[RunId] = []
        failed: list[RunId] = []
        for task, alone in list(self._orphans(request.limit)):
            spent = task.strikes + alone >= request.max_crashes
            (failed if spent else returned).append(task.run.run_id)
            self._reap(task, alone, spent)
        return buried, sorted(returned), sorted(failed)

    def _is_late(self, worker_id: WorkerId) -> bool:
        member = self.workers[worker_id]
        return member.dead_at is None and member.seen_at + member.lease_ms < self.now

    def _orphans(self, limit: int) -> Iterator[tuple[Task, bool]]:
        for worker_id in sorted({task.worker_id for task in self.tasks() if task.worker_id is not None}):
            held = self.held(worker_id)
            if self.is_alive(worker_id) or limit <= 0:
                continue
            # A run that the limit would leave behind alone is taken along.
            taken = held if len(held) <= limit + 1 else held[:limit]
            yield from ((task, len(held) == 1) for task in taken)
            limit -= len(taken)

    def _reap(self, task: Task, alone: bool, spent: bool) -> None:
        life = self.lives[task.run.run_id]
        task.token += 1
        task.crashes += 1
        task.strikes += alone
        life.tell(EventType.REAPED, task.token)
        if not spent:
            task.give_back(self.now)
            return
        if task.run.joins is None:
            life.tell(EventType.DLQ_PENDING, task.token)
            life.tell(EventType.DLQ_RECORDED, task.token)
            life.letter = "RunCrashed"
        life.tell(EventType.FAILED, task.token)
        self._end(life, RunState.FAILED, task.token, self.now)
        if task.run.joins is not None:
            self._count([(task.run.joins, RunState.FAILED)])
