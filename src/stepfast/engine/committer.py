"""The committer: the decisions of all runs of a process, saved together, each answered after its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from stepfast.engine.grouping import Grouper
from stepfast.engine.keeping import Keeper
from stepfast.engine.swapping import size_of
from stepfast.engine.values import Values
from stepfast.kernel import rules
from stepfast.kernel.decisions import Decision, HeldRun, Joins
from stepfast.kernel.errors import LeaseLost, RowsRefused, StepfastError, StoreUnavailable
from stepfast.kernel.events import Event
from stepfast.kernel.exchange import Saving, Woken
from stepfast.kernel.ports import Store
from stepfast.log import Log

log = Log("committer")

Answered = Callable[[BaseException | None], None]

RIDER_DELAY_S = 0.05
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


@dataclass(slots=True)
class Item:
    """A decision on its way into the store."""

    run: HeldRun
    decision: Decision
    answered: Answered
    size: int
    riders: int = 0


class Committer:
    """Saves the decisions of a process in grouped commits; implements the kernel's Recorder.

    `saved` hears of every decision that has been committed, after whoever decided it.
    """

    def __init__(
        self,
        store: Store,
        saved: Callable[[HeldRun, Decision], None] = lambda run, decision: None,
        values: Values | None = None,
    ) -> None:
        self._store = store
        self._saved = saved
        self._keeper = None if values is None else Keeper[Item](values, self._enter, _answer)
        self._group = Grouper(self._commit, attrgetter("size"), attrgetter("run"))
        self._riding: set[HeldRun] = set()
        self._riding_longer: set[HeldRun] = set()
        self._rider_timer: asyncio.TimerHandle | None = None
        self._abandoned: LeaseLost | None = None
        self._home: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        # Workflow code that tells something runs in a loop of its own, which has no timers.
        self._home = asyncio.get_running_loop()
        self._group.start()
        if self._keeper is not None:
            self._keeper.start()

    async def close(self) -> None:
        """Save what is left, then stop."""
        if self._rider_timer is not None:
            self._rider_timer.cancel()
        if self._keeper is not None:
            await self._keeper.close()
        await self._group.close()

    def save(self, run: HeldRun, decision: Decision, answered: Answered) -> None:
        """Save with the next commit; `answered` gets None, or the error that kept it from being saved."""
        item = Item(run, decision, answered, size_of(decision))
        if self._keeper is None or not self._keeper.takes(item):
            self._enter(item)

    def _enter(self, item: Item) -> None:
        if item.run.riders:
            _board_riders(item)
        self._group.add(item)

    def ride(self, run: HeldRun, event: Event) -> None:
        """Send an event along with the run's next commit, or in a short while by itself."""
        run.riders.append(event)
        self._riding.add(run)
        if self._rider_timer is None:
            self._flush_riders_later()

    def abandon(self, reason: LeaseLost) -> None:
        """The lease is over: what no commit could save by now is given up, also the batch that is being retried."""
        self._abandoned = reason
        if self._keeper is not None:
            self._keeper.abandon(reason)
        for item in self._group.take_all():
            _answer(item, reason)

    def resume(self) -> None:
        """A new lease: commits are tried again."""
        self._abandoned = None
        if self._keeper is not None:
            self._keeper.resume()

    def _flush_riders_later(self) -> None:
        # In two halves: what has only just begun to ride nearly always goes along with something else very soon.
        assert self._home is not None
        self._rider_timer = self._home.call_later(RIDER_DELAY_S / 2, self._flush_riders)

    def _flush_riders(self) -> None:
        self._rider_timer = None
        due, self._riding_longer, self._riding = self._riding_longer, self._riding, set()
        for run in due:
            if run.riders:
                self.save(run, rules.flush_riders(run), _ignore)
        if self._riding_longer:
            self._flush_riders_later()

    async def _commit(self, batch: list[Item]) -> None:
        for item in batch:
            _number(item)
        try:
            savings = await self._save_until_answered([item.decision for item in batch])
        except RowsRefused as refused:
            await self._halve(batch, refused)
        except StepfastError as error:
            _answer_all(batch, error)
        except Exception as error:
            log.exception("commit_failed", runs=len(batch))
            _answer_all(batch, error)
        else:
            self._answer_each(batch, savings)

    def _answer_each(self, batch: list[Item], savings: list[Saving]) -> None:
        """Answer in order; what stood behind a park that did not take place was written by nobody, and comes again."""
        woken: set[HeldRun] = set()
        behind: list[Item] = []
        for item, saving in zip(batch, savings, strict=True):
            if saving is Saving.SAVED:
                _answer(item, None)
                self._saved(item.run, item.decision)
                continue
            if saving is Saving.LOST and item.run in woken:
                behind.append(item)
                continue
            if saving is Saving.WOKEN:
                woken.add(item.run)
            _answer(item, _error_of(item, saving))
        for item in behind:
            _board_riders(item)
        self._group.put_back(behind)

    async def _save_until_answered(self, decisions: list[Decision]) -> list[Saving]:
        """A broken connection does not say whether the commit took place: ask again with the same numbers."""
        pause_s, again = FIRST_PAUSE_S, False
        while True:
            try:
                return await self._store.save(decisions, again)
            except StoreUnavailable as error:
                if self._abandoned is not None:
                    raise self._abandoned from error
                log.warning("store_away", error=error, decisions=len(decisions))
            await asyncio.sleep(pause_s)
            pause_s, again = min(pause_s * 2, LONGEST_PAUSE_S), True

    async def _halve(self, batch: list[Item], refused: RowsRefused) -> None:
        """The store refuses the batch for its data: find the culprit, save all others."""
        for item in reversed(batch):
            _take_numbers_back(item)
        if len(batch) == 1:
            _unboard_riders(batch[0])
            _answer(batch[0], refused)
            return
        middle = len(batch) // 2
        await self._commit(batch[:middle])
        await self._commit(batch[middle:])


