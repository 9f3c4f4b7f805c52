"""Fan-out of a plan: one step for many items, or branches side by side, until their join is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown
from stepfast.workflows.child_calls import PageCall
from stepfast.workflows.combining import call_off
from stepfast.workflows.joins import Join
from stepfast.workflows.loop import RunLoop, current_branch_of
from stepfast.workflows.plans.frame import as_json
from stepfast.workflows.plans.joining import Tally, join_of
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import Each, Parallel, PlanStep, Use
from stepfast.workflows.plans.walking import begin
from stepfast.workflows.steps import ask_durably

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter

# Above so many, items wait for their turn: no row, message or loop holds them all.
PAGE = 1_000

Work = Callable[[int], Coroutine[Any, Any, None]]


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
        join = join_of(each.join, len(items))
        tally = Tally(join)
        if self._is_spread:
            await self._spread(each, items, tally)
        else:
            await self._inline(each, items, keys, tally)
        tally.check(f"Step {self._step.id} over {len(items)} items")
        await self._interpreter.verbs.note(self._step.id, tally.summary())
        return tally.output(keys)

    @property
    def _is_spread(self) -> bool:
        """Whether items are nothing but runs elsewhere; one with something around it is walked here, by itself."""
        step = self._step
        around = (step.loop, step.before, step.after, step.policies, step.catch)
        is_elsewhere = step.queue is not None and isinstance(step.verb, Use)
        return is_elsewhere and not any(around) and not self._interpreter.frame.is_dry

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

    async def _inline(self, each: Each, items: Sequence[Any], keys: list[str], tally: Tally) -> None:
        interpreter, step, place = self._interpreter, self._step, self._place
        sees = interpreter.frame.orders.sees(step)

        async def work(index: int) -> None:
            path = place.path_of(step.id, keys[index])
            names = {each.name: items[index], "item": items[index]}
            inner = place.inside((place.path, step.id), path, names, sees)
            try:
                output = await begin(interpreter.loop, interpreter.item_handled(step, inner), path)
            except Exception as error:  # noqa: BLE001 - the join decides what an item's failure means
                tally.errors[index] = error
            else:
                tally.outputs[index] = output
                interpreter.note_undo(step, inner, output)

        await self._until_decided(work, len(items), min(each.at_once or PAGE, PAGE), tally, each.join.on_extra)

    async def _spread(self, each: Each, items: Sequence[Any], tally: Tally) -> None:
        """Each item is a run of its own in the step's queue; they are started and joined page by page."""
        step, place = self._step, self._place
        assert isinstance(step.verb, Use)
        child = self._interpreter.frame.child(step, step.verb)
        config = self._interpreter.config.get(step.id, {})
        size = min(each.at_once or PAGE, PAGE)
        starts = range(0, len(items), size)

        def input_of(item: Any) -> str:
            names = {**place.names, each.name: item, "item": item}
            assert isinstance(step.verb, Use)
            return self._interpreter.frame.child_input(step.verb, child, names, config)

        async def work(page: int) -> None:
            start = starts[page]
            inputs = [input_of(item) for item in items[start : start + size]]
            join = tally.join.of_page(len(inputs)) if tally.join.need <= tally.join.total else _all_settled(len(inputs))
            call = PageCall(child, inputs, join)
            call.name = step.id
            path = place.path_of(step.id, f"page{page}")
            outcomes = await begin(self._interpreter.loop, ask_durably(self._interpreter.loop, call), path)
            for index, outcome in outcomes.items():
                if outcome.ok:
                    tally.outputs[start + index] = outcome.value
                else:
                    tally.errors[start + index] = outcome.error

        at_once = 1 if each.at_once is not None else len(starts)
        await self._until_decided(work, len(starts), at_once, tally, each.join.on_extra)

    async def parallel(self, verb: Parallel, part: str) -> dict[str, Any]:
        """Branches side by side; what each gives by its id."""
        step, branches = self._step, verb.branches
        tally = Tally(join_of(verb.join, len(branches)))
        inner = self._interpreter.inner_place(step, self._place, part)

        async def work(index: int) -> None:
            branch = branches[index]
            try:
                await begin(self._interpreter.loop, self._interpreter.perform(branch, inner), inner.path)
            except Exception as error:  # noqa: BLE001 - the join decides what a branch's failure means
                inner.failed(branch.id, error)
                tally.errors[index] = error
            else:
                tally.outputs[index] = inner.output_of(branch.id)

        await self._until_decided(work, len(branches), len(branches), tally, verb.join.on_extra)
        self._place.steps.update(inner.steps)
        tally.check(f"Step {step.id} with {len(branches)} branches")
        given = {branch.id: as_json(tally.outputs[i]) for i, branch in enumerate(branches) if i in tally.outputs}
        told = tally.output([branch.id for branch in branches])
        await self._interpreter.verbs.note(step.id, tally.summary())
        return {**told, "results": given}

    async def _until_decided(self, work: Work, count: int, at_once: int, tally: Tally, on_extra: str) -> None:
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
        if on_extra == "cancel":
            await call_off(crew.tasks)


class Crew:
    """Tasks for so many items, some at a time: when one has ended the next begins, until the join is decided."""

    def __init__(self, loop: RunLoop, work: Work, count: int, tally: Tally) -> None:
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
            task = self._loop.begin(self._work(index), self._branch)
            self.tasks.add(task)
            task.add_done_callback(self._ended)

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
        else:
            self.begin(1)


def _all_settled(size: int) -> Join:
    return Join(size + 1, size, size, settles=True)
