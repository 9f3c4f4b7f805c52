"""Steps: plain functions whose calls inside a run are durable."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
from asyncio import events
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload

from stepfast.kernel.decisions import CallId, HeldRun
from stepfast.kernel.errors import InvalidDefinition, StepFailed, WrongCall
from stepfast.kernel.retry import Retry
from stepfast.workflows.branches import ask_blocking, thread_branch
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.loop import RunLoop, current_branch_of

P = ParamSpec("P")
T = TypeVar("T")

Key = str | Sequence[str] | Callable[..., object]


class StepInfo(NamedTuple):
    """Where a step's body runs: for what run, as which call, and which try it is."""

    run: HeldRun
    call: CallId
    attempt: int


current_step: contextvars.ContextVar[StepInfo] = contextvars.ContextVar("stepfast_step")


class StepBody:
    """What a step is, apart from how it is called: its function, the types around it, and its policies."""

    def __init__(self, function: Callable[..., Any], name: str, retry: Retry | None, key: Key | None) -> None:
        self.function = function
        self.name = name
        self.retry = retry
        self.is_async = inspect.iscoroutinefunction(function)
        self.arguments = ArgumentsCodec(function, f"step {name!r}")
        self.result = ValueCodec.for_result(function, f"the result of step {name!r}")
        self._key = _key_function(key)

    async def invoke(self, arguments: dict[str, Any], info: StepInfo, threads: Executor) -> Any:
        """Run the body: a coroutine here, a plain function in a thread."""
        current_step.set(info)
        if self.is_async:
            return await self.arguments.apply(self.function, arguments)
        call = functools.partial(contextvars.copy_context().run, self._in_thread, arguments)
        return await asyncio.get_running_loop().run_in_executor(threads, call)

    def _in_thread(self, arguments: dict[str, Any]) -> Any:
        try:
            return self.arguments.apply(self.function, arguments)
        except KeyboardInterrupt as error:
            # Python interrupts the main thread only, so this one is the step's own and must not end the worker.
            raise StepFailed(f"Step {self.name!r} raised KeyboardInterrupt.", type_name="KeyboardInterrupt") from error

    def counted_input(self, arguments: dict[str, Any], text: str) -> str:
        """The part of a call's input that must be the same on replay."""
        return text if self._key is None else json.dumps(self._key(arguments), default=str, sort_keys=True)

    def count_stored_input(self, stored: str) -> str:
        """The same part of an input that was stored earlier, read through today's types."""
        arguments = self.arguments.decode(stored)
        return self.counted_input(arguments, self.arguments.encode(arguments))


def _key_function(key: Key | None) -> Callable[[dict[str, Any]], object] | None:
    if key is None:
        return None
    if callable(key):
        return lambda arguments: key(**arguments)
    names = [key] if isinstance(key, str) else list(key)
    return lambda arguments: [str(arguments[name]) for name in names]


class AsyncStep(Generic[P, T]):
    """A step written as `async def`."""

    def __init__(self, body: StepBody) -> None:
        self.body = body
        functools.update_wrapper(cast(Callable[..., Any], self), body.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        loop = events._get_running_loop()
        if isinstance(loop, RunLoop):
            return call_durably(loop, self.body, args, kwargs)
        if loop is None and thread_branch() is not None:
            raise WrongCall(f"Step {self.body.name!r} is async: in a `def` workflow call {self.body.name}.sync(...).")
        return cast(Coroutine[Any, Any, T], self.body.function(*args, **kwargs))

    def sync(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it from a `def` workflow."""
        refuse_blocking_in_async(self.body.name)
        branch = thread_branch()
        if branch is not None:
            return cast(T, ask_blocking(branch, self.body, args, kwargs))
        return cast(T, asyncio.run(self.body.function(*args, **kwargs)))


class SyncStep(Generic[P, T]):
    """A step written as `def`; its body runs in a thread."""

    def __init__(self, body: StepBody) -> None:
        self.body = body
        functools.update_wrapper(cast(Callable[..., Any], self), body.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        refuse_blocking_in_async(self.body.name)
        branch = thread_branch()
        if branch is not None:
            return cast(T, ask_blocking(branch, self.body, args, kwargs))
        return cast(T, self.body.function(*args, **kwargs))

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Call it from an `async def` workflow."""
        loop = events._get_running_loop()
        if isinstance(loop, RunLoop):
            return call_durably(loop, self.body, args, kwargs)
        return asyncio.to_thread(self.body.function, *args, **kwargs)


async def call_durably(loop: RunLoop, body: StepBody, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A durable call of an async workflow; its place is that of the task which awaits it."""
    branch = current_branch_of(loop)
    answer = loop.create_answer()
    branch.context.ask(branch, body, args, kwargs, answer)
    return await answer


def refuse_blocking_in_async(name: str) -> None:
    """A blocking call in an async workflow would stop the whole worker."""
    if isinstance(events._get_running_loop(), RunLoop):
        raise WrongCall(f"{name!r} blocks: in an `async def` workflow write `await {name}.aio(...)`.")


@overload
def step(function: Callable[P, Coroutine[Any, Any, T]], /) -> AsyncStep[P, T]: ...


@overload
def step(function: Callable[P, T], /) -> SyncStep[P, T]: ...


@overload
def step(*, name: str | None = None, retry: Retry | None = None, key: Key | None = None) -> StepDecorator: ...


def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    key: Key | None = None,
) -> Any:
    """Make a function a step: inside a run each call is recorded once and never run again."""
    decorator = StepDecorator(name, retry, key)
    return decorator if function is None else decorator(function)


class StepDecorator:
    """`@step(...)` with options."""

    def __init__(self, name: str | None, retry: Retry | None, key: Key | None) -> None:
        self._name, self._retry, self._key = name, retry, key

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> AsyncStep[P, T]: ...

    @overload
    def __call__(self, function: Callable[P, T]) -> SyncStep[P, T]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        name = check_name("Step", self._name or getattr(function, "__name__", ""), function)
        body = StepBody(function, name, self._retry, self._key)
        return AsyncStep(body) if body.is_async else SyncStep(body)


MAX_NAME = 200


def check_name(what: str, name: object, function: object) -> str:
    """Names go into keys, events and addresses: printable, and none of the characters that addresses are made of."""
    if not callable(function) or inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidDefinition(f"{what} {name or function!r} must be a plain `def` or `async def` function.")
    if not isinstance(name, str) or not _is_usable(name):
        raise InvalidDefinition(
            f"{what} name {name!r} cannot be used: give name=... with 1 to {MAX_NAME} printable characters, "
            f"none of them a space, '/', '#' or '@'."
        )
    return name


def _is_usable(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and name.isprintable() and not set(name) & set("/#@ ") and name != "<lambda>"


AnyStep = AsyncStep[..., Any] | SyncStep[..., Any]
