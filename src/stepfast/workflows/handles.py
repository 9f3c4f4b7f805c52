"""Children that a run starts now and joins later: their start, their handle, and what can be asked of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from stepfast.kernel import rules
from stepfast.kernel.decisions import Decision, Message, OpenWait, Record, Wait
from stepfast.kernel.errors import IllegalMove, Invalid, NotFound, StepfastError, WrongCall
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import ENDED, GOOD_ENDS, StepState, WaitKind, check_move
from stepfast.kernel.texts import MAX_NOTE, check_optional_text, check_text
from stepfast.workflows import failures
from stepfast.workflows.branches import thread_branch
from stepfast.workflows.calls import Asked
from stepfast.workflows.child_calls import ChildKind, ChildrenCall, Ended, child_id, code_of, new_child
from stepfast.workflows.codec import digest
from stepfast.workflows.given import text_given
from stepfast.workflows.joins import ONE
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.once_calls import OnceCall
from stepfast.workflows.wait_calls import SIGNAL
from stepfast.workflows.waiting import ask

P = ParamSpec("P")
T = TypeVar("T")

OnParentEnd = Literal["cancel", "leave"]


class StartedChild:
    """A child that was started: its id, the group by which it is joined, and what it was started with."""

    def __init__(self, kind: ChildKind, text: str, run_id: RunId, wait_id: int, is_present: bool, leave: bool) -> None:
        self.kind = kind
        self.text = text
        self.run_id = run_id
        self.wait_id = wait_id
        self.is_present = is_present
        """Whether it was started in the present generation of its parent."""
        self.leave = leave
        """Whether it may outlive its parent."""


class StartCall:
    """Starts a child; its record is its end, and its number that of the group which stays open until it is joined."""

    kind = "start"

    def __init__(self, child: ChildKind, text: str, leave: bool, handle: Callable[[StartedChild], Any]) -> None:
        self.name = f"start:{child.name}"
        self.input = self.counted = text
        self._child = child
        self._leave = leave
        self._handle = handle
        self._started: StartedChild | None = None

    def counted_of(self, stored: str) -> str:
        arguments = self._child.arguments
        return arguments.encode(arguments.decode(stored))

    def value_of(self, text: str) -> Any:
        assert self._started is not None
        return self._handle(self._started)

    def wait_id(self, record: Record | None) -> int | None:
        return None

    def recalled(self, asked: Asked, record: Record) -> None:
        run_id = RunId(json.loads(record.value or "{}")["run_id"])
        is_present = run_id == child_id(asked.context.run, record.call, record.started_at)
        self._started = StartedChild(self._child, self.input, run_id, record.seq, is_present, self._leave)

    def begin(self, asked: Asked, record: Record | None) -> None:
        context = asked.context
        started_at = context.host.clock.now()
        run_id = child_id(context.run, asked.call, started_at)
        started = asked.new_record(StepState.COMPLETED, 1, started_at, value=json.dumps({"run_id": run_id}))
        wait = Wait(0, WaitKind.CHILDREN, code_of(asked, self._child), asked.call)
        child = new_child(asked, self._child, run_id, self.input, 0, self._leave)
        decision = rules.start_child(context.run, started, wait, child)
        context.busy.add(asked.call)
        context.save(decision, partial(self._saved, asked, started, run_id, decision))

    def _saved(
        self, asked: Asked, record: Record, run_id: RunId, decision: Decision, refused: BaseException | None
    ) -> None:
        (wait,) = decision.opened
        opened = OpenWait(wait.wait_id, wait.kind, wait.name, None, wait.need, wait.spare, wait.total, 0, 0)
        asked.context.mailbox.open(opened)
        started = StartedChild(self._child, self.input, run_id, wait.wait_id, True, self._leave)
        asked.context.ended(asked, record.ended_at, self._handle(started), None, refused)

    def call_off(self, asked: Asked) -> None:
        """It is on its way; the child is cancelled with its parent's end, as any that nobody awaits."""

    def abandon(self, asked: Asked, record: Record) -> None:
        """As when it is called off."""

    def drop(self) -> None:
        """Nothing runs that could be stopped."""


