"""What a step is, apart from how it is called."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from stepfast.kernel.asset_ports import AssetRows, Assets, Contents
from stepfast.kernel.blobs import BlobsAway
from stepfast.kernel.decisions import CallId, HeldRun
from stepfast.kernel.durations import Duration, Instant, span_ms
from stepfast.kernel.errors import InvalidDefinition, StepFailed
from stepfast.kernel.events import Event
from stepfast.kernel.retry import Retry, check_retry
from stepfast.kernel.texts import guarded, shown
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.limits import UNLIMITED, BodyThreads, Limits

Key = str | Sequence[str] | Callable[..., object]


class Guarding(Protocol):
    """Who is asked before a body reads or writes assets, and raises PolicyConflict where that is not to be."""

    def guards(self, what: Literal["read", "write"]) -> bool:
        """Whether anybody is to be asked at all."""
        ...

    async def ask(
        self,
        what: Literal["read", "write"],
        info: StepInfo,
        about: Sequence[Mapping[str, Any]],
        let: Collection[str] = (),
    ) -> None:
        """Ask about assets, as policies see them; `let` are policies that a person has decided about."""
        ...


class StorageHost(NamedTuple):
    """Where a step's body finds assets and a storage of its own; they belong to the loop of the app."""

    rows: AssetRows
    contents: Contents
    assets: Assets
    loop: asyncio.AbstractEventLoop
    callback_token: Callable[[HeldRun, CallId, Instant], str] | None = None
    """Makes the token by which outside work is told to be done."""
    policies: Guarding | None = None
    """Whoever must let bodies read and write assets."""


def unheard(event: Event) -> None:
    """Nobody follows what is told."""


class StepInfo(NamedTuple):
    """Where a step's body runs: for what run, as which call and try; and how it tells how far it has got."""

    run: HeldRun
    call: CallId
    attempt: int
    now: Callable[[], Instant]
    tell: Callable[[Event], None]
    storage: StorageHost | None = None
    notes: list[Event] | None = None
    """Facts that the body has noted, to be saved with what comes of it; None where nothing comes of it."""

    @property
    def aside(self) -> StepInfo:
        """The same for code beside the body, of which nothing comes: what it tells and notes reaches nobody."""
        return self._replace(storage=None, notes=None, tell=unheard)


class Later(Exception):
    """Raised by a step or a workflow: not now. The run is handed back with a delay, and no attempt is counted."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"later, in {delay}")
        self.delay_ms = span_ms(delay, "The delay of Later")


current_step: contextvars.ContextVar[StepInfo] = contextvars.ContextVar("stepfast_step")


class ContinueAs(BaseException):
    """The code wants to start over with other arguments. No Exception: code that catches those must not stop it."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.arguments = (args, kwargs)


def as_meant(error: BaseException) -> BaseException:
    """What code means that raised this: a group of wishes is a wish, one of wishes and failures these failures.

    A `TaskGroup` makes a group of whatever ends its block or a task of it, also of a `continue_as`, or of values that
    are out of reach for now, which is no failure either.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    # The classes of users may take groups apart in their own way.
    wishes, failures = guarded(_split_off_wishes, error) or (None, error)
    if failures is not None:
        return failures if wishes else error
    return _first_of(wishes or error)


def _split_off_wishes(error: BaseExceptionGroup) -> tuple[BaseException | None, BaseException | None]:
    parts: tuple[BaseException | None, BaseException | None] = error.split((Later, ContinueAs, BlobsAway))
    return parts


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Partial(NamedTuple):
    """What a workflow's code returns when steps of it have failed that it was told to bear: the run ends `partial`."""

    value: Any
    borne: tuple[BaseException, ...] = ()
    """The failures, as the calls gave them; a retry does those calls again, and without any all that failed."""
    notes: tuple[CallId, ...] = ()
    """The calls by which people were told of them; they go with the failures."""


