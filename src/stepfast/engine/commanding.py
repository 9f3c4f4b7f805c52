"""Commands of a process: those that are given one by one while others are under way share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from stepfast.engine.grouping import Grouper
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Store

Answer = Changed | StepfastError


class Order(NamedTuple):
    """A command on its way into the store, and who waits for its answer."""

    request: Request
    answer: asyncio.Future[Answer]


class Commander:
    """Has commands carried out, and answers each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._group = Grouper[Order](self._carry_out, lambda order: 0)
        self._is_open = False

    def start(self) -> None:
        """Begin to carry out what is ordered."""
        self._is_open = True
        self._group.start()

    async def close(self) -> None:
        """Carry out what was ordered, then stop."""
        self._is_open = False
        await self._group.close()

    async def change(self, requests: Sequence[Request]) -> list[Answer]:
        """Carry out commands; several that are given together are one transaction."""
        if len(requests) != 1 or not self._is_open:
            return await self._store.change(requests) if requests else []
        (request,) = requests
        order = Order(request, asyncio.get_running_loop().create_future())
        self._group.add(order)
        return [await order.answer]

    async def _carry_out(self, batch: list[Order]) -> None:
        try:
            answers = await self._store.change([order.request for order in batch])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for those who wait, and the next go on
            await self._answer_for(batch, error)
            return
        for order, answer in zip(batch, answers, strict=True):
            if not order.answer.done():
                order.answer.set_result(answer)

    async def _answer_for(self, batch: list[Order], error: Exception) -> None:
        """A store that is away is so for all; a row that cannot be read is the trouble of one, and found alone."""
        if len(batch) > 1 and not isinstance(error, StepfastError):
            for order in batch:
                await self._carry_out([order])
            return
        for order in batch:
            if not order.answer.done():
                order.answer.set_exception(error)