def _board_riders(item: Item) -> None:
    run = item.run
    item.riders += len(run.riders)
    item.decision.events = (*run.riders, *item.decision.events)
    run.riders = []


def _unboard_riders(item: Item) -> None:
    item.run.riders[:0] = item.decision.events[: item.riders]


def _number(item: Item) -> None:
    run, decision = item.run, item.decision
    if decision.opened:
        _move_waits(decision, run.last_seq + 1 - decision.first_seq)
    decision.first_seq = run.last_seq + 1
    decision.first_event = run.last_event + 1
    run.last_seq += len(decision.records)
    run.last_event += len(decision.events)


def _move_waits(decision: Decision, by: int) -> None:
    """A wait bears the number of the record that opens it, and the children that it joins name it by that."""
    decision.opened = [
        wait if wait.is_numbered else wait._replace(wait_id=_moved(wait.wait_id, by)) for wait in decision.opened
    ]
    decision.children = [child._replace(joins=_moved_joins(child.joins, by)) for child in decision.children]
    decision.reviews = [review._replace(wait_id=_moved(review.wait_id, by)) for review in decision.reviews]


def _moved(wait_id: int, by: int) -> int:
    return wait_id if wait_id < 0 else wait_id + by


def _moved_joins(joins: Joins | None, by: int) -> Joins | None:
    return None if joins is None else Joins(joins.parent_id, _moved(joins.wait_id, by))


def _take_numbers_back(item: Item) -> None:
    item.run.last_seq = item.decision.first_seq - 1
    item.run.last_event = item.decision.first_event - 1


def _error_of(item: Item, saving: Saving) -> BaseException:
    if saving is Saving.WOKEN:
        _take_numbers_back(item)
        _unboard_riders(item)
        return Woken(f"Run {item.run.run_id} has been woken.")
    # Which of the two it was the store does not say: it wrote nothing.
    meanwhile = "a command has ended or moved it, or another worker has it"
    return LeaseLost(f"Run {item.run.run_id} is no longer held with token {item.run.token}: {meanwhile}.")


def _answer(item: Item, error: BaseException | None) -> None:
    """Tell whoever decided; a mistake on their side must not end the commits of all others."""
    try:
        item.answered(error)
    except Exception:
        log.exception("answer_failed", run_id=item.run.run_id, tenant=item.run.tenant)


def _answer_all(batch: list[Item], error: BaseException) -> None:
    for item in batch:
        _answer(item, error)


def _ignore(error: BaseException | None) -> None:
    """A rider that found its run gone has nobody to tell."""