class Apart(Protocol):
    """Of a body whose every call is a run of its own: the code of that run."""

    name: str

    @property
    def metadata(self) -> dict[str, Any]:
        """What is said of its runs."""
        ...

    async def perform(self, loop: Any, body: StepBody, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


class StepBody:
    """What a step is, apart from how it is called: its function, the types around it, and its policies."""

    apart: Apart | None = None

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        retry: Retry | None,
        key: Key | None,
        queue: str | None = None,
        limits: Limits = UNLIMITED,
    ) -> None:
        self.function = function
        self.name = name
        self.retry = check_retry(f"step {name!r}", retry)
        self.queue = queue
        self.limits = limits
        self.is_async = inspect.iscoroutinefunction(function)
        try:
            self.arguments = ArgumentsCodec(function, f"step {name!r}")
        except ValueError as error:
            # Some functions that are written in C do not say what they take.
            raise InvalidDefinition(f"{name!r} cannot be called by name: {error}. Wrap it in a function.") from error
        self.result = ValueCodec.for_result(function, f"the result of step {name!r}")
        self.polls: dict[str, StepBody] = {}
        """The steps by which its outside work is asked after, as far as this process has heard of them."""
        self._key = _key_function(name, key, self.arguments)
        self.is_keyed = key is not None

    def __repr__(self) -> str:
        return f"<step {self.name} of {self.function.__module__}.{self.function.__qualname__}>"

    def invoke(
        self, arguments: dict[str, Any], info: StepInfo, threads: BodyThreads, begun: Callable[[], None] | None = None
    ) -> Coroutine[Any, Any, Any]:
        """The body, to be awaited at once: a coroutine here, a plain function in a thread.

        `begun` is called when it really begins.
        """
        self.result.prepare()
        current_step.set(info)
        if not self.is_async:
            tell = begun and functools.partial(asyncio.get_running_loop().call_soon_threadsafe, begun)
            return threads.run(functools.partial(contextvars.copy_context().run, self._in_thread, arguments, tell))
        if begun is not None:
            begun()
        given = self.arguments
        body: Coroutine[Any, Any, Any]
        body = self.function(**arguments) if given.is_plain else given.apply(self.function, arguments)
        return body

    def _in_thread(self, arguments: dict[str, Any], begun: Callable[[], object] | None) -> Any:
        if begun is not None:
            begun()
        try:
            return self.arguments.apply(self.function, arguments)
        except StopIteration as error:
            # No future takes it; out of a coroutine Python itself makes it this.
            raise RuntimeError(f"Step {self.name!r} raised StopIteration") from error
        except (KeyboardInterrupt, GeneratorExit) as error:
            # Python interrupts the main thread only, and closes coroutines only: this one is the step's own, and must
            # not end the worker, nor be taken for the end of the task that waits here.
            name, said = type(error).__name__, str(error)
            told = f"{name}: {said}" if said else f"{name}."
            raise StepFailed(f"Step {self.name!r} raised {told}", type_name=name) from error

    def counted_input(self, arguments: dict[str, Any], text: str) -> str:
        """The part of a call's input that must be the same on replay."""
        return text if self._key is None else json.dumps(self._key(arguments), default=str, sort_keys=True)

    def count_stored_input(self, stored: str) -> str:
        """The same part of an input that was stored earlier, read through today's types."""
        arguments = self.arguments.decode(stored)
        return self.counted_input(arguments, self.arguments.encode(arguments))


def _key_function(step: str, key: Key | None, parameters: ArgumentsCodec) -> Callable[[dict[str, Any]], object] | None:
    if key is None:
        return None
    if callable(key):
        return lambda arguments: key(**arguments)
    given: Any = key
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else []
    if not names or not all(isinstance(name, str) and parameters.knows(name) for name in names):
        raise InvalidDefinition(f"The key of step {step!r} is {shown(key)}; name parameters of it, or give a function.")
    return lambda arguments: [str(arguments[name]) for name in names]


def as_raised(error: BaseException) -> BaseException:
    """What a body itself raised, where that had to be wrapped to leave its thread: policies judge by it."""
    cause = error.__cause__
    return cause if isinstance(error, StepFailed) and isinstance(cause, KeyboardInterrupt | GeneratorExit) else error


def ends_the_task(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether an error that a task caught is not that of the body: Ctrl-C, or the end of a coroutine that is closed.

    A coroutine is closed from outside of its task. What comes up while that runs was raised by the body itself.
    """
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, GeneratorExit) and (task is None or task is not _running_task())
    )


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here: a coroutine is closed after its loop has ended
        return None