class JoinCall(ChildrenCall):
    """Waits for a child that was started before, by the group that its start has opened.

    A run that is retried has new waits: a child that has completed is joined as it is, one that was left to go on and
    does is waited for again, toward the group that it was started in, and any other is started anew.
    """

    kind = "join"

    def __init__(self, started: StartedChild) -> None:
        super().__init__(started.kind, [started.text], ONE)
        self.name = f"join:{started.kind.name}"
        self._started = started
        self._is_own = False
        self._goes_on = False

    def wait_id(self, record: Record | None) -> int | None:
        return self._started.wait_id if record is None or _is_of_group(record) else record.seq

    def begin(self, asked: Asked, record: Record | None) -> None:
        if record is not None and not _is_of_group(record):
            self._is_own = True
            super().begin(asked, record)
            return
        self._asked, self._opened_as, self._started_at = asked, asked.call, asked.context.host.clock.now()
        self.run_ids = [self._started.run_id]
        wait = self._group
        if wait is None:
            self.read()
        else:
            self._await_group(wait)

    def _await_group(self, wait: OpenWait) -> None:
        self.await_(wait)
        # A child that ended while its group was gone was not counted in it.
        if not self._started.is_present and not self._is_working:
            self.read()

    def check(self, wait: OpenWait) -> None:
        super().check(wait._replace(got=wait.need) if self._read is not None else wait)

    @property
    def _group(self) -> OpenWait | None:
        return self.asked.context.mailbox.wait(self._started.wait_id)

    async def _put_letter_aside(self) -> None:
        """A child that may outlive its parent is a dead letter when it fails; here its parent has heard of it."""
        from stepfast.kernel.commands import Discard, Request

        run = self.asked.context.run
        discard = Request(self._started.run_id, Discard(), run.tenant, run.actor, "Its parent has heard of it.")
        # What cannot be put aside, or not now, stays in the list: one letter too many is better than one too few.
        with contextlib.suppress(StepfastError):
            await self.asked.context.host.change([discard])

    def fail(self, error: BaseException, taken: Message | None = None) -> None:
        super().fail(error, taken)
        if self._started.leave:
            self.asked.context.run_errand(self._put_letter_aside(), "stepfast-letter")

    async def read_outcomes(self) -> None:
        if self._group is None and not self._started.is_present and self._started.leave:
            context = self.asked.context
            child = await context.answered(partial(context.host.store.run, context.run.tenant, self._started.run_id))
            self._goes_on = child is not None and child.state not in ENDED
        await super().read_outcomes()

    def conclude(self, ended: Ended) -> None:
        is_good = any(outcome.state in GOOD_ENDS for _, outcome in ended)
        if is_good or (ended and (self._started.is_present or self._wait is not None)):
            super().conclude(ended)
            return
        self._is_working = False
        if self._wait is not None:
            # It goes on: its group says when it has ended.
            self.asked.context.busy.discard(self.asked.call)
        elif self._goes_on:
            self._open_group_again()
        else:
            self._is_own = True
            del self.run_ids
            self.open()

    def _open_group_again(self) -> None:
        """Wait for a child that an earlier generation has left, toward the group that it counts in when it ends."""
        context, number = self.asked.context, self._started.wait_id
        record = self.asked.new_record(StepState.WAITING, 1, self._started_at, value=json.dumps({"group": number}))
        wait = self.wait()._replace(wait_id=number, is_numbered=True)
        context.save(rules.open_wait(context.run, record, wait), self._opened_again)

    def _opened_again(self, refused: BaseException | None) -> None:
        context = self.asked.context
        context.busy.discard(self.asked.call)
        if refused is not None:
            context.stop(refused)
        elif not context.is_closed:
            group = OpenWait(self._started.wait_id, self.wait_kind, self._code, None, 1, 0, 1, 0, 0)
            context.mailbox.open(group)
            if self.asked.answer.done():
                self.call_off(self.asked)
            else:
                self._await_group(group)
        context.kick()

    def abandon(self, asked: Asked, record: Record) -> None:
        self._is_own = record.state is StepState.WAITING and not _is_of_group(record)
        super().abandon(asked, record)

    def call_off(self, asked: Asked) -> None:
        """Only this one no longer waits: the child goes on, and may be joined later."""
        if self._is_own:
            super().call_off(asked)
        elif not self._ending:
            self._ending = True
            self.drop()
            asked.context.mailbox.leave(self._started.wait_id)
            self.save_call_off(asked, ())


def _is_of_group(record: Record) -> bool:
    """Whether it waits for the group that the child was started in, and not for one of its own."""
    return record.state is StepState.WAITING and record.value is not None


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


def signal_call(run_id: RunId, signal: str, value: Any) -> CommandCall:
    """Sends a signal to a child."""
    name, text = check_text("The signal's name", signal), text_given(value, f"The value of signal {signal!r}")

    async def carry_out(asked: Asked, key: str) -> None:
        from stepfast.kernel.exchange import Delivery

        run, host = asked.context.run, asked.context.host
        whole = digest(f"{run_id}:{name}:{text}")
        value = await asked.context.answered(partial(host.values.keep, run.tenant, run_id, text))
        delivery = Delivery(run_id, run.tenant, SIGNAL, name, value, run.actor, key, whole)
        delivered = await asked.context.answered(partial(host.store.deliver, delivery))
        if delivered.state is None:
            raise NotFound(f"Child run {run_id} not found. List runs with `stepfast runs list`.")
        check_move(run_id, delivered.state, "signal")
        host.delivered(run_id, delivered)

    return CommandCall(f"signal:{name}", text, carry_out)


def cancel_call(run_id: RunId, child: str, reason: str | None) -> CommandCall:
    """Cancels a child."""
    why = check_optional_text("reason", reason, MAX_NOTE)

    async def carry_out(asked: Asked, key: str) -> None:
        from stepfast.kernel.commands import Cancel, Request

        run = asked.context.run
        cancel = Request(run_id, Cancel(), run.tenant, run.actor, why, key)
        (answer,) = await asked.context.answered(partial(asked.context.host.change, [cancel]))
        if isinstance(answer, StepfastError):
            raise answer

    return CommandCall(f"cancel:{child}", json.dumps({"reason": why}), carry_out)


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
        await ask("child.signal", signal_call(self._started.run_id, name, value))

    async def cancel(self, reason: str | None = None) -> None:
        """End the child now; one that has ended refuses with IllegalMove."""
        await ask("child.cancel", cancel_call(self._started.run_id, self._started.kind.name, reason))


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
        return cast(None, ask("child.signal", signal_call(self._started.run_id, name, value)))

    def cancel(self, reason: str | None = None) -> None:
        """End the child now; one that has ended refuses with IllegalMove."""
        return cast(None, ask("child.cancel", cancel_call(self._started.run_id, self._started.kind.name, reason)))


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
