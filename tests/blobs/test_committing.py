"""Decisions with large values on their way to a commit: in order within a run, and in nobody else's way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from stepfast.engine.committer import Committer
from stepfast.engine.values import Values
from stepfast.kernel import rules
from stepfast.kernel.blobs import BlobKey, Blobs, is_reference
from stepfast.kernel.decisions import CallId, Decision, HeldRun, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import LeaseLost, StoreUnavailable
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import StepState

NOW = Instant(1)


class SavingStore:
    """A store that saves everything."""

    def __init__(self) -> None:
        self.saved: list[Decision] = []

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        self.saved += decisions
        return [Saving.SAVED for _ in decisions]


class SlowBlobs:
    """A blob store that takes nothing before it is told to, or is away."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()
        self.is_away = False

    async def put(self, key: BlobKey, content: bytes) -> None:
        self.asked.set()
        await self.gate.wait()
        if self.is_away:
            raise StoreUnavailable("gone fishing")

    async def close(self) -> None:
        """Nothing is open."""


class Desk:
    """A committer with a store and a blob store in the test's hands."""

    def __init__(self) -> None:
        self.store, self.blobs = SavingStore(), SlowBlobs()
        self.values = Values(cast(Blobs, self.blobs), threshold=100)
        self.committer = Committer(cast(Any, self.store), values=self.values)
        self.committer.start()

    def save(self, run: HeldRun, name: str, value: str) -> asyncio.Future[BaseException | None]:
        answer: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        record = Record(CallId("", name, 1), "step", StepState.COMPLETED, 1, "d", "[]", value, None, NOW, NOW)
        self.committer.save(run, rules.record_step(run, record), answer.set_result)
        return answer

    @property
    def names(self) -> list[str]:
        return [decision.records[0].call.name for decision in self.store.saved]

    async def close(self) -> None:
        await self.committer.close()
        await self.values.close()


def held(run_id: str) -> HeldRun:
    place = ("t", "w", 1, "workflow", "q", 1, 1, WorkerId("me"), "{}", 0, False, 1, 0, 0, 0, NOW)
    return HeldRun(RunId(run_id), *place)


async def test_a_large_value_is_put_away_before_its_row_is_saved():
    desk = Desk()
    answer = desk.save(held("a"), "large", "x" * 101)
    await desk.blobs.asked.wait()
    assert desk.store.saved == []
    desk.blobs.gate.set()
    assert await answer is None
    (record,) = desk.store.saved[0].records
    assert is_reference(record.value)
    await desk.close()


async def test_decisions_of_a_run_stay_in_order_and_others_do_not_wait():
    desk, run = Desk(), held("a")
    behind = [desk.save(run, "first", "x" * 101), desk.save(run, "second", "1"), desk.save(run, "third", "y" * 101)]
    assert await desk.save(held("b"), "other", "1") is None
    assert desk.names == ["other"]
    desk.blobs.gate.set()
    assert await asyncio.gather(*behind) == [None] * 3
    assert desk.names == ["other", "first", "second", "third"]
    assert await desk.save(run, "fourth", "1") is None
    await desk.close()


async def test_what_waits_is_given_up_with_the_lease():
    desk, run = Desk(), held("a")
    answers = [desk.save(run, "first", "x" * 101), desk.save(run, "second", "1")]
    await desk.blobs.asked.wait()
    desk.committer.abandon(LeaseLost("gone"))
    assert [type(answer) for answer in await asyncio.gather(*answers)] == [LeaseLost] * 2
    desk.blobs.gate.set()
    await desk.close()
    assert desk.store.saved == []


async def test_a_blob_store_that_is_away_is_given_up_without_a_lease_and_tried_again_with_the_next():
    desk, run = Desk(), held("a")
    desk.blobs.is_away = True
    desk.blobs.gate.set()
    desk.committer.abandon(LeaseLost("gone"))
    assert isinstance(await desk.save(run, "first", "x" * 101), LeaseLost)
    desk.committer.resume()
    answer = desk.save(run, "second", "x" * 101)
    desk.blobs.asked.clear()
    await desk.blobs.asked.wait()
    desk.blobs.is_away = False
    assert await answer is None
    await desk.close()


async def test_closing_saves_what_is_on_its_way():
    desk = Desk()
    answer = desk.save(held("a"), "large", "x" * 101)
    await desk.blobs.asked.wait()
    asyncio.get_running_loop().call_soon(desk.blobs.gate.set)
    await desk.close()
    assert await answer is None
    assert desk.names == ["large"]
