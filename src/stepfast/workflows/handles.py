"""What code has in hand of children that it has started: their handles, and what can be asked of these."""

from __future__ import annotations

import asyncio
import json
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from stepfast.kernel import rules
from stepfast.kernel.decisions import Record
from stepfast.kernel.errors import IllegalMove, Invalid, NotFound, StepfastError, WrongCall
from stepfast.kernel.states import StepState, check_move
from stepfast.kernel.texts import MAX_NOTE, check_optional_text, check_text
from stepfast.workflows import failures
from stepfast.workflows.branches import thread_branch
from stepfast.workflows.calls import Asked
from stepfast.workflows.child_calls import ChildKind
from stepfast.workflows.codec import digest
from stepfast.workflows.given import text_given
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.once_calls import OnceCall
from stepfast.workflows.started_children import JoinCall, StartCall, StartedChild
from stepfast.workflows.wait_calls import SIGNAL
from stepfast.workflows.waiting import ask

P = ParamSpec("P")
T = TypeVar("T")

OnParentEnd = Literal["cancel", "leave"]


CarryOut = Callable[[Asked, str], Awaitable[None]]
"""Asks the store, under a key; raises what refuses it."""


class CommandCall(OnceCall):
    """Something that a run asks of its child, once: the store knows it by its key when it is asked again."""

    kind = "command"

    def __init__(self, name: str, text: str, carry_out: CarryOut) -> None:
        super().__init__(name, text)
        self._carry_out = carry_out
        self._errand: asyncio.Task[None] | None = None

    def begin(self, asked: Asked, record: Record | None) -> None:
        asked.context.busy.add(asked.call)
        self._errand = asked.context.run_errand(self._perform(asked), "stepfast-command")

    async def _perform(self, asked: Asked) -> None:
        context, started_at = asked.context, asked.context.host.clock.now()
        error: BaseException | None = None
        try:
            await self._carry_out(asked, f"{context.run.run_id}:{context.run.generation}:{asked.call.address}")
        except (IllegalMove, NotFound) as refusal:
            error = refusal
        failure = None if error is None else failures.describe(error)
        state = StepState.COMPLETED if failure is None else StepState.FAILED
        text = None if failure is None else failures.to_text(failure)
        record = asked.new_record(state, 1, started_at, error=text)
        revived = None if failure is None else failures.revive(failure)
        ended = partial(context.ended, asked, record.ended_at, None, revived)
        context.save(rules.record_step(context.run, record), ended)

    def drop(self) -> None:
        if self._errand is not None:
            self._errand.cancel()


def signal_call(started: StartedChild, signal: str, value: Any) -> CommandCall:
    """Sends a signal to a child."""
    name, text = check_text("The signal's name", signal), text_given(value, f"The value of signal {signal!r}")

    async def carry_out(asked: Asked, key: str) -> None:
        from stepfast.kernel.exchange import Delivery

        run, host, run_id = asked.context.run, asked.context.host, started.run_id
        whole = digest(f"{run_id}:{name}:{text}")
        value = await asked.context.answered(partial(host.values.keep, run.tenant, run_id, text))
        delivery = Delivery(run_id, run.tenant, SIGNAL, name, value, run.actor, started.key_of(key), whole)
        delivered = await asked.context.answered(partial(host.store.deliver, delivery))
        if delivered.state is None:
            raise NotFound(f"Child run {run_id} not found. List runs with `stepfast runs list`.")
        check_move(run_id, delivered.state, "signal")
        host.delivered(run_id, delivered)

    return CommandCall(f"signal:{name}", text, carry_out)


def cancel_call(started: StartedChild, reason: str | None) -> CommandCall:
    """Cancels a child."""
    why = check_optional_text("reason", reason, MAX_NOTE)

    async def carry_out(asked: Asked, key: str) -> None:
        from stepfast.kernel.commands import Cancel, Request

        run, run_id = asked.context.run, started.run_id
        cancel = Request(run_id, Cancel(), run.tenant, run.actor, why, started.key_of(key))
        (answer,) = await asked.context.answered(partial(asked.context.host.change, [cancel]))
        if isinstance(answer, StepfastError):
            raise answer

    return CommandCall(f"cancel:{started.kind.name}", json.dumps({"reason": why}), carry_out)


class _Result(Generic[T]):
    """What a child has come to, asked for once and given as often as it is wanted."""

    def __init__(self, started: StartedChild) -> None:
        self._started = started
        self._joining = asyncio.Lock()
        self._ended: Callable[[], T] | None = None

    async def awaited(self) -> T:
        async with self._joining:
            if self._ended is None:
                self._ended = await _kept(self._asked())
        return self._ended()

    def blocked_for(self) -> T:
        if self._ended is None:
            try:
                self._ended = partial(_give, self._asked())
            except StepfastError as error:
                self._ended = partial(_raise, error)
        return self._ended()

    def _asked(self) -> Any:
        return ask("child.result", JoinCall(self._started))


