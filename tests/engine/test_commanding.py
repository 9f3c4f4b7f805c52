"""Commands that are given one by one while others are under way share a transaction, and each has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from stepfast.engine.commanding import Commander
from stepfast.kernel.commands import Cancel, Changed, Request
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, StepfastError, StoreUnavailable
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState
from tests.support.turns import turn


class Answering:
    """A store that notes what comes together; run `ended` refuses, and nothing works while it is away."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.is_away = False

    async def change(self, requests: Sequence[Request]) -> list[Changed | StepfastError]:
        self.batches.append([request.run_id for request in requests])
        await turn()
        if self.is_away:
            raise StoreUnavailable("away")
        if any(request.run_id == "damaged" for request in requests):
            raise ValueError("a row that cannot be read")
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Changed | StepfastError:
        if request.run_id == "ended":
            return IllegalMove("It has ended.")
        return Changed(request.run_id, RunState.CANCELLED, 1, "default", Instant(1))


def cancel(run_id: str) -> list[Request]:
    return [Request(RunId(run_id), Cancel())]


async def test_what_comes_while_one_is_under_way_shares_the_next_and_each_hears_its_own() -> None:
    store = Answering()
    commander = Commander(cast(Any, store))
    commander.start()
    names = ["a", "b", "ended", "c"]
    answers = await asyncio.gather(*(commander.change(cancel(name)) for name in names))
    await commander.close()
    assert [name for batch in store.batches for name in batch] == names
    assert len(store.batches) < len(names)
    assert [isinstance(answer, IllegalMove) for (answer,) in answers] == [False, False, True, False]


async def test_those_given_together_are_one_transaction_of_their_own() -> None:
    store = Answering()
    commander = Commander(cast(Any, store))
    commander.start()
    await commander.change([*cancel("a"), *cancel("b")])
    await commander.close()
    assert store.batches == [["a", "b"]]


async def test_a_store_that_is_away_is_told_to_everybody_and_tried_again_for_the_next() -> None:
    store = Answering()
    commander = Commander(cast(Any, store))
    commander.start()
    store.is_away = True
    answers = await asyncio.gather(*(commander.change(cancel(name)) for name in "ab"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
    store.is_away = False
    [answer] = await commander.change(cancel("c"))
    await commander.close()
    assert isinstance(answer, Changed)


async def test_after_the_end_nobody_waits_for_ever() -> None:
    store = Answering()
    commander = Commander(cast(Any, store))
    commander.start()
    await commander.close()
    store.is_away = True
    with pytest.raises(StoreUnavailable):
        await commander.change(cancel("a"))


async def test_one_whose_row_cannot_be_read_costs_the_others_nothing() -> None:
    store = Answering()
    commander = Commander(cast(Any, store))
    commander.start()
    names = ["a", "b", "damaged", "c"]
    answers = await asyncio.gather(*(commander.change(cancel(name)) for name in names), return_exceptions=True)
    await commander.close()
    assert [isinstance(answer, ValueError) for answer in answers] == [False, False, True, False]
