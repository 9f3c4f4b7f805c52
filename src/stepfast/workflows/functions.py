"""Workflows written as plain functions."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
from asyncio import events
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from stepfast.kernel.definitions import code_of
from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import InvalidDefinition, WrongCall
from stepfast.kernel.numbers import check_priority
from stepfast.kernel.retry import Retry, check_retry
from stepfast.kernel.texts import check_text, shown
from stepfast.workflows.bodies import StepBody, current_step
from stepfast.workflows.branches import ask_blocking, thread_branch
from stepfast.workflows.child_calls import ChildKind, ChildrenCall
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.handles import Starter
from stepfast.workflows.joins import ONE
from stepfast.workflows.limits import check_limit
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.made_threads import refuse_in_made_thread
from stepfast.workflows.registry import DEFINED
from stepfast.workflows.steps import (
    Durable,
    ask_durably,
    check_function,
    check_name,
    name_for,
    refuse_aio_in_thread,
    refuse_aio_of_async,
    refuse_blocking_in_async,
    refuse_sync_in_async,
    refuse_sync_of_def,
    refuse_unrecorded,
    steps_seen_by,
    unwrapped,
)

if TYPE_CHECKING:
    from stepfast.workflows.inputs import AssetsOf

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_QUEUE = "default"


class Workflow:
    """What a workflow is, apart from how it is called: name and version, its function, the types around it."""

    kind = "function"
    digest: str | None = None
    """Of its definition, where that is data: what its runs are pinned to."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        version: int,
        queue: str | None,
        priority: int,
        timeout_ms: int | None = None,
        retry: Retry | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.version = version
        self.queue = DEFAULT_QUEUE if queue is None else check_text("The queue of a workflow", queue)
        self.priority = check_priority(f"The priority of workflow {name!r}", priority)
        self.timeout_ms = timeout_ms
        self.retry = check_retry(f"workflow {name!r}", retry)
        self.is_async = inspect.iscoroutinefunction(function)
        self.arguments = ArgumentsCodec(function, f"workflow {name!r}")
        self.result = ValueCodec.for_result(function, f"the result of workflow {name!r}")

    @property
    def finds_inputs(self) -> bool:
        """Whether some of its inputs are found when a run starts, and so must be looked up before."""
        return False

    async def look_up(self, args: tuple[Any, ...], keywords: dict[str, Any], assets: AssetsOf) -> dict[str, Any]:
        """The arguments of a start, with what was found in the place of what was asked for."""
        return self.arguments.bind(args, keywords)

    def given_text(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """What a caller gave, whatever was found for it: by this a start with a key is known again."""
        return self.arguments.encode(self.arguments.bind(args, keywords))

    @property
    def code(self) -> str:
        """What a worker must have to execute it."""
        return code_of(self.name, self.version, self.digest)

    @property
    def place(self) -> str:
        """Where it is written, for messages to people."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def visible_steps(self) -> Iterator[StepBody]:
        """The steps that its function names."""
        return steps_seen_by(self.function)

    def __repr__(self) -> str:
        return f"<workflow {self.code} of {self.place}>"


class AsyncWorkflow(Durable, Generic[P, T]):
    """A workflow written as `async def`."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        functools.update_wrapper(cast(Callable[..., Any], self), workflow.function)

    def __repr__(self) -> str:
        return repr(self.workflow)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        loop = events._get_running_loop()
        if isinstance(loop, RunLoop):
            return ask_durably(loop, _one_child(self.workflow, args, kwargs))
        if loop is None and thread_branch() is not None:
            name = self.workflow.name
            raise WrongCall(f"Workflow {name!r} is async: in a `def` workflow call {name}.sync(...).")
        _refuse_in_step(self.workflow.name)
        refuse_unrecorded(self.workflow.name)
        return cast(Coroutine[Any, Any, T], self.workflow.function(*args, **kwargs))

    def sync(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it as a child of a `def` workflow, and wait for its result."""
        refuse_sync_in_async(self.workflow.name)
        return cast(T, _child_blocking(self.workflow, args, kwargs))

    # Type checkers refuse it as an attribute that is not there.
    if not TYPE_CHECKING:

        def aio(self, /, *args: Any, **kwargs: Any) -> None:
            """The form of a `def` workflow: names the right one."""
            _refuse_in_step(self.workflow.name)
            refuse_aio_of_async(self.workflow.name)

    @property
    def start(self) -> Starter[P, T]:
        """Start it as a child and go on: `child = await checkout.start(order)`, then `await child`."""
        return Starter(child_kind(self.workflow))

    def run(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it durably on the default app, and wait for its result."""
        return cast(T, run_blocking(self.workflow, args, kwargs))


class SyncWorkflow(Durable, Generic[P, T]):
    """A workflow written as `def`; it runs in a thread."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        functools.update_wrapper(cast(Callable[..., Any], self), workflow.function)

    def __repr__(self) -> str:
        return repr(self.workflow)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        refuse_blocking_in_async(self.workflow.name)
        if thread_branch() is not None:
            return cast(T, _child_blocking(self.workflow, args, kwargs))
        _refuse_in_step(self.workflow.name)
        refuse_in_made_thread(self.workflow.name)
        return cast(T, self.workflow.function(*args, **kwargs))

    def aio(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Run it as a child of an `async def` workflow."""
        loop = events._get_running_loop()
        if isinstance(loop, RunLoop):
            return ask_durably(loop, _one_child(self.workflow, args, kwargs))
        refuse_aio_in_thread(self.workflow.name)
        _refuse_in_step(self.workflow.name)
        refuse_unrecorded(self.workflow.name)
        return asyncio.to_thread(self.workflow.function, *args, **kwargs)

    # Type checkers refuse it as an attribute that is not there.
    if not TYPE_CHECKING:

        def sync(self, /, *args: Any, **kwargs: Any) -> None:
            """The form of an async workflow: names the right one."""
            _refuse_in_step(self.workflow.name)
            refuse_sync_of_def(self.workflow.name)

    @property
    def start(self) -> Starter[P, T]:
        """Start it as a child and go on: `child = await checkout.start(order)`, then `await child`."""
        return Starter(child_kind(self.workflow))

    def run(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it durably on the default app, and wait for its result."""
        return cast(T, run_blocking(self.workflow, args, kwargs))


def child_kind(workflow: Workflow) -> ChildKind:
    """A workflow as what children are runs of."""
    return ChildKind(
        "workflow",
        workflow.name,
        workflow.version,
        workflow.code,
        workflow.queue,
        workflow.priority,
        workflow.arguments,
        workflow.result,
        workflow.timeout_ms,
        workflow.digest,
    )


def _one_child(workflow: Workflow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ChildrenCall:
    child = child_kind(workflow)
    return ChildrenCall(child, [child.input_of(args, kwargs)], ONE)


def _child_blocking(workflow: Workflow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    branch = thread_branch()
    if branch is None:
        _refuse_in_step(workflow.name)
        refuse_in_made_thread(workflow.name)
        return asyncio.run(workflow.function(*args, **kwargs))
    return ask_blocking(branch, _one_child(workflow, args, kwargs))


def _refuse_in_step(name: str) -> None:
    """A step is done in one piece: called there as the plain function, a child would be no run of its own."""
    if current_step.get(None) is not None:
        raise WrongCall(
            f"Workflow {name!r} was called in a step's body, which cannot wait for a child. "
            f"Call it in the code of the workflow, or start a run with `await app.start({name}, ...)`."
        )


def run_blocking(workflow: Workflow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a workflow on the default app, which the application above brings along."""
    _refuse_run(workflow)
    runner: Callable[..., Any] = importlib.import_module(DEFAULT_APP).run_on_default_app
    return runner(workflow, args, kwargs)


def _refuse_run(workflow: Workflow) -> None:
    """A run of its own would block the loop that runs here, and workflow code would start another on every replay."""
    name, loop = workflow.name, events._get_running_loop()
    if isinstance(loop, RunLoop) or (loop is None and thread_branch() is not None):
        right = _as_child(workflow, is_async=loop is not None)
        raise WrongCall(f"{name}.run(...) blocks, and was called in the code of a workflow: {right}.")
    if loop is not None:
        raise WrongCall(f"{name}.run(...) blocks: in async code use `await app.start({name}, ...)`.")


def _as_child(workflow: Workflow, is_async: bool) -> str:
    """The form of a call that makes it a child; graphs have none in functions."""
    name = workflow.name
    if workflow.kind != Workflow.kind:
        return f"use `await app.start({name}, ...)` in a function marked @step"
    if is_async:
        return f"write `await {name}(...)`" if workflow.is_async else f"write `await {name}.aio(...)`"
    return f"call {name}.sync(...)" if workflow.is_async else f"call {name}(...)"


# By name, for this layer must not know the one that wires it.
DEFAULT_APP = "stepfast.app"


@overload
def workflow(function: Callable[P, Coroutine[Any, Any, T]], /) -> AsyncWorkflow[P, T]: ...


@overload
def workflow(function: Callable[P, T], /) -> SyncWorkflow[P, T]: ...


@overload
def workflow(
    *,
    name: str | None = None,
    version: int = 1,
    queue: str | None = None,
    priority: int = 0,
    timeout: Duration | None = None,
    retry: Retry | None = None,
) -> WorkflowDecorator: ...


def workflow(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: int = 1,
    queue: str | None = None,
    priority: int = 0,
    timeout: Duration | None = None,
    retry: Retry | None = None,
) -> Any:
    """Make a function a workflow: each of its runs survives crashes, restarts and deploys.

    `timeout` is the time that a run has to end, from when it is due; `retry` says how often a run whose code raised is
    tried again, without the failures that it raised.
    """
    timeout_ms = check_limit("The timeout of a workflow", timeout)
    decorator = WorkflowDecorator(name, version, queue, priority, timeout_ms, retry)
    return decorator if function is None else decorator(function)


class WorkflowDecorator:
    """`@workflow(...)` with options."""

    def __init__(
        self,
        name: str | None,
        version: int,
        queue: str | None,
        priority: int,
        timeout_ms: int | None = None,
        retry: Retry | None = None,
    ) -> None:
        self._name, self._version, self._queue, self._priority = name, version, queue, priority
        self._timeout_ms, self._retry = timeout_ms, retry

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> AsyncWorkflow[P, T]: ...

    @overload
    def __call__(self, function: Callable[P, T]) -> SyncWorkflow[P, T]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        function = unwrapped(function)
        check_function("Workflow", self._name, function)
        name = check_name("Workflow", name_for(function, self._name), function)
        version = _check_version(name, self._version)
        line = (self._queue, self._priority)
        definition = Workflow(function, name, version, *line, self._timeout_ms, self._retry)
        wrapped: Any = AsyncWorkflow(definition) if definition.is_async else SyncWorkflow(definition)
        DEFINED.add(definition)
        return wrapped


MAX_VERSION = 2**31 - 1
VERSIONS = f"use a whole number from 1 to {MAX_VERSION:,}"


def _check_version(name: str, version: object) -> int:
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= MAX_VERSION:
        raise InvalidDefinition(f"Workflow {name!r} has version {shown(version)}: {VERSIONS}.")
    return version


class Bindable(Protocol):
    """What becomes a workflow in an app, with what it names and does not bring along: a graph, a template."""

    @property
    def identity(self) -> Hashable:
        """What tells it from others: an app makes one workflow of those that are the same."""
        ...

    def bound(
        self, executors: Callable[[str], Any], workflows: Callable[[str, int | None, str], Workflow]
    ) -> Workflow: ...

    def queued(self) -> Sequence[Any]:
        """The executors that it brings along whose calls are runs of their own."""
        ...


class HasWorkflow(Protocol):
    """What stands for a workflow without being a function: a graph."""

    @property
    def workflow(self) -> Workflow: ...


AnyWorkflow = AsyncWorkflow[..., Any] | SyncWorkflow[..., Any] | Workflow | HasWorkflow
