"""Several durable calls at once: over items, against each other, against time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar, overload

from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import Invalid, WaitTimeout
from stepfast.workflows.child_calls import ChildKind, ChildrenCall
from stepfast.workflows.codec import ArgumentsCodec
from stepfast.workflows.functions import AsyncWorkflow, SyncWorkflow, child_kind
from stepfast.workflows.joins import Join, JoinSpec, Outcome, join_of
from stepfast.workflows.steps import AsyncStep, SyncStep, step_kind
from stepfast.workflows.waiting import ask, sleep

# What one commit starts: a row for each, and one wait for all of them.
CHILDREN_AT_ONCE = 1_000

T = TypeVar("T")

Each = (
    AsyncStep[..., T]
    | SyncStep[..., T]
    | AsyncWorkflow[..., T]
    | SyncWorkflow[..., T]
    | Callable[[Any], Coroutine[Any, Any, T]]
)


@overload
async def each(
    function: Each[T], items: Iterable[Any], at_once: int | None = None, join: Literal["all"] = "all"
) -> list[T]: ...


@overload
async def each(
    function: Each[T], items: Iterable[Any], at_once: int | None = None, *, join: Literal["settled"]
) -> list[Outcome[T]]: ...


@overload
async def each(function: Each[T], items: Iterable[Any], at_once: int | None = None, *, join: Literal["any"]) -> T: ...


@overload
async def each(function: Each[T], items: Iterable[Any], at_once: int | None = None, *, join: int) -> list[T]: ...


@overload
async def each(function: Each[T], items: Iterable[Any], at_once: int | None = None, *, join: str) -> Any: ...


async def each(
    function: Any,
    items: Iterable[Any],
    at_once: int | None = None,
    join: JoinSpec = "all",
) -> Any:
    """Call a step or a workflow for every item, at most `at_once` at a time, until the join is decided.

    "all" gives the results in the items' order and raises the first failure, "any" the first result, a number or a
    percentage so many results, "settled" an `Outcome` for every item. For a workflow, and for a step with a queue of
    its own, each item is a run of its own.
    """
    given = list(items)
    if at_once is not None and at_once < 1:
        raise Invalid(f"at_once is {at_once!r}; it must be at least 1.")
    wanted = join_of(join, len(given))
    if not given:
        return []
    if isinstance(function, AsyncWorkflow | SyncWorkflow):
        definition = function.workflow
        return await _each_as_children(child_kind(definition), definition.arguments, given, at_once, wanted)
    if isinstance(function, AsyncStep | SyncStep) and function.body.queue is not None:
        return await _each_as_children(step_kind(function.body), function.body.arguments, given, at_once, wanted)
    return await _each_inline(_call_of(function), given, at_once, wanted)


def _call_of(function: Any) -> Callable[[Any], Awaitable[Any]]:
    call: Callable[[Any], Awaitable[Any]] = function.aio if isinstance(function, SyncStep) else function
    return call


async def _each_inline(call: Callable[[Any], Awaitable[Any]], items: list[Any], at_once: int | None, join: Join) -> Any:
    room = asyncio.Semaphore(at_once or len(items))

    async def perform(item: Any) -> Any:
        async with room:
            return await call(item)

    tasks = [asyncio.ensure_future(perform(item)) for item in items]
    try:
        await _until_decided(tasks, join)
    finally:
        for task in tasks:
            task.cancel()
    return _joined(tasks, join)


async def _until_decided(tasks: Sequence[asyncio.Future[Any]], join: Join) -> None:
    waiting = set(tasks)
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in tasks if task.done()]
        good = sum(task.exception() is None for task in ended)
        if good >= join.need or len(ended) - good > join.spare:
            return


def _joined(tasks: Sequence[asyncio.Future[Any]], join: Join) -> Any:
    ended = [task for task in tasks if task.done() and not task.cancelled()]
    if join.settles:
        return [Outcome(True, task.result()) if not task.exception() else _failed(task) for task in ended]
    good = [task.result() for task in ended if task.exception() is None]
    if len(good) < join.need:
        raise next(error for task in ended if (error := task.exception()) is not None)
    return good[0] if join.single else good[: join.need]


def _failed(task: asyncio.Future[Any]) -> Outcome[Any]:
    return Outcome(False, error=task.exception())


async def _each_as_children(
    child: ChildKind, arguments: ArgumentsCodec, items: list[Any], at_once: int | None, join: Join
) -> Any:
    inputs = [arguments.restore(arguments.bind((item,), {}))[0] for item in items]
    size = min(at_once or len(items), CHILDREN_AT_ONCE)
    if len(items) <= size:
        return await ask("each", ChildrenCall(child, inputs, join))
    if not (join.settles or join.need == join.total):
        raise Invalid(f'A join of some of {len(items):,} children takes at most {size:,}; use "all" or "settled".')
    pages = [inputs[start : start + size] for start in range(0, len(inputs), size)]
    calls = [ChildrenCall(child, page, join_of("settled" if join.settles else "all", len(page))) for page in pages]
    if at_once is not None:
        return [value for call in calls for value in await ask("each", call)]
    return [value for values in await asyncio.gather(*(ask("each", call) for call in calls)) for value in values]


async def race(**calls: Awaitable[Any]) -> tuple[str, Any]:
    """The first of several durable calls to end: its name and its value; the others are called off."""
    if not calls:
        raise Invalid("race() needs at least one call, as in race(paid=receive('paid'), late=sleep('24h')).")
    tasks = {asyncio.ensure_future(call): name for name, call in calls.items()}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    first = next(task for task in tasks if task in done)
    return tasks[first], first.result()


@asynccontextmanager
async def timeout(duration: Duration) -> AsyncIterator[None]:
    """Call off what is inside when it takes longer, durably: the time counts from the first entry, over every park."""
    task = asyncio.current_task()
    assert task is not None
    expired, inside, cancelling = False, True, task.cancelling()

    def expire(timer: asyncio.Future[Any]) -> None:
        nonlocal expired
        if inside and not timer.cancelled() and timer.exception() is None:
            expired = True
            task.cancel()

    timer = asyncio.ensure_future(sleep(duration))
    timer.add_done_callback(expire)
    try:
        yield
    except BaseException as error:
        if expired and task.uncancel() <= cancelling and isinstance(error, asyncio.CancelledError):
            raise WaitTimeout(f"What was to be done within {duration} took longer.") from None
        raise
    finally:
        inside = False
        timer.cancel()
