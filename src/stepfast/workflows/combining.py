"""Several durable calls at once: over items, against each other, against time."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, Never, TypeVar, overload

from stepfast.kernel.durations import Duration, span_ms, told_span
from stepfast.kernel.errors import Invalid, StepFailed, WaitTimeout, WrongCall
from stepfast.kernel.numbers import is_count
from stepfast.kernel.texts import shown
from stepfast.workflows.bodies import Later, as_meant, current_step
from stepfast.workflows.branches import Deadline, ThreadCode, thread_code
from stepfast.workflows.child_calls import ChildKind, PageCall
from stepfast.workflows.failures import mark_beside
from stepfast.workflows.functions import AsyncWorkflow, SyncWorkflow, child_kind
from stepfast.workflows.group_calls import joined
from stepfast.workflows.joins import Join, JoinSpec, Outcome, Tally, join_of
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.steps import AsyncStep, SyncStep, know_step, spread_kind, step_kind
from stepfast.workflows.wait_calls import SleepCall
from stepfast.workflows.waiting import ask

# With `at_once` children are started in so many groups side by side: the next begins when one of them has ended. With
# more of them a slow child keeps fewer places empty, and their parent is claimed more often.
GROUPS_AT_ONCE = 8

T = TypeVar("T")

Function = (
    AsyncStep[..., T]
    | SyncStep[..., T]
    | AsyncWorkflow[..., T]
    | SyncWorkflow[..., T]
    | Callable[[Any], Coroutine[Any, Any, T]]
)

Items = Iterable[Any]
Outcomes = Mapping[int, Outcome[Any]]


class Each:
    """Call a step or a workflow for every item, at most `at_once` at a time, until the join is decided.

    "all" gives the results in the items' order and raises the first failure, "any" the first result, a number or a
    percentage so many results, "settled" an `Outcome` for every item. For a workflow, for a step with a queue of its
    own, and with `spread`, each item is a run of its own, which any worker may take.

    `await each(score, clauses)` in an `async def` workflow, `each.sync(score, clauses)` in a `def` workflow.
    """

    @overload
    def __call__(
        self,
        function: Function[T],
        items: Items,
        at_once: int | None = None,
        join: Literal["all"] = "all",
        spread: bool = False,
    ) -> Coroutine[Any, Any, list[T]]: ...

    @overload
    def __call__(
        self,
        function: Function[T],
        items: Items,
        at_once: int | None = None,
        *,
        join: Literal["settled"],
        spread: bool = False,
    ) -> Coroutine[Any, Any, list[Outcome[T]]]: ...

    @overload
    def __call__(
        self,
        function: Function[T],
        items: Items,
        at_once: int | None = None,
        *,
        join: Literal["any"],
        spread: bool = False,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def __call__(
        self, function: Function[T], items: Items, at_once: int | None = None, *, join: int, spread: bool = False
    ) -> Coroutine[Any, Any, list[T]]: ...

    @overload
    def __call__(
        self, function: Function[T], items: Items, at_once: int | None = None, *, join: str, spread: bool = False
    ) -> Coroutine[Any, Any, Any]: ...

    def __call__(
        self,
        function: Any,
        items: Items,
        at_once: int | None = None,
        join: JoinSpec = "all",
        spread: bool = False,
    ) -> Coroutine[Any, Any, Any]:
        _refuse_in_thread("each")
        _refuse_in_step("each")
        return _each(function, items, at_once, join, spread)

    @overload
    def sync(
        self,
        function: Function[T],
        items: Items,
        at_once: int | None = None,
        join: Literal["all"] = "all",
        spread: bool = False,
    ) -> list[T]: ...

    @overload
    def sync(
        self,
        function: Function[T],
        items: Items,
        at_once: int | None = None,
        *,
        join: Literal["settled"],
        spread: bool = False,
    ) -> list[Outcome[T]]: ...

    @overload
    def sync(
        self,
        function: Function[T],
        items: Items,
        at_once: int | None = None,
        *,
        join: Literal["any"],
        spread: bool = False,
    ) -> T: ...

    @overload
    def sync(
        self, function: Function[T], items: Items, at_once: int | None = None, *, join: int, spread: bool = False
    ) -> list[T]: ...

    @overload
    def sync(
        self, function: Function[T], items: Items, at_once: int | None = None, *, join: str, spread: bool = False
    ) -> Any: ...

    def sync(
        self,
        function: Any,
        items: Items,
        at_once: int | None = None,
        join: JoinSpec = "all",
        spread: bool = False,
    ) -> Any:
        """The same in a `def` workflow: blocks until the join is decided."""
        return _thread_for("each").run(partial(_each, function, items, at_once, join, spread))


each = Each()


async def _each(function: Any, items: Items, at_once: int | None, spec: JoinSpec, spread: bool) -> Any:
    given = list(_iterated(items))
    if at_once is not None and not is_count(at_once):
        raise Invalid(f"at_once is {shown(at_once)}; it must be a whole number from 1 on.")
    join = join_of(spec, len(given))
    if not given:
        return []
    child = _child_of(function, spread)
    if child is None:
        calls = [partial(_one, _call_of(function), index, item) for index, item in enumerate(given)]
        return await _until_decided(calls, at_once or len(calls), join)
    inputs = [child.input_of((item,), {}) for item in given]
    if at_once is None or at_once >= len(inputs):
        return await joined(child, inputs, join)
    return await _in_pages(child, inputs, at_once, join)


def _iterated(items: Items) -> Iterator[Any]:
    try:
        return iter(items)
    except TypeError:
        # Also for what can be iterated only by `async for`: when its items come would differ from replay to replay.
        raise Invalid(f"each() takes a list of items, or another iterable; {shown(items)} is none.") from None


def _child_of(function: Any, spread: bool) -> ChildKind | None:
    """What each item is a run of; None: each is called in this run."""
    if isinstance(function, AsyncWorkflow | SyncWorkflow):
        return child_kind(function.workflow)
    if isinstance(function, AsyncStep | SyncStep):
        # Here once for all items: it is no failure of theirs that a join could bear.
        know_step(function.body)
        if function.body.queue is not None:
            return step_kind(function.body)
        return spread_kind(function.body) if spread else None
    if spread:
        raise Invalid(f"each(..., spread=True) takes a step or a workflow; {function!r} is neither. Mark it @step.")
    return None


def _call_of(function: Any) -> Callable[[Any], Awaitable[Any]]:
    if not callable(function):
        raise Invalid(f"each() takes a step, a workflow or an `async def` function; {function!r} is none of them.")
    call: Callable[[Any], Awaitable[Any]] = function.aio if isinstance(function, SyncStep) else function
    return call


async def _one(call: Callable[[Any], Awaitable[Any]], index: int, item: Any) -> Outcomes:
    try:
        return {index: Outcome(True, await _awaitable(call(item)))}
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        error = StepFailed(f"The code for item {index} was cancelled from inside.", type_name="CancelledError")
        return {index: Outcome(False, error=error)}
    except Exception as error:
        if isinstance(as_meant(error), Later):
            # It is no failure of the item: the run is put off.
            raise
        return {index: Outcome(False, error=error)}


def _awaitable(called: Any) -> Awaitable[Any]:
    if inspect.isawaitable(called):
        return called
    kind = type(called).__name__
    raise WrongCall(
        "each(...) takes a step, a workflow or an `async def` function; "
        f"the one it was given answers with {kind}, which cannot be awaited. Mark it @step."
    )


async def _in_pages(child: ChildKind, inputs: Sequence[str], at_once: int, join: Join) -> Any:
    size = max(1, at_once // GROUPS_AT_ONCE)
    starts = range(0, len(inputs), size)
    calls = [PageCall(child, page := inputs[start : start + size], join.of_page(len(page))) for start in starts]
    pages = [partial(_page, call, start) for call, start in zip(calls, starts, strict=True)]
    try:
        return await _until_decided(pages, at_once // size, join)
    except Exception as error:
        # Those that were called off when they had just failed too would fail a retry before it has begun.
        mark_beside(error, [call.failed_as for call in calls if call.failed_as is not None])
        raise


async def _page(call: PageCall, start: int) -> Outcomes:
    outcomes = await ask("each", call)
    return {start + index: outcome for index, outcome in outcomes.items()}


async def _until_decided(calls: Sequence[Callable[[], Awaitable[Outcomes]]], at_once: int, join: Join) -> Any:
    tally, room = Tally(join), asyncio.Semaphore(at_once)
    decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def perform(call: Callable[[], Awaitable[Outcomes]]) -> None:
        async with room:
            tally.add(await call())
        if tally.is_decided and not decided.done():
            decided.set_result(None)

    def performed(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not decided.done():
            decided.set_exception(error)

    tasks = [asyncio.ensure_future(perform(call)) for call in calls]
    for task in tasks:
        task.add_done_callback(performed)
    try:
        await decided
    finally:
        await call_off(tasks)
    return tally.result()


async def call_off(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what is not needed any more, and wait until it has tidied up: code behind it may rely on that.

    Also, a run that ends drops whatever is still under way, and a `finally` would be left out.
    """
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)


