"""Batches: what arrives while one commit is under way shares the next, and what comes back takes turns."""

from __future__ import annotations

import asyncio

import pytest

from stepfast.engine.grouping import MAX_BYTES, MAX_ITEMS, SMALLEST_TURN, Grouper
from tests.support.turns import turn


class Bench:
    """Runs that ask for a commit again as soon as they are answered, so many times each."""

    def __init__(self, runs: int, commits: int, in_turns: bool) -> None:
        self.left = dict.fromkeys(range(runs), commits)
        self.sizes: list[int] = []
        self.all_done = asyncio.Event()
        self.group = Grouper(self.commit, lambda run: 1, (lambda run: run) if in_turns else None)

    async def commit(self, batch: list[int]) -> None:
        self.sizes.append(len(batch))
        await turn()
        for run in batch:
            self.left[run] -= 1
            if self.left[run]:
                asyncio.get_running_loop().call_soon(self.group.add, run)
        if not any(self.left.values()):
            self.all_done.set()

    async def work(self) -> list[int]:
        self.group.start()
        for run in self.left:
            self.group.add(run)
        await self.all_done.wait()
        await self.group.close()
        return self.sizes


async def test_all_that_has_come_shares_a_commit() -> None:
    assert await Bench(200, 3, in_turns=False).work() == [200, 200, 200]


async def test_in_turns_one_half_commits_while_the_other_computes() -> None:
    assert await Bench(200, 3, in_turns=True).work() == [100] * 6


async def test_few_items_are_not_halved() -> None:
    assert await Bench(SMALLEST_TURN, 2, in_turns=True).work() == [SMALLEST_TURN] * 2


@pytest.mark.parametrize("in_turns", [False, True])
async def test_nothing_is_left_out_and_no_batch_is_too_long(in_turns: bool) -> None:
    sizes = await Bench(3 * MAX_ITEMS + 7, 2, in_turns).work()
    assert (sum(sizes), max(sizes)) == (2 * (3 * MAX_ITEMS + 7), MAX_ITEMS)


async def test_large_items_share_no_commit_beyond_its_bytes() -> None:
    batches: list[list[int]] = []

    async def commit(batch: list[int]) -> None:
        batches.append(batch)

    group = Grouper(commit, lambda item: MAX_BYTES)
    group.start()
    for item in range(3):
        group.add(item)
    await group.close()
    assert batches == [[0], [1], [2]]


async def test_many_items_of_one_owner_share_a_commit() -> None:
    sizes: list[int] = []

    async def commit(batch: list[int]) -> None:
        sizes.append(len(batch))

    group = Grouper(commit, lambda item: 1, in_turns=lambda item: "one run")
    group.start()
    for item in range(200):
        group.add(item)
    await group.close()
    assert sizes == [200]
