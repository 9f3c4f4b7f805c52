"""Fan-out of a plan: one step for many items, or branches side by side, until their join is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown
from stepfast.workflows.child_calls import ChildKind, PageCall
from stepfast.workflows.combining import call_off
from stepfast.workflows.joins import Join, Outcome
from stepfast.workflows.loop import RunLoop, current_branch_of
from stepfast.workflows.plans.frame import as_json, is_bare
from stepfast.workflows.plans.gates import is_marked
from stepfast.workflows.plans.joining import PlanTally, join_of
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import Each, JoinRule, Parallel, PlanStep, Use
from stepfast.workflows.plans.walking import begin
from stepfast.workflows.steps import ask_durably

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter

# Above so many, items wait for their turn: no row, message or loop holds them all.
PAGE = 1_000

Work = Callable[[int, "Crew"], Coroutine[Any, Any, None]]


class Fan:
    """Several at once for one step of a run."""

    def __init__(self, interpreter: Interpreter, step: PlanStep, place: Place) -> None:
        self._interpreter = interpreter
        self._step = step
        self._place = place

    async def each(self, each: Each) -> dict[str, Any]:
        """One step for every item; `{results, failed, cancelled}` in the items' order."""
        items = self._items(each)
        keys = self._keys(each, items)
        tally = PlanTally(join_of(each.join, len(items)))
        many = Many(each, items, [self._place.path_of(self._step.id, key) for key in keys], tally)
        child = await self._child()
        await (self._inline(many) if child is None else self._spread(many, child))
        if is_bare(self._step) and child is None:
            self._count_recorded([CallId(path, self._step.id, 1) for path in many.paths], tally)
        return await self._given(f"Step {self._step.id} over {len(items)} items", keys, tally, each.join)

    async def _given(self, what: str, keys: list[str], tally: PlanTally, join: JoinRule) -> dict[str, Any]:
        tally.check(what)
        left_alone = join.on_extra == "ignore"
        await self._interpreter.verbs.note(self._step.id, tally.summary(left_alone))
        return tally.output(keys, left_alone)

    async def _child(self) -> ChildKind | None:
        """What items are runs of, where they are nothing else; one with something around it is walked here."""
        step = self._step
        if not isinstance(step.verb, Use) or not is_bare(step) or step.undo or self._interpreter.frame.is_dry:
            return None
        child = await self._interpreter.verbs.child_of(step, step.verb)
        # What a transformation makes is looked at and kept item by item.
        return None if child is None or self._interpreter.frame.spec(step.verb) is not None else child

    def _items(self, each: Each) -> Sequence[Any]:
        items = each.items.evaluate(self._place.names)
        if not isinstance(items, list | tuple):
            raise Invalid(f"`each` of step {self._step.id} is {shown(items)}; it must be a list.")
        return items

    def _keys(self, each: Each, items: Sequence[Any]) -> list[str]:
        if each.key is None:
            return [str(index) for index in range(len(items))]
        names = self._place.names
        keys = [str(each.key.evaluate({**names, each.name: item, "item": item})) for item in items]
        if len(set(keys)) < len(keys):
            twice = next(key for index, key in enumerate(keys) if key in keys[:index])
            raise Invalid(f"`key` of step {self._step.id} gives {twice!r} for two items; each needs one of its own.")
        return keys

    async def _inline(self, many: Many) -> None:
        async def work(index: int, crew: Crew) -> None:
            await self._item(many, index)

        await self._until_decided(work, len(many.items), many.at_once, many.tally, many.each.join)

    async def _item(self, many: Many, index: int) -> None:
        """One item, walked here."""
        inner = self._inner(many, index)
        output = await self._counted(many, index, self._interpreter.item_handled(self._step, inner))
        if many.tally.outcomes[index].ok:
            self._interpreter.undoing.note(self._step, inner, output)

    def _inner(self, many: Many, index: int) -> Place:
        step, place = self._step, self._place
        sees = self._interpreter.frame.orders.sees(step)
        return place.inside((place.path, step.id), many.paths[index], many.names(index), sees)

    async def _counted(self, many: Many, index: int, code: Coroutine[Any, Any, Any]) -> Any:
        """What code for an item gives; whether it came to a good end is for the join to know."""
        try:
            output = await begin(self._interpreter.loop, code, many.paths[index])
        except Exception as error:  # noqa: BLE001 - the join decides what an item's failure means
            many.tally.add({index: Outcome(False, error=error)})
            return None
        many.tally.add({index: Outcome(True, output)})
        return output

    async def _spread(self, many: Many, child: ChildKind) -> None:
        """Each item is a run of its own in a queue; they are started and joined page by page."""
        tally, size = many.tally, many.at_once
        starts = range(0, len(many.items), size)

        async def work(page: int, crew: Crew) -> None:
            whole = range(starts[page], min(starts[page] + size, len(many.items)))
            outcomes = await self._page(many, child, page, whole)
            marked = {index: each.value for index, each in outcomes.items() if is_marked(each.value)}
            tally.add({index: outcome for index, outcome in outcomes.items() if index not in marked})
            if marked and not tally.is_decided:
                # The page took them for good ends, and may have called others off: those are begun again by themselves.
                left = [self._item(many, index) for index in whole if index not in outcomes]
                await crew.beside([*(self._looked_at(many, *each) for each in marked.items()), *left])

        at_once = 1 if many.each.at_once is not None else len(starts)
        await self._until_decided(work, len(starts), at_once, tally, many.each.join)

    async def _page(self, many: Many, child: ChildKind, page: int, whole: range) -> dict[int, Outcome[Any]]:
        """Start the runs of some items, and wait until their ends decide the join, or all have ended."""
        step, join = self._step, many.tally.join
        inputs = [self._input(many, child, index) for index in whole]
        call = PageCall(
            child, inputs, join.of_page(len(inputs)) if join.need <= join.total else _all_settled(len(inputs))
        )
        call.name = step.id
        path = self._place.path_of(step.id, f"page{page}")
        outcomes = await begin(self._interpreter.loop, ask_durably(self._interpreter.loop, call), path)
        return {whole[index]: outcome for index, outcome in outcomes.items()}

    def _input(self, many: Many, child: ChildKind, index: int) -> str:
        step = self._step
        assert isinstance(step.verb, Use)
        names = {**self._place.names, **many.names(index)}
        return self._interpreter.verbs.child_input(step, step.verb, child, names)

    async def _looked_at(self, many: Many, index: int, output: Any) -> None:
        """An output that its executor has marked, once a person has said what is to become of it."""
        await self._counted(many, index, self._interpreter.reviewed(self._step, self._inner(many, index), output))

    async def parallel(self, verb: Parallel, part: str) -> dict[str, Any]:
        """Branches side by side; what each gives by its id."""
        step, branches = self._step, verb.branches
        tally = PlanTally(join_of(verb.join, len(branches)))
        inner = self._interpreter.inner_place(step, self._place, part)

        async def work(index: int, crew: Crew) -> None:
            branch = branches[index]
            try:
                await begin(self._interpreter.loop, self._interpreter.perform(branch, inner), inner.path)
            except Exception as error:  # noqa: BLE001 - the join decides what a branch's failure means
                inner.failed(branch.id, error)
                tally.add({index: Outcome(False, error=error)})
            else:
                tally.add({index: Outcome(True, inner.output_of(branch.id))})

        await self._until_decided(work, len(branches), len(branches), tally, verb.join)
        self._place.steps.update(inner.steps)
        bare = [CallId(inner.path, each.id, 1) if is_bare(each) and not each.each else None for each in branches]
        self._count_recorded(bare, tally)
        ids = [branch.id for branch in branches]
        told = await self._given(f"Step {step.id} with {len(branches)} branches", ids, tally, verb.join)
        return {**told, "results": {ids[index]: as_json(each.value) for index, each in tally.ended if each.ok}}

    def _count_recorded(self, calls: Sequence[CallId | None], tally: PlanTally) -> None:
        """What had failed when it was called off, and nobody heard of any more, has failed; its record says so."""
        left = {call: index for index, call in enumerate(calls) if call is not None and index not in tally.outcomes}
        failed = self._interpreter.branch.context.failures_of(left) if left else {}
        tally.add({left[call]: Outcome(False, error=error) for call, error in failed.items()})

    async def _until_decided(self, work: Work, count: int, at_once: int, tally: PlanTally, join: JoinRule) -> None:
        """Work on all, so many at a time, until the join is decided; what is left over is called off, or left alone."""
        if tally.is_decided or not count:
            return
        crew = Crew(self._interpreter.loop, work, count, tally)
        crew.begin(at_once)
        try:
            await crew.decided
        except BaseException:
            await call_off(crew.tasks)
            raise
        if join.on_extra == "cancel":
            await call_off(crew.tasks)


