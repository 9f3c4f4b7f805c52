"""Performing a run: its code, from the claim to its end or to the moment it must be let go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from inspect import CO_COROUTINE
from types import FunctionType
from typing import Any

from stepfast.kernel.decisions import CallId, HeldRun, History, Message, NewRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NonDeterminism, StepFailed, StepfastError
from stepfast.kernel.outside import Asking
from stepfast.kernel.replay import INPUT_MISFIT
from stepfast.kernel.states import WaitKind
from stepfast.kernel.texts import error_line
from stepfast.workflows import failures
from stepfast.workflows.bodies import ContinueAs, Later, Partial, as_meant
from stepfast.workflows.branches import Branch, Parked, enter_thread
from stepfast.workflows.context import RunContext
from stepfast.workflows.held_frames import keep_parks_quiet, let_go
from stepfast.workflows.registry import Executable
from stepfast.workflows.stay import Host

# Of what the code raised, where the run waits for other code.
MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Returned:
    """The code returned; its value as text."""

    value: str


@dataclass(frozen=True, slots=True)
class ReturnedInPart:
    """The code returned, and bore failures of some calls; its value as text."""

    value: str
    borne: tuple[CallId, ...]
    notes: tuple[CallId, ...] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    """The code raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Continued:
    """The code starts over; its new input as text."""

    input: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run cannot go on here; why."""

    error: BaseException


Ending = Returned | ReturnedInPart | Raised | Continued | Stopped


class Performance:
    """One claim's worth of a run's life."""

    def __init__(
        self,
        run: HeldRun,
        workflow: Executable,
        history: History,
        host: Host,
        threads: Executor,
        context: type[RunContext] = RunContext,
    ) -> None:
        self._workflow = workflow
        self._threads = threads
        self._outer = asyncio.get_running_loop()
        self._ending: Ending | None = None
        self._tell: Callable[[Ending], None] | None = None
        self._context = context(run, history, host, self._outer)
        self._context.on_stop = self._stopped

    def perform(self, ended: Callable[[Ending], None]) -> None:
        """Run the code until it ends or cannot go on; `ended` hears of it when what is left of the code is dropped.

        No task of its own: a worker performs many short runs, and each task would cost more than its bookkeeping.
        """
        self._tell = ended
        if self._context.mailbox.has_commands:
            self._context.run_errand(self._begin_after_commands(), "stepfast-commands")
        else:
            self._begin()

    def forgo(self, reason: BaseException, ended: Callable[[Ending], None]) -> None:
        """End before the code has begun. Whoever stops it later comes too late, as after any other end."""
        self._tell = ended
        self._end(Stopped(reason))

    async def performed(self) -> Ending:
        """The same, for one who waits for it; who is cancelled here drops the run's code."""
        ended: asyncio.Future[Ending] = self._outer.create_future()
        self.perform(lambda ending: None if ended.done() else ended.set_result(ending))
        try:
            return await ended
        except asyncio.CancelledError as error:
            self.stop(error)
            raise

    async def _begin_after_commands(self) -> None:
        """Commands that came before this claim are carried out before the code may run."""
        await self._context.look_now()
        self._begin()

    def _begin(self) -> None:
        self._context.leave_when_still()
        if self._context.stopped_by is None:
            self._start()

    def stop(self, reason: BaseException) -> None:
        """Let go of the run; what is recorded stays."""
        self._context.stop(reason)

    def look(self) -> None:
        """Something may have come for the run."""
        self._context.look()

    @property
    def rests(self) -> bool:
        """Whether nothing is under way but pauses before a next try."""
        return self._context.rests

    @property
    def under_way(self) -> list[str]:
        """The calls that do something now."""
        return sorted(call.address for call in self._context.busy - self._context.resting)

    def run_errand(self, errand: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[None]:
        """Do something beside the code; whatever goes wrong there stops the run with that error."""
        return self._context.run_errand(errand, name)

    def take_commands(self) -> list[Message]:
        """The commands that have come for the run and that nobody has told of."""
        return self._context.take_commands()

    def unheard_failures(self) -> list[CallId]:
        """The calls that failed, but whose failure the code was never given."""
        return self._context.unheard_failures()

    def handlers_of(self, failed: Iterable[CallId]) -> list[CallId]:
        """The calls that the code made while it handled these failures."""
        return self._context.handlers_of(failed)

    def cut_off_calls(self) -> list[CallId]:
        """The calls of which something is recorded, but no end that the code could go on from."""
        return self._context.cut_off_calls()

    def left_outside(self) -> list[NewRun]:
        """What stops the outside work that nobody waits for when the code begins anew."""
        waits = self._context.mailbox.waits_of(WaitKind.OUTSIDE)
        return [run for wait in waits for run in Asking.read(wait.name).stopping()]

    def rest_ms(self, delay_ms: int, now: Instant) -> int:
        """How long the run is put off that wants to rest for so long."""
        return self._context.rest_ms(delay_ms, now)

    def wind_down(self, reason: BaseException) -> None:
        """Let go of the run as soon as the steps under way are recorded; begin no other."""
        self._context.wind_down(reason)

    def _start(self) -> None:
        # An input was checked when it was stored: if it does not fit, the code is another, as with a record.
        try:
            arguments = self._workflow.arguments.decode(self._context.run.input)
        except StepfastError as error:
            self._end(Stopped(NonDeterminism(f"{INPUT_MISFIT}: {error}")))
            return
        call = partial(self._workflow.arguments.apply, self._workflow.function, arguments)
        start = self._start_coroutine if self._workflow.is_async else self._start_thread
        start(Branch(self._context), call)

    def _start_coroutine(self, branch: Branch, call: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            code = call() if _is_plain(self._workflow.function) else _called(call)
        except Exception as error:  # noqa: BLE001 - the function does not take what is stored for it
            self._end_checked(Raised(error))
        else:
            self._context.loop.start(code, branch, self._code_ended)

    def _start_thread(self, branch: Branch, call: Callable[[], Any]) -> None:
        def main() -> Any:
            enter_thread(branch)
            keep_parks_quiet()
            try:
                return call()
            except BaseException as error:
                let_go(error)
                if isinstance(error, StopIteration):
                    # No future takes it; out of a coroutine Python itself makes it this.
                    raise RuntimeError("The workflow's code raised StopIteration") from error
                raise
            finally:
                enter_thread(None)

        future = self._outer.run_in_executor(self._threads, main)
        future.add_done_callback(self._code_ended)

    def _code_ended(self, code: asyncio.Future[Any]) -> None:
        # Nor does a thread go on: what is closed now is all that is left to be given results.
        self._context.computes = False
        if self._ending is not None or self._context.stopped_by is not None:
            _look_at(code)
        elif self._context.loop.close_generators(partial(self._code_ended, code)):
            # Whatever was open when it returned or raised is part of the code, too.
            return
        elif code.cancelled():
            self._end(Raised(StepFailed("The workflow's code was cancelled from inside.", type_name="CancelledError")))
        elif (error := code.exception()) is not None:
            self._raised(failures.askable(error))
        else:
            self._returned(code.result())

    def _raised(self, error: BaseException) -> None:
        if isinstance(error, Parked):
            return
        error = as_meant(error)
        if isinstance(error, Later):
            self._end(Stopped(error))
        elif isinstance(error, ContinueAs):
            self._continued(error)
        else:
            self._end_checked(Raised(error))

    def _continued(self, wish: ContinueAs) -> None:
        arguments = self._workflow.arguments
        try:
            text, _ = arguments.restore(arguments.bind(*wish.arguments))
        except Exception as error:  # noqa: BLE001 - other people's classes may raise anything, and the run has to end
            self._end_checked(Raised(error))
        else:
            self._end_checked(Continued(text))

    def _returned(self, value: object) -> None:
        whole = value.value if isinstance(value, Partial) else value
        try:
            # Read back as well: a None that its hint does not allow is written without complaint.
            text, _ = self._workflow.result.restore(whole)
        except Exception as error:  # noqa: BLE001 - as above
            self._end_checked(Raised(error))
        else:
            self._end_checked(_in_part(text, value) if isinstance(value, Partial) else Returned(text))

    def _end_checked(self, ending: Ending) -> None:
        try:
            self._context.check_end()
        except NonDeterminism as error:
            # What the code raised may be why it came no further.
            self._end(Stopped(_with_reason(error, ending.error) if isinstance(ending, Raised) else error))
        else:
            self._end(ending)

    def _stopped(self) -> None:
        error = self._context.stopped_by
        assert error is not None
        self._end(Stopped(error))

    def _end(self, ending: Ending) -> None:
        if self._ending is not None:
            return
        self._ending = ending
        # At once: branches that are left would wait, and the run be parked instead of ended. Also where nothing is
        # open: the thread of a `def` workflow may be between two calls.
        self._context.refuse_calls()
        if self._context.is_quiet:
            self._closed(ending)
        else:
            # From a plain callback: the code's tasks must not be driven from inside a task of the outer loop.
            self._outer.call_soon(self._drop, ending)

    def _drop(self, ending: Ending) -> None:
        try:
            self._context.close()
        finally:
            self._closed(ending)

    def _closed(self, ending: Ending) -> None:
        self._context.release()
        tell, self._tell = self._tell, None
        assert tell is not None
        tell(ending)


def _is_plain(function: Callable[..., Any]) -> bool:
    """Whether a call does nothing but make the coroutine: what wraps such a function is code of the run, too."""
    return type(function) is FunctionType and bool(function.__code__.co_flags & CO_COROUTINE)


def _with_reason(misfit: NonDeterminism, raised: BaseException) -> NonDeterminism:
    failure = failures.describe(raised)
    return NonDeterminism(f"{misfit} It raised {error_line(failure.type, failure.message)[:MAX_REASON].rstrip('.')}.")


async def _called(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


def _in_part(text: str, part: Partial) -> ReturnedInPart:
    """With the calls whose failures were borne, each once."""
    calls = dict.fromkeys(call for error in part.borne for call in failures.marked_calls(error))
    return ReturnedInPart(text, tuple(calls), part.notes)


def _look_at(code: asyncio.Future[Any]) -> None:
    """Take note of a late end, so that asyncio does not complain that nobody did."""
    if not code.cancelled():
        code.exception()
