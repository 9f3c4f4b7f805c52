"""How queues share what a worker with a number of runs may still take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Claim, Claimed, QueueRoom
from stepfast.kernel.ids import RunId
from stepfast.testing import VirtualClock
from stepfast.worker.claims import ClaimLoop
from stepfast.worker.held import HeldRuns
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.shares import Shares, at_random, share_out
from tests.engine.test_review_committer import held


def shared(rooms: dict[str, int], left: int) -> dict[str, int]:
    found = share_out([QueueRoom(queue, room) for queue, room in rooms.items()], left)
    return {room.queue: room.room for room in found}


def test_queues_with_room_share_alike_and_one_has_what_does_not_divide():
    assert shared({"a": 100, "b": 100, "c": 100}, 20) == {"a": 6, "b": 7, "c": 7}


def test_what_a_queue_has_no_room_for_goes_to_the_others():
    assert shared({"a": 100, "b": 1, "c": 5}, 20) == {"b": 1, "c": 5, "a": 14}


@pytest.mark.parametrize("left", range(3, 40))
def test_each_queue_is_asked_for_something_and_all_together_for_what_is_left(left):
    shares = shared({"a": 9, "b": 30, "c": 2}, left)
    assert min(shares.values()) > 0
    assert sum(shares.values()) == left


def test_an_order_at_random_leaves_no_queue_out():
    rooms = [QueueRoom(f"q{number}", 1) for number in range(20)]
    assert sorted(at_random(rooms)) == sorted(rooms)


class Lines:
    """A store with so many ready runs in each queue, some of them suspects alone; it counts what it is asked."""

    def __init__(self, ready: dict[str, int], due: dict[str, int] | None = None, suspects: Sequence[str] = ()) -> None:
        self.ready = Counter(ready)
        self.due = due or {}
        self.suspects = suspects
        self.asked: list[Claim] = []

    async def claim(self, request: Claim) -> Claimed:
        self.asked.append(request)
        queues = [room.queue for room in request.queues]
        runs = [self._run(room.queue) for room in request.queues for _ in range(min(room.room, self.ready[room.queue]))]
        self.ready.subtract(run.queue for run in runs)
        due = [Instant(self.due[queue]) for queue in queues if queue in self.due]
        return Claimed(runs, min(due, default=None), any(queue in self.suspects for queue in queues))

    def _run(self, queue: str) -> HeldRun:
        run = held()
        run.run_id, run.queue = RunId(f"{queue}-{len(self.asked)}"), queue
        return run


class Worker:
    """A worker of some queues, asked in their order, whose runs end as soon as they have begun."""

    def __init__(self, lines: Lines, queues: Sequence[str], max_runs: int) -> None:
        settings = WorkerSettings(queues=tuple(queues), max_runs=max_runs)
        store: Any = lines
        self.loop = ClaimLoop(store, VirtualClock(), settings, HeldRuns(settings), lambda: ["w@1"], self._begin)
        self.loop.shares = Shares(list)
        self.taken: Counter[str] = Counter()

    async def _begin(self, runs: list[HeldRun]) -> None:
        self.taken.update(run.queue for run in runs)

    async def look_until_it_rests(self) -> int:
        """Look on until there is reason to rest, or no run may be taken any more; how long the rest is."""
        while not self.loop.spent.is_set():
            if pause_ms := await self.loop.look():
                return pause_ms
        return 0


async def test_a_full_queue_leaves_another_its_share():
    worker = Worker(Lines({"a": 100, "b": 5}), "ab", max_runs=20)
    assert await worker.look_until_it_rests() == 0
    assert worker.taken == {"a": 15, "b": 5}


@pytest.mark.parametrize("max_runs", [1, 2, 9, 10, 11, 50])
async def test_a_worker_beside_empty_queues_takes_its_runs_without_a_rest(max_runs):
    worker = Worker(Lines({"g": 100}), "abcdefghij", max_runs)
    assert await worker.look_until_it_rests() == 0
    assert worker.taken == {"g": max_runs}


async def test_queues_that_were_found_empty_cost_few_claims():
    lines = Lines({"g": 1_000})
    await Worker(lines, "abcdefghij", max_runs=100).look_until_it_rests()
    # Shared by all, nearly all for the one that has runs, and that one alone for the rest.
    assert len(lines.asked) == 3


async def test_a_queue_that_was_found_empty_is_asked_again():
    lines = Lines({"a": 2})
    worker = Worker(lines, "ab", max_runs=10)
    await worker.look_until_it_rests()
    lines.ready.update(a=100, b=100)
    await worker.look_until_it_rests()
    assert worker.taken == {"a": 6, "b": 4}


@pytest.mark.parametrize("max_runs", [1, 2, 3])
async def test_a_worker_that_finds_nothing_rests_until_the_first_run_of_any_queue_is_due(max_runs):
    now = VirtualClock().now()
    lines = Lines({}, due={"a": now + 700, "b": now + 300, "c": now + 500})
    assert await Worker(lines, "abc", max_runs).look_until_it_rests() == 300


@pytest.mark.parametrize("max_runs", [1, 2])
async def test_suspects_of_one_queue_do_not_hide_what_another_has(max_runs):
    worker = Worker(Lines({"b": 9}, suspects=["a"]), "ab", max_runs)
    assert await worker.loop.look() == 0
    assert worker.taken.total() == 1
    assert worker.loop.suspects_wait


async def test_no_more_runs_are_taken_than_may_be_however_the_queues_fill_up():
    lines = Lines({"a": 3, "b": 1, "c": 2})
    worker = Worker(lines, "abc", max_runs=10)
    while not worker.loop.spent.is_set():
        await worker.look_until_it_rests()
        lines.ready.update(a=1, b=2, c=1)
    assert worker.taken.total() == 10
