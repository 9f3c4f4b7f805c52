"""Starting runs: many callers at once share commits; each is answered after its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepfast.engine.grouping import Grouper
from stepfast.engine.swapping import slim_start
from stepfast.engine.values import Values
from stepfast.kernel.decisions import NewRun, Started
from stepfast.kernel.errors import KeyInProgress, KeyReused, RowsRefused, StepfastError, StoreUnavailable
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.ports import Store

MAX_WAITING = 10_000
DEADLINE_S = 30.0


@dataclass(slots=True)
class Order:
    """A caller's new run, and where its answer goes."""

    run: NewRun
    answer: asyncio.Future[Birth]


class Birth(NamedTuple):
    """The answer to a start, and who holds the run if it was born leased."""

    started: Started
    holder: WorkerId | None


class Starter:
    """Stores new runs in grouped commits; `holder_for` names the worker that may take so many of a queue at birth."""

    def __init__(
        self, store: Store, holder_for: Callable[[str, int], WorkerId | None], values: Values | None = None
    ) -> None:
        self._store = store
        self._values = values
        self._holder_for = holder_for
        self._group = Grouper(self._commit, lambda order: len(order.run.input))

    def open(self) -> None:
        self._group.start()

    async def close(self) -> None:
        await self._group.close()

    async def put_away(self, page: Sequence[NewRun | StepfastError]) -> list[NewRun | StepfastError]:
        """A page of starts whose large inputs are in the blob store; an error in the place of what it did not take."""
        return [run if isinstance(run, StepfastError) else await self._slimmed(run) for run in page]

    async def _slimmed(self, run: NewRun) -> NewRun | StepfastError:
        try:
            return run if self._values is None else await slim_start(self._values, run)
        except StepfastError as error:
            return error

    async def start_page(self, runs: Sequence[NewRun]) -> list[Started | StepfastError]:
        """Store a page of runs in one commit; where some are refused for their data, the others are stored without."""
        if not runs:
            return []
        try:
            return list(await self._store.start(runs, None))
        except (KeyInProgress, KeyReused, RowsRefused) as refused:
            if len(runs) == 1:
                return [refused]
            middle = len(runs) // 2
            return [*await self.start_page(runs[:middle]), *await self.start_page(runs[middle:])]
        except StepfastError as error:
            return [error for _ in runs]

    async def start(self, run: NewRun) -> Birth:
        """Store one run; refused with E-STORE-001 when too many wait or the store does not answer in time."""
        if len(self._group) >= MAX_WAITING:
            raise StoreUnavailable(f"{MAX_WAITING:,} starts already wait for the store. Try again later.")
        answer: asyncio.Future[Birth] = asyncio.get_running_loop().create_future()
        try:
            # Not `wait_for`, which before Python 3.12 forgets a cancellation that comes together with the answer.
            async with asyncio.timeout(DEADLINE_S):
                slimmed = run if self._values is None else await slim_start(self._values, run)
                self._group.add(Order(slimmed, answer))
                return await answer
        except TimeoutError:
            raise StoreUnavailable(
                f"The start of run {run.run_id} was not confirmed within {DEADLINE_S:.0f} s. It may still have been "
                f"stored: start it again with the same key= to be sure that it runs once."
            ) from None

    async def _commit(self, batch: list[Order]) -> None:
        wanted = [order for order in batch if not order.answer.done()]
        if not wanted:
            # A store that is away takes its time to say so, and others wait behind this.
            return
        holder = self._common_holder(wanted)
        try:
            answers = await self._store.start([order.run for order in wanted], holder)
        except (KeyInProgress, KeyReused, RowsRefused) as refused:
            await self._one_by_one(wanted, refused)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the callers, and the loop goes on
            _answer_all(wanted, error)
        else:
            for order, started in zip(wanted, answers, strict=True):
                if not order.answer.done():
                    order.answer.set_result(Birth(started, holder))

    def _common_holder(self, batch: list[Order]) -> WorkerId | None:
        """The worker that may take every run of the batch at its birth, if there is one."""
        queues = Counter(order.run.queue for order in batch)
        holders = {self._holder_for(queue, number) for queue, number in queues.items()}
        return holders.pop() if len(holders) == 1 else None

    async def _one_by_one(self, batch: list[Order], refused: Exception) -> None:
        """One caller's bad start must not refuse the others that share its commit."""
        if len(batch) == 1:
            _answer_all(batch, refused)
            return
        for order in batch:
            await self._commit([order])


def _answer_all(batch: list[Order], error: Exception) -> None:
    for order in batch:
        if not order.answer.done():
            order.answer.set_exception(error)
