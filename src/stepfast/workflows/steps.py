"""Steps: plain functions whose calls inside a run are durable."""

from __future__ import annotations

import asyncio
import functools
import inspect
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from types import CellType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, cast, overload

from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import InvalidDefinition, WrongCall
from stepfast.kernel.retry import Retry
from stepfast.kernel.texts import MAX_NAME, MAX_NAME_BYTES, check_text, is_name, shown
from stepfast.workflows.bodies import Key, StepBody
from stepfast.workflows.branches import ask_blocking, thread_branch
from stepfast.workflows.calls import Operation
from stepfast.workflows.child_calls import ChildKind, ChildrenCall
from stepfast.workflows.joins import ONE
from stepfast.workflows.limits import Limits, check_limit
from stepfast.workflows.loop import RunLoop, current_branch_of
from stepfast.workflows.made_threads import refuse_in_made_thread
from stepfast.workflows.policies import StepPolicy
from stepfast.workflows.registry import DEFINED_STEPS
from stepfast.workflows.step_calls import StepCall

P = ParamSpec("P")
T = TypeVar("T")


class Durable:
    """What a function becomes by being marked as a step or a workflow."""


class AsyncStep(Durable, Generic[P, T]):
    """A step written as `async def`."""

    alone: StepAlone

    def __init__(self, body: StepBody) -> None:
        self.body = body
        functools.update_wrapper(cast(Callable[..., Any], self), body.function)

    def __repr__(self) -> str:
        return repr(self.body)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        loop = events._get_running_loop()
        if isinstance(loop, RunLoop):
            return ask_durably(loop, operation_of(self.body, args, kwargs), self.body)
        if loop is None and thread_branch() is not None:
            raise WrongCall(f"Step {self.body.name!r} is async: in a `def` workflow call {self.body.name}.sync(...).")
        refuse_unrecorded(self.body.name)
        return cast(Coroutine[Any, Any, T], self.body.function(*args, **kwargs))

    def sync(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it from a `def` workflow."""
        refuse_sync_in_async(self.body.name)
        branch = thread_branch()
        if branch is not None:
            branch.context.know(self.body)
            return cast(T, ask_blocking(branch, operation_of(self.body, args, kwargs)))
        refuse_in_made_thread(self.body.name)
        return cast(T, asyncio.run(self.body.function(*args, **kwargs)))

    # Type checkers refuse it as an attribute that is not there.
    if not TYPE_CHECKING:

        def aio(self, /, *args: Any, **kwargs: Any) -> None:
            """The form of a `def` step: names the right one."""
            refuse_aio_of_async(self.body.name)


class SyncStep(Durable, Generic[P, T]):
    """A step written as `def`; its body runs in a thread."""

    alone: StepAlone

    def __init__(self, body: StepBody) -> None:
        self.body = body
        functools.update_wrapper(cast(Callable[..., Any], self), body.function)

    def __repr__(self) -> str:
        return repr(self.body)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        refuse_blocking_in_async(self.body.name)
        branch = thread_branch()
        if branch is not None:
            branch.context.know(self.body)
            return cast(T, ask_blocking(branch, operation_of(self.body, args, kwargs)))
        refuse_in_made_thread(self.body.name)
        return cast(T, self.body.function(*args, **kwargs))

    def aio(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Call it from an `async def` workflow."""
        loop = events._get_running_loop()
        if isinstance(loop, RunLoop):
            return ask_durably(loop, operation_of(self.body, args, kwargs), self.body)
        refuse_aio_in_thread(self.body.name)
        refuse_unrecorded(self.body.name)
        return asyncio.to_thread(self.body.function, *args, **kwargs)

    # Type checkers refuse it as an attribute that is not there.
    if not TYPE_CHECKING:

        def sync(self, /, *args: Any, **kwargs: Any) -> None:
            """The form of an async step: names the right one."""
            refuse_sync_of_def(self.body.name)


def steps_seen_by(function: Callable[..., Any]) -> Iterator[StepBody]:
    """The steps that a function names in its own code, as far as it can be told without calling anything."""
    plain: Any = inspect.unwrap(function)
    names: tuple[str, ...] = getattr(getattr(plain, "__code__", None), "co_names", ())
    enclosed = [cell.cell_contents for cell in getattr(plain, "__closure__", None) or () if not _is_empty(cell)]
    for value in (*(plain.__globals__.get(name) for name in names), *enclosed):
        # Objects may do anything when they are asked for an attribute or their class.
        if issubclass(type(value), AsyncStep | SyncStep):
            yield value.body


def _is_empty(cell: CellType) -> bool:
    """Whether a name of the code around is not bound yet."""
    try:
        cell.cell_contents  # noqa: B018 - that it raises is the answer
    except ValueError:
        return True
    return False


def operation_of(body: StepBody, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Operation:
    """What a call of a step does: its body here, or a run of its own where the step has a queue."""
    if body.queue is None:
        return StepCall(body, args, kwargs)
    child = step_kind(body)
    return ChildrenCall(child, [child.input_of(args, kwargs)], ONE)


def step_kind(body: StepBody) -> ChildKind:
    """A step with a queue of its own as what children are runs of."""
    return ChildKind("step", body.name, 0, body.name, body.queue, 0, body.arguments, body.result)


def spread_kind(body: StepBody) -> ChildKind:
    """A step without a queue as what children are runs of: in their parent's queue, for workers with its code."""
    # Whoever takes one up finds the step by its name.
    DEFINED_STEPS.only(body.name)
    return ChildKind("step", body.name, 0, None, None, 0, body.arguments, body.result)


class StepAlone:
    """A step as what a worker executes: a run whose code is that one call."""

    is_async = True
    # Attempts and time are the step's own affair, within its run.
    timeout_ms: int | None = None
    retry: Retry | None = None
    executor: Any = None
    """What it is called by name as, once somebody has asked; kept here, so that both go together."""

    def __init__(self, body: StepBody) -> None:
        self.name = self.code = body.name
        self.version = 0
        self.queue = body.queue or ""
        self.arguments = body.arguments
        self.result = body.result
        self.place = f"{body.function.__module__}.{body.function.__qualname__}"
        self.body = body

    async def function(self, /, *args: Any, **kwargs: Any) -> Any:
        loop = events._get_running_loop()
        assert isinstance(loop, RunLoop)
        policy = StepPolicy.read(current_branch_of(loop).context.run.metadata)
        body = policy.governing(self.body)
        if body.apart is not None:
            return await body.apart.perform(loop, body, args, kwargs)
        return await ask_durably(loop, StepCall(body, args, kwargs))


async def ask_durably(loop: RunLoop, operation: Operation, body: StepBody | None = None) -> Any:
    """A durable call of an async workflow; its place is that of the task which awaits it.

    `body` is that of the step that the code calls, if it calls one by its function.
    """
    branch = current_branch_of(loop)
    answer = loop.create_answer()
    try:
        branch.context.ask(branch, operation, answer, body)
    except BaseException:
        # Code that swallows Parked in a loop must not keep the worker: each turn of it costs a callback.
        await asyncio.sleep(0)
        raise
    return await answer


def know_step(body: StepBody) -> None:
    """Tell the run whose code runs here of a step that it is about to call; it refuses another of that name."""
    loop = events._get_running_loop()
    if isinstance(loop, RunLoop):
        current_branch_of(loop).context.know(body)


def refuse_blocking_in_async(name: str) -> None:
    """A blocking call in an async workflow would stop the whole worker."""
    if isinstance(events._get_running_loop(), RunLoop):
        raise WrongCall(f"{name!r} blocks: in an `async def` workflow write `await {name}.aio(...)`.")


def refuse_sync_in_async(name: str) -> None:
    """The blocking form of an async function, where an event loop runs: a workflow's, or any other."""
    loop = events._get_running_loop()
    if loop is not None:
        where = "an `async def` workflow" if isinstance(loop, RunLoop) else "async code"
        raise WrongCall(f"{name}.sync(...) blocks: in {where} write `await {name}(...)`.")


def refuse_unrecorded(name: str) -> None:
    """An awaitable call beside the run: in an event loop that a `def` workflow has made itself, or a thread."""
    if thread_branch() is not None:
        raise WrongCall(
            f"{name!r} was called in an event loop that a `def` workflow has started, where no call is recorded. "
            "Call it in the workflow itself, or make the workflow `async def`."
        )
    refuse_in_made_thread(name)


def refuse_aio_in_thread(name: str) -> None:
    """The awaitable form of a `def` function, where nobody can await it."""
    if events._get_running_loop() is None and thread_branch() is not None:
        raise WrongCall(f"{name}.aio(...) must be awaited: in a `def` workflow call {name}(...).")


def refuse_aio_of_async(name: str) -> NoReturn:
    """A form that only `def` functions have."""
    is_async = events._get_running_loop() is not None
    right = f"write `await {name}(...)`" if is_async else f"call {name}.sync(...)"
    raise WrongCall(f"{name!r} is async and has no `aio`: {right}.")


def refuse_sync_of_def(name: str) -> NoReturn:
    """A form that only async functions have."""
    is_async = events._get_running_loop() is not None
    right = f"write `await {name}.aio(...)`" if is_async else f"call {name}(...)"
    raise WrongCall(f"{name!r} is no async function and has no `sync`: {right}.")


@overload
def step(function: Callable[P, Coroutine[Any, Any, T]], /) -> AsyncStep[P, T]: ...


@overload
def step(function: Callable[P, T], /) -> SyncStep[P, T]: ...


@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    total_timeout: Duration | None = None,
    key: Key | None = None,
    queue: str | None = None,
) -> StepDecorator: ...


def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    total_timeout: Duration | None = None,
    key: Key | None = None,
    queue: str | None = None,
) -> Any:
    """Make a function a step: inside a run each call is recorded once and never run again.

    `timeout` is the time for each attempt, `total_timeout` for all of them. With a `queue` of its own each call is a
    run of its own, which any worker that serves the queue takes.
    """
    attempt_ms = check_limit("The timeout of a step", timeout)
    total_ms = check_limit("The total_timeout of a step", total_timeout)
    decorator = StepDecorator(name, retry, Limits(attempt_ms, total_ms), key, queue)
    return decorator if function is None else decorator(function)