class Child(Generic[T]):
    """The handle of a child run in an `async def` workflow."""

    def __init__(self, started: StartedChild) -> None:
        self.id: str = started.run_id
        self._started = started
        self._result: _Result[T] = _Result(started)

    def __repr__(self) -> str:
        return f"<child run {self.id}>"

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    async def result(self) -> T:
        """What the child returned, as often as it is asked for; raises RunFailed or RunCancelled."""
        return await self._result.awaited()

    async def signal(self, name: str, value: Any = None) -> None:
        """Send something to the child, once; it is kept until the child's code takes it."""
        await ask("child.signal", signal_call(self._started, name, value))

    async def cancel(self, reason: str | None = None) -> None:
        """End the child now; one that has ended refuses with IllegalMove."""
        await ask("child.cancel", cancel_call(self._started, reason))


class SyncChild(Generic[T]):
    """The handle of a child run in a `def` workflow.

    Where the run's event loop makes the calls, as for `race.sync` and `each.sync`, they can be awaited instead.
    """

    def __init__(self, started: StartedChild) -> None:
        self.id: str = started.run_id
        self._started = started
        self._result: _Result[T] = _Result(started)

    def __repr__(self) -> str:
        return f"<child run {self.id}>"

    def __await__(self) -> Generator[Any, None, T]:
        return self._result.awaited().__await__()

    def result(self) -> T:
        """What the child returned, as often as it is asked for; raises RunFailed or RunCancelled."""
        if isinstance(events._get_running_loop(), RunLoop):
            return cast(T, self._result.awaited())
        return self._result.blocked_for()

    def signal(self, name: str, value: Any = None) -> None:
        """Send something to the child, once; it is kept until the child's code takes it."""
        return cast(None, ask("child.signal", signal_call(self._started, name, value)))

    def cancel(self, reason: str | None = None) -> None:
        """End the child now; one that has ended refuses with IllegalMove."""
        return cast(None, ask("child.cancel", cancel_call(self._started, reason)))


class Starter(Generic[P, T]):
    """`checkout.start(...)`: starts a child and goes on.

    Its arguments are the workflow's own. Types cannot say that of a call with an option beside them, so one that gives
    `on_parent_end` is checked when it is made.
    """

    def __init__(self, child: ChildKind) -> None:
        self._child = child

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Child[T]]: ...

    @overload
    def __call__(self, /, *args: Any, on_parent_end: OnParentEnd, **kwargs: Any) -> Coroutine[Any, Any, Child[T]]: ...

    def __call__(self, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Child[T]]:
        """Start a child of an `async def` workflow; it exists when this returns.

        When the parent ends before it was awaited, it is cancelled with it, or left to go on.
        """
        name = self._child.name
        loop = events._get_running_loop()
        if loop is None and thread_branch() is not None:
            raise WrongCall(f"In a `def` workflow call {name}.start.sync(...).")
        child: Coroutine[Any, Any, Child[T]] = self._ask(isinstance(loop, RunLoop), Child, args, kwargs)
        return child

    @overload
    def sync(self, /, *args: P.args, **kwargs: P.kwargs) -> SyncChild[T]: ...

    @overload
    def sync(self, /, *args: Any, on_parent_end: OnParentEnd, **kwargs: Any) -> SyncChild[T]: ...

    def sync(self, /, *args: Any, **kwargs: Any) -> SyncChild[T]:
        """Start a child of a `def` workflow; it exists when this returns."""
        loop = events._get_running_loop()
        if isinstance(loop, RunLoop):
            raise WrongCall(f"In an `async def` workflow write `await {self._child.name}.start(...)`.")
        is_inside = loop is None and thread_branch() is not None
        child: SyncChild[T] = self._ask(is_inside, SyncChild, args, kwargs)
        return child

    def _ask(
        self, is_inside: bool, handle: Callable[[StartedChild], Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = self._child.name
        if not is_inside:
            raise WrongCall(
                f"{name}.start(...) starts a child in the code of a workflow, and was called outside of one. "
                f"Start a run with `await app.start({name}, ...)`."
            )
        on_parent_end = kwargs.pop("on_parent_end", "cancel")
        if on_parent_end not in ("cancel", "leave"):
            raise Invalid(f'on_parent_end is {on_parent_end!r}; allowed are "cancel" and "leave".')
        text = self._child.input_of(args, kwargs)
        return ask(f"{name}.start", StartCall(self._child, text, on_parent_end == "leave", handle))


async def _kept(call: Any) -> Callable[[], Any]:
    """What a call returns or raises, to be given as often as it is asked for."""
    try:
        return partial(_give, await call)
    except StepfastError as error:
        return partial(_raise, error)


def _give(value: T) -> T:
    return value


def _raise(error: BaseException) -> Any:
    raise error