class Race:
    """The first of several durable calls to end: its name and its value; the others are called off.

    `await race(paid=receive("paid"), late=sleep("24h"))` in an `async def` workflow; in a `def` workflow the calls are
    made by the race itself: `race.sync(paid=lambda: receive("paid"), late=lambda: sleep("24h"))`.
    """

    def __call__(self, *unnamed: Never, **calls: Awaitable[Any]) -> Coroutine[Any, Any, tuple[str, Any]]:
        try:
            _refuse_in_thread("race")
            _refuse_in_step("race")
            _refuse_unnamed(unnamed, "race(paid=receive('paid'), late=sleep('24h'))")
        except WrongCall:
            _close([*unnamed, *calls.values()])
            raise
        return _race(calls)

    def sync(self, *unnamed: Never, **calls: Callable[[], Awaitable[Any]]) -> tuple[str, Any]:
        """The same in a `def` workflow: blocks until one has ended."""

        _refuse_unnamed(unnamed, "race.sync(paid=lambda: receive('paid'), late=lambda: sleep('24h'))")
        for name, call in calls.items():
            if not callable(call):
                raise WrongCall(f"race.sync({name}=...) takes a function without arguments; write {name}=lambda: ...")

        async def race() -> tuple[str, Any]:
            return await _race({name: call() for name, call in calls.items()})

        winner: tuple[str, Any] = _thread_for("race").run(race)
        return winner


