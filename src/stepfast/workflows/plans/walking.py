"""Walking a block of steps: each begins as soon as what it waits for has ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from stepfast.workflows.branches import Branch
from stepfast.workflows.combining import call_off
from stepfast.workflows.failures import handled_calls
from stepfast.workflows.loop import BranchTask, RunLoop, current_branch_of
from stepfast.workflows.plans.ordering import Order
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import PlanStep

Perform = Callable[[PlanStep, Place], Coroutine[Any, Any, None]]


def begin(loop: RunLoop, code: Coroutine[Any, Any, Any], path: str, like: Branch | None = None) -> BranchTask:
    """Run code of a plan beside the present task; its durable calls have the path that the plan gives them."""
    branch = like
    if branch is None:
        parent = current_branch_of(loop)
        handles = handled_calls(sys.exception(), parent.handles)
        branch = Branch(parent.context, path, handles)
    return loop.begin(code, branch)


class BlockWalk:
    """One walk through a block, from its first steps to the end of all, or to the first failure that ends it."""

    def __init__(self, loop: RunLoop, order: Order, place: Place, perform: Perform) -> None:
        self._loop = loop
        self._order = order
        self._place = place
        self._perform = perform
        self._waits = dict(order.waits)
        self._left = len(order.steps)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._parent = current_branch_of(loop)
        self._handles = handled_calls(sys.exception(), self._parent.handles)

    async def walk(self) -> None:
        """Perform every step; raises the failure of the first that fails the block, when the others are called off."""
        if not self._left:
            return
        for step_id in self._order.first:
            self._begin(step_id)
        try:
            await self._ended
        finally:
            await call_off(self._tasks)

    def _begin(self, step_id: str) -> None:
        self._tasks.add(self._loop.begin(self._work(step_id), self._branch()))

    def _branch(self) -> Branch:
        return Branch(self._parent.context, self._place.path, self._handles)

    async def _work(self, step_id: str | None) -> None:
        """Perform a step, then one of those that waited for it, and so on: a task for each would cost more than it."""
        task = asyncio.current_task()
        assert isinstance(task, BranchTask)
        try:
            while step_id is not None:
                await self._perform(self._order.steps[step_id], self._place)
                step_id = self._go_on_from(step_id)
                task.branch = self._branch()
        except asyncio.CancelledError:
            self._ended.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised by whoever walks the block
            if not self._ended.done():
                self._ended.set_exception(error)
        finally:
            self._tasks.discard(task)

    def _go_on_from(self, step_id: str) -> str | None:
        """Begin what waited for a step, but for the first, which is the answer."""
        self._left -= 1
        free = [each for each in self._order.followers[step_id] if self._is_free(each)]
        for follower in free[1:]:
            self._begin(follower)
        if not self._left and not self._ended.done():
            self._ended.set_result(None)
        return free[0] if free else None

    def _is_free(self, step_id: str) -> bool:
        self._waits[step_id] -= 1
        return not self._waits[step_id]