class StepDecorator:
    """`@step(...)` with options."""

    def __init__(
        self, name: str | None, retry: Retry | None, limits: Limits, key: Key | None, queue: str | None
    ) -> None:
        self._name, self._retry, self._limits, self._key = name, retry, limits, key
        self._queue = None if queue is None else check_text("The queue of a step", queue)

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> AsyncStep[P, T]: ...

    @overload
    def __call__(self, function: Callable[P, T]) -> SyncStep[P, T]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        wrapped = self.wrap(function)
        DEFINED_STEPS.add(wrapped.alone)
        return wrapped

    def wrap(self, function: Callable[..., Any]) -> Any:
        """The step, known to nobody yet."""
        function = unwrapped(function)
        check_function("Step", self._name, function)
        name = check_name("Step", name_for(function, self._name), function)
        body = StepBody(function, name, self._retry, self._key, self._queue, self._limits)
        wrapped: Any = AsyncStep(body) if body.is_async else SyncStep(body)
        wrapped.alone = StepAlone(body)
        return wrapped


def unwrapped(function: Any) -> Any:
    """The function in a `staticmethod`, which in itself is never async."""
    return function.__func__ if isinstance(function, staticmethod) else function


def check_function(what: str, given: str | None, function: Any) -> None:
    """Refuse what can be called, but is not found by the place where it is written, and methods."""
    if not callable(function):
        return
    kind = type(function).__qualname__
    name = given or getattr(function, "__name__", kind)
    if isinstance(function, Durable):
        raise InvalidDefinition(f"{what} {name!r} is made of {function!r}. Mark the function itself, and only once.")
    if isinstance(function, type):
        raise InvalidDefinition(f"{what} {name!r} is a class and no function. Wrap it in a function.")
    # The method of a class that is written in C has no module of its own.
    if not hasattr(function, "__qualname__") or getattr(function, "__module__", None) is None:
        raise InvalidDefinition(f"{what} {name!r} is an object ({kind}) and no function. Wrap it in a function.")
    around, _, _ = function.__qualname__.rpartition(".")
    # A method that is bound has its object; it does not ask for one any more.
    first = next(iter(inspect.signature(function).parameters), "") if inspect.isfunction(function) else ""
    if first in ("self", "cls") and around and not around.endswith("<locals>"):
        raise InvalidDefinition(
            f"{what} {name!r} is a method of {around.rpartition('.')[2]}, which has no object to work on in a later "
            f"process. Make it a function outside of the class, and give it what it needs."
        )


def name_for(function: object, given: str | None) -> str:
    """The name that was given, or else the function's own; an empty one was given, and is refused like others."""
    return str(getattr(function, "__name__", "")) if given is None else given


def check_name(what: str, name: object, function: object) -> str:
    """Names go into keys, events and addresses: printable, and none of the characters that addresses are made of."""
    if not callable(function) or inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidDefinition(f"{what} {name or function!r} must be a plain `def` or `async def` function.")
    if not isinstance(name, str) or not _is_usable(name):
        raise InvalidDefinition(
            f"{what} name {shown(name)} cannot be used: give name=... with 1 to {MAX_NAME} printable characters of "
            f"at most {MAX_NAME_BYTES} bytes, none of them a space, '/', '#' or '@'."
        )
    return name


def _is_usable(name: str) -> bool:
    return is_name(name) and not set(name) & set("/#@ ") and name != "<lambda>"