race = Race()


async def _race(calls: Mapping[str, Awaitable[Any]]) -> tuple[str, Any]:
    if not calls:
        raise Invalid("race() needs at least one call, as in race(paid=receive('paid'), late=sleep('24h')).")
    _refuse_unawaitable(calls)
    tasks = {asyncio.ensure_future(call): name for name, call in calls.items()}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await call_off(tasks)
    first = next(task for task in tasks if task in done)
    return tasks[first], first.result()


def _refuse_unawaitable(calls: Mapping[str, object]) -> None:
    wrong = next((name for name, call in calls.items() if not inspect.isawaitable(call)), None)
    if wrong is None:
        return
    _close(calls.values())
    kind = type(calls[wrong]).__name__
    raise WrongCall(
        f"race({wrong}=...) takes a call, as in race({wrong}=sleep('24h')); what it was given is of type {kind}."
    )


def _refuse_unnamed(calls: Sequence[object], form: str) -> None:
    if calls:
        raise WrongCall(f"race takes each call under a name, by which it tells the first: write {form}.")


def _close(calls: Iterable[object]) -> None:
    """Let go of calls that will not be made; else Python warns that nobody has awaited them."""
    for call in calls:
        if inspect.iscoroutine(call):
            call.close()


class Timeout:
    """Calls off what is inside when it takes longer; raises WaitTimeout."""

    def __init__(self, duration: Duration) -> None:
        self._duration = duration
        self._span_ms = span_ms(duration, "The duration of timeout")
        self._deadline: Deadline | None = None
        self._timer: asyncio.Future[None] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._is_over = False

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._timer = asyncio.ensure_future(ask("timeout", SleepCall(self._span_ms)))
        self._timer.add_done_callback(self._expire)
        try:
            # The time starts here: the limit is set before what is inside, as in a `def` workflow.
            await asyncio.sleep(0)
        except BaseException:
            self._timer.cancel()
            raise

    def _expire(self, timer: asyncio.Future[None]) -> None:
        if self._task is not None and not timer.cancelled() and timer.exception() is None:
            self._is_over = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        assert task is not None
        assert self._timer is not None
        self._timer.cancel()
        if self._is_over and task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise self._error() from None

    def __enter__(self) -> None:
        if isinstance(events._get_running_loop(), RunLoop):
            raise WrongCall("In an `async def` workflow write `async with timeout(...)`.")
        self._deadline = _thread_for("timeout").within(SleepCall(self._span_ms))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._deadline is not None
        if self._deadline.end() and isinstance(error, asyncio.CancelledError):
            raise self._error() from None

    def _error(self) -> WaitTimeout:
        return WaitTimeout(f"What was to be done within {told_span(self._duration)} took longer.")


def timeout(duration: Duration) -> Timeout:
    """Call off what is inside when it takes longer, durably: the time counts from the first entry, over every park.

    `async with timeout("5m"):` in an `async def` workflow, `with timeout("5m"):` in a `def` workflow.
    """
    return Timeout(duration)


def _refuse_in_thread(name: str) -> None:
    if events._get_running_loop() is None and thread_code() is not None:
        raise WrongCall(f"{name}(...) is for `async def` workflows: in a `def` workflow call {name}.sync(...).")


def _refuse_in_step(name: str) -> None:
    """A step is done in one piece: calls that are combined there would have no records of their own."""
    if not isinstance(events._get_running_loop(), RunLoop) and current_step.get(None) is not None:
        raise WrongCall(f"{name}(...) was called in a step's body; call it in the code of the workflow.")


def _thread_for(name: str) -> ThreadCode:
    loop, thread = events._get_running_loop(), thread_code()
    if isinstance(loop, RunLoop):
        raise WrongCall(f"{name}.sync(...) blocks: in an `async def` workflow write `await {name}(...)`.")
    if loop is not None or thread is None:
        raise WrongCall(f"{name}.sync(...) was called outside the code of a `def` workflow.")
    return thread