@dataclass(frozen=True, slots=True)
class Many:
    """The items of one step, each with the path that its records have."""

    each: Each
    items: Sequence[Any]
    paths: list[str]
    tally: PlanTally

    @property
    def at_once(self) -> int:
        return min(self.each.at_once or PAGE, PAGE)

    def names(self, index: int) -> dict[str, Any]:
        """What formulas see of an item."""
        return {self.each.name: self.items[index], "item": self.items[index]}


class Crew:
    """Tasks for so many items, some at a time: when one has ended the next begins, until the join is decided."""

    def __init__(self, loop: RunLoop, work: Work, count: int, tally: PlanTally) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.decided: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        # The next may begin where no task is under way: in the callback of the one before.
        self._branch = current_branch_of(loop)
        self._work = work
        self._waiting = iter(range(count))
        self._tally = tally

    def begin(self, number: int) -> None:
        """Begin with so many more, if there are any left."""
        for index in islice(self._waiting, number):
            self._add(self._work(index, self)).add_done_callback(self._go_on)

    async def beside(self, codes: Sequence[Coroutine[Any, Any, None]]) -> None:
        """More for one of the items, which keeps its place meanwhile; the ends of these may decide the join too."""
        await asyncio.wait([self._add(code) for code in codes])

    def _add(self, code: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.begin(code, self._branch)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if self.decided.done():
            return
        if task.cancelled():
            self.decided.cancel()
        elif (error := task.exception()) is not None:
            self.decided.set_exception(error)
        elif self._tally.is_decided:
            self.decided.set_result(None)

    def _go_on(self, task: asyncio.Task[None]) -> None:
        if not self.decided.done():
            self.begin(1)


def _all_settled(size: int) -> Join:
    return Join(size + 1, size, size, settles=True)
