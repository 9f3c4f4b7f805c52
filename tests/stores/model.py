"""What a store is to do, in the plainest words: dictionaries, and a loop for every rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from stepfast.kernel.commands import Changed
from stepfast.kernel.decisions import (
    CallId,
    Continue,
    Decision,
    Fence,
    HandBack,
    Joins,
    NewRun,
    Park,
    Started,
    Wait,
)
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused, RowsRefused
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import (
    Beat,
    Claim,
    Delivered,
    Delivery,
    Enrolled,
    Enrolment,
    Holding,
    QueueRoom,
    Saving,
    Turns,
    Upkeep,
)
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import GOOD_ENDS, PENDING_WAITS, RunState, TaskState, WaitKind
from tests.stores.harness import NOON, VERDICT
from tests.stores.model_reviews import Reviews, open_reviews
from tests.stores.model_rows import End, Kept, Letter, Life, Mail, Member, Open, Task

PRIORITY_MS = 3_600_000

Key = tuple[str, str, str]


class Model:
    """A store that remembers nothing when it is gone."""

    def __init__(self) -> None:
        self.now = int(NOON)
        self.lives: dict[RunId, Life] = {}
        self.workers: dict[WorkerId, Member] = {}
        self.keys: dict[Key, tuple[str, RunId, int]] = {}
        self.answers: dict[Key, Changed] = {}
        self.states: dict[Key, RunState] = {}
        self.unjoined: dict[Joins, str] = {}
        self.turns: dict[tuple[str, str], tuple[int, str]] = {}
        self.reviews: Reviews = {}

    def tasks(self) -> Iterator[Task]:
        return (life.task for _, life in sorted(self.lives.items()) if life.task is not None)

    def held(self, worker_id: WorkerId) -> list[Task]:
        return [task for task in self.tasks() if task.worker_id == worker_id]

    def is_alive(self, worker_id: WorkerId | None) -> bool:
        return worker_id in self.workers and self.workers[worker_id].dead_at is None

    def enrol(self, told: Enrolment) -> Enrolled:
        known = self.workers.get(told.worker_id)
        if known is None:
            self.workers[told.worker_id] = Member(frozenset(told.codes), told.crew, told.lease_ms, self.now)
        elif known.dead_at is None:
            known.codes, known.crew = frozenset(told.codes), told.crew
            known.lease_ms, known.seen_at = told.lease_ms, self.now
        self._wake_for_code(told.codes)
        last = {queue: self._served_last(queue, told.crew) for queue in told.queues}
        return Enrolled(Instant(self.now), {queue: tenant for queue, tenant in last.items() if tenant is not None})

    def _wake_for_code(self, known: Collection[str]) -> None:
        for task in self.tasks():
            waits = self.lives[task.run.run_id].waits
            codes = [number for number, opened in waits.items() if opened.wait.kind is WaitKind.CODE]
            if codes and task.state is TaskState.WAITING and task.code in known:
                for number in codes:
                    del waits[number]
                self.lives[task.run.run_id].tell(EventType.EXCEPTION_RESOLVED, task.token)
                task.make_ready(self.now)

    def _served_last(self, queue: str, crew: str) -> str | None:
        same = [worker_id for worker_id, member in self.workers.items() if member.crew == crew]
        served = [(t.since_at, t.run.tenant) for t in self.tasks() if t.run.queue == queue and t.worker_id in same]
        served += [self.turns[queue, crew]] if (queue, crew) in self.turns else []
        if served:
            return max(served)[1]
        left = [(left_at, other, tenant) for (line, other), (left_at, tenant) in self.turns.items() if line == queue]
        return max(left)[2] if left else None

    def _wake_for_those_who_stay(self, gone: Sequence[WorkerId]) -> None:
        stay = {code for member in self.workers.values() if member.dead_at is None for code in member.codes}
        self._wake_for_code(stay & {code for worker_id in gone for code in self.workers[worker_id].codes})

    def start(self, runs: Sequence[NewRun], holder: WorkerId | None) -> list[Started]:
        self._check_keys(runs)
        ready = [task for task in self.tasks() if task.state is TaskState.READY and not task.hold]
        busy = {task.run.queue for task in ready if not task.crashes}
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
        life = self.lives[run.run_id] = Life(run, self.now, run.version, run.code, run.input)
        task = life.task = Task(run, due_at - run.priority * PRIORITY_MS, TaskState.READY, self.now, run.code)
        task.deadline_at = None if run.timeout_ms is None else due_at + run.timeout_ms
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
        free = [task for task in self.tasks() if task.run.queue in queues and not task.hold]
        due = [task.due_at for task in free if task.due_at is not None]
        suspects_wait = any(self._line(request, room.queue, suspects=True) for room in request.queues)
        return [task.run.run_id for task in chosen], min(due, default=None), suspects_wait

    def claim_run(self, worker_id: WorkerId, run_id: RunId, codes: Sequence[str]) -> RunId | None:
        task = self.lives[run_id].task if run_id in self.lives else None
        if task is None or not self.is_alive(worker_id) or task.hold or task.code not in codes:
            return None
        is_due = task.due_at is not None and task.due_at <= self.now
        if task.state is not TaskState.READY and not is_due:
            return None
        self._lease(task, worker_id)
        return run_id

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
            if (task.state, task.run.queue, task.hold) == (TaskState.READY, queue, False)
            and task.code in request.codes
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
        self.count([(end.joins, end.state) for end in ends if end.joins is not None])
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
        assert life.generation == decision.generation
        for event in decision.events:
            life.tell(event.type, token)
        life.records += [Kept(record, token, decision.generation) for record in decision.records]
        self.close(life, decision.closed)
        for n in decision.taken:
            life.inbox.pop(n, None)
        for wait in decision.opened:
            due_at = None if wait.due_in_ms is None else self.now + wait.due_in_ms
            life.waits[wait.wait_id] = Open(wait, self.now, due_at)
        open_reviews(self.reviews, decision, self.now)
        for child in decision.children:
            self._start(child, None)
        if isinstance(decision.release, Park | HandBack):
            self._release(life, decision.release)
        if isinstance(decision.release, Continue):
            self._continue(life, decision.release)
        if decision.outcome is not None:
            error_type = decision.dead_letter and decision.dead_letter.error_type
            self.end(life, decision.outcome.state, token, decision.outcome.ended_at, decision.outcome.error, error_type)

    def close(self, life: Life, numbers: Sequence[int]) -> None:
        """Children that have not ended when their group is closed are joined by nobody."""
        for number in numbers:
            closed = life.waits.pop(number, None)
            if closed is not None and closed.wait.kind is WaitKind.CHILDREN and not closed.is_over:
                self.unjoined[Joins(life.run.run_id, number)] = life.run.tenant

    def _continue(self, life: Life, then: Continue) -> None:
        task, following = life.task, life.generation + 1
        assert task is not None
        life.ends.append(End(life.generation, then.state, len(life.events), task.token, self.now, then.error))
        life.supersede(then.superseded, following)
        life.causes[following] = then.cause
        life.version, life.code, life.input = then.version, then.code, then.input
        self.close(life, list(life.waits))
        task.tries = task.tries + 1 if then.is_retry else 0
        task.generation, task.code, task.claims, task.crashes, task.strikes = following, then.code, 0, 0, 0
        task.deadline_at = None if life.run.timeout_ms is None else self.now + then.delay_ms + life.run.timeout_ms
        task.give_back(self.now)
        self._put_off(life, then.delay_ms)

    def _release(self, life: Life, release: Park | HandBack) -> None:
        task = life.task
        assert task is not None
        task.give_back(self.now)
        if isinstance(release, Park):
            task.state, task.crashes, task.strikes = TaskState.WAITING, 0, 0
            task.due_at = life.alarm
            return
        self._put_off(life, release.delay_ms)

    def _put_off(self, life: Life, delay_ms: int) -> None:
        task = life.task
        assert task is not None
        task.token += 1
        if delay_ms:
            task.state, task.due_at = TaskState.WAITING, self.now + delay_ms
            life.waits[0] = Open(Wait(0, WaitKind.BACKOFF, "backoff", CallId("", "", 0)), self.now, task.due_at)

    def end(
        self, life: Life, state: RunState, token: int, at: int, error: str | None = None, letter: str | None = None
    ) -> None:
        life.ends.append(End(life.generation, state, len(life.events), token, at, error))
        if letter is not None:
            life.letters[life.generation] = Letter(letter)
        life.task = None
        self.close(life, list(life.waits))
        for _, mail in sorted(life.inbox.items()):
            if not mail.told and mail.kind != "signal":
                life.tell(mail.kind, token)
        life.inbox = {n: mail for n, mail in life.inbox.items() if mail.kind == "signal"}

    def count(self, ends: Sequence[tuple[Joins, RunState]]) -> None:
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
            good = sum(state in GOOD_ENDS for state in states)
            group.got += good
            group.failed += len(states) - good
            if group.is_decided and not was_decided:
                life.task.wakes += 1
                life.wake(self.now)

    def deliver(self, delivery: Delivery) -> Delivered:
        life = self.lives.get(delivery.run_id)
        if life is None or delivery.tenant not in (None, life.run.tenant):
            return Delivered(None)
        task, before = life.task, life.state
        place = ("", None) if task is None else (life.run.queue, task.worker_id)
        key = (life.run.tenant, delivery.kind, delivery.key or "")
        if delivery.key is not None and key in self.keys:
            if self.keys[key][0] != delivery.digest:
                raise KeyReused
            return Delivered(self.states[key], *place)
        if task is None:
            return Delivered(before)
        if delivery.key is not None:
            self.keys[key], self.states[key] = (delivery.digest, delivery.run_id, self.now), before
        self._put(delivery, life, task)
        return Delivered(before, *place)

    def _put(self, delivery: Delivery, life: Life, task: Task) -> None:
        task.wakes += 1
        is_leased = task.state is TaskState.LEASED
        life.inbox[task.wakes] = Mail(delivery.kind, delivery.name, self.now, not is_leased)
        if not is_leased:
            life.tell(EventType.SIGNALLED, task.token)
            life.last_signal = task.wakes
        if any((w.wait.kind, w.wait.name) == (delivery.kind, delivery.name) for w in life.waits.values()):
            life.wake(self.now)

    def beat(self, worker_id: WorkerId) -> Beat:
        alive = self.is_alive(worker_id)
        if alive:
            self.workers[worker_id].seen_at = self.now
        held = [Holding(task.run.run_id, task.token, task.wakes, task.hold) for task in self.held(worker_id)]
        return Beat(Instant(self.now), alive, held)

    def retire(self, worker_id: WorkerId, turns: Turns | None = None) -> list[RunId]:
        if turns is not None:
            self.turns |= {(queue, turns.crew): (self.now, tenant) for queue, tenant in turns.served.items()}
        if self.is_alive(worker_id):
            self.workers[worker_id].dead_at = self.now
            self._wake_for_those_who_stay([worker_id])
        run_ids = [task.run.run_id for task in self.held(worker_id)]
        self.give_back(worker_id, run_ids)
        return run_ids

    def give_back(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> None:
        for task in self.held(worker_id):
            if task.run.run_id in run_ids:
                task.token += 1
                task.give_back(self.now)
                self.lives[task.run.run_id].tell(EventType.HANDED_BACK, task.token)

    def upkeep(self, request: Upkeep) -> tuple[list[Any], ...]:
        buried = [worker_id for worker_id in sorted(self.workers) if request.may_bury and self._is_late(worker_id)]
        for worker_id in buried:
            self.workers[worker_id].dead_at = self.now
        self._wake_for_those_who_stay(buried)
        returned: list[RunId] = []
        failed: list[RunId] = []
        for task, alone in list(self._orphans(request.limit)):
            if self.lives[task.run.run_id].was_brought_on:
                task.strikes = 0
            spent = task.strikes + alone >= request.max_crashes
            (failed if spent else returned).append(task.run.run_id)
            self._reap(task, alone, spent)
        return buried, sorted(returned), sorted(failed), self._overdue(request.limit), self._unjoined(request.limit)

    def _overdue(self, limit: int) -> list[RunId]:
        late = [
            (task.deadline_at, task.run.run_id)
            for task in self.tasks()
            if task.deadline_at is not None and task.deadline_at <= self.now and task.state is not TaskState.LEASED
        ]
        return sorted(run_id for _, run_id in sorted(late)[:limit])

    def _unjoined(self, limit: int) -> list[RunId]:
        found: list[RunId] = []
        for group in sorted(self.unjoined)[:limit]:
            members = [task.run for task in self.tasks() if task.run.joins == group and not task.run.leave]
            found += [run.run_id for run in members]
            if not members:
                del self.unjoined[group]
        return sorted(found[:limit])

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
        is_own = task.run.joins is None or task.run.leave
        if is_own:
            life.tell(EventType.EXCEPTION_OPENED, task.token)
            life.tell(EventType.DLQ_PENDING, task.token)
            life.tell(EventType.DLQ_RECORDED, task.token)
        life.tell(EventType.FAILED, task.token)
        letter = "RunCrashed" if is_own else None
        self.end(life, RunState.FAILED, task.token, self.now, VERDICT.error, letter)
        if task.run.joins is not None:
            self.count([(task.run.joins, RunState.FAILED)])
