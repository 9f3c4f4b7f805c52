"""A step while its work goes on outside: asked after from time to time, or called back, and ended once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

from stepfast.kernel import rules
from stepfast.kernel.decisions import Message, NewRun, OpenWait, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, Invalid, StepFailed, StepfastError, StepTimeout, WrongCall
from stepfast.kernel.events import Event
from stepfast.kernel.outside import CALLBACK, SHOWN_ERROR, Asking, ExpireCall, message_name
from stepfast.kernel.retry import Retry
from stepfast.kernel.states import WaitKind
from stepfast.workflows.bodies import Later, StepBody, StepInfo, as_meant, ends_the_task
from stepfast.workflows.calls import Asked
from stepfast.workflows.child_calls import child_id
from stepfast.workflows.codec import ValueCodec, digest
from stepfast.workflows.limits import Limit, OutOfTime, run_within
from stepfast.workflows.mailbox import Address, Waiter
from stepfast.workflows.outside import Outside, Pending
from stepfast.workflows.progress import progress_data
from stepfast.workflows.registry import DEFINED_STEPS

# A handle is what the other side knows the work by, not the work.
MAX_HANDLE = 10_000
# By its alarm in the store a run may be woken a little before this process's clock says so: not worth a park.
NEARLY_DUE_MS = 100
# How soon the end of the time is asked for again when the store's clock says that there is some left.
TOO_EARLY_MS = 1_000


class Started(NamedTuple):
    """What is recorded of outside work: from then on it is never started again."""

    handle: Any
    poll: str | None
    every_ms: int
    deadline_ms: int | None
    stop: dict[str, Any] | None
    """The run that stops it."""

    @property
    def text(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def read(cls, text: str) -> Started:
        kept = json.loads(text)
        return cls(*(kept[name] for name in cls._fields))

    def ends_at(self, now: Instant, limit: Instant | None) -> Instant | None:
        """Until when it must be done, if it was started now, and its step has until `limit`."""
        own = None if self.deadline_ms is None else Instant(now + self.deadline_ms)
        return min((end for end in (own, limit) if end is not None), default=None)

    def asking(self, record: Record) -> tuple[Asking, int | None]:
        """How it stands with the step that has this record, and how soon somebody must look at it."""
        left_ms = None if record.due_at is None else max(record.due_at - record.ended_at, 0)
        spans = [span for span in (self.every_ms if self.poll else None, left_ms) if span is not None]
        return self._asking(record), min(spans, default=None)

    def _asking(self, record: Record) -> Asking:
        return Asking(record.call.address, self.handle, polled=self.poll is not None, stop=self.stop)

    def lost_wait(self, record: Record, now: Instant) -> OpenWait:
        """A wait for it in the place of one that is gone: what is recorded goes on, and is not started again."""
        spare = 0 if self.stop is None else 1
        return OpenWait(record.seq, WaitKind.OUTSIDE, self._asking(record).text, now, 1, spare, 1, 0, 0)


def started_by(asked: Asked, body: StepBody, said: Outside[Any]) -> Started:
    """What is recorded of what a body has started; what could not be taken up again is refused."""
    text = ValueCodec(Any, f"The handle of step {body.name!r}").encode(said.handle)
    if len(text) > MAX_HANDLE:
        raise Invalid(
            f"The handle of step {body.name!r} has {len(text):,} characters as JSON, and the limit is {MAX_HANDLE:,}. "
            f"Return what the other side knows the work by."
        )
    poll = _poll_of(body, said)
    if poll is None and not said.callback:
        raise Invalid(f"Step {body.name!r} returned Outside without poll and callback: nobody would hear of its end.")
    handle, name = json.loads(text), None if poll is None else poll.name
    return Started(handle, name, said.every_ms, said.deadline_ms, _stop_of(asked, body, said, handle))


def _poll_of(body: StepBody, said: Outside[Any]) -> StepBody | None:
    poll = own_poll(body) if said.poll is None else getattr(said.poll, "body", None)
    if said.poll is not None and not isinstance(poll, StepBody):
        raise Invalid(f"The poll that step {body.name!r} returned is no step. Mark it @step.")
    if poll is not None:
        body.polls[poll.name] = poll
    return poll


def _stop_of(asked: Asked, body: StepBody, said: Outside[Any], handle: Any) -> dict[str, Any] | None:
    """The run that stops it, ready to be started by whoever sees that nobody waits for it any more."""
    if said.cancel is None:
        return None
    cancel = getattr(said.cancel, "body", None)
    if not isinstance(cancel, StepBody):
        raise Invalid(f"The cancel that step {body.name!r} returned is no step. Mark it @step.")
    run, now = asked.context.run, asked.context.host.clock.now()
    text = cancel.arguments.encode(cancel.arguments.from_json((handle,), {}).arguments)
    stop = NewRun(
        child_id(run, asked.call._replace(name=cancel.name), now),
        *(run.tenant, cancel.name, 0, "step", cancel.queue or run.queue),
        *(cancel.name if cancel.queue else run.code, 0, text, digest(text)),
        actor=run.actor,
        correlation_id=run.correlation_id or run.run_id,
        causation_id=run.run_id,
        subject=run.subject,
    )
    stop = stop._replace(key=f"stop:{stop.run_id}")
    return {name: value for name, value in stop._asdict().items() if name not in ("tags", "joins")}


def own_poll(body: StepBody) -> StepBody | None:
    """The method `poll` of the executor whose body it is, as a step."""
    poll = getattr(getattr(body.function, "__self__", None), "poll", None)
    return StepBody(poll, f"{body.name}.poll", body.retry, None) if callable(poll) else None


def poll_named(body: StepBody, name: str) -> StepBody:
    """The poll that is recorded by its name."""
    known = body.polls.get(name) or own_poll(body)
    if known is not None and known.name == name:
        return known
    defined = DEFINED_STEPS.only(name)
    if defined is None:
        raise WrongCall(f"Step {name!r}, by which the outside work of {body.name!r} is asked after, is not known here.")
    return defined.body


class End(NamedTuple):
    """How outside work ended: its result, as text and restored, or an error; and the message that brought it."""

    text: str | None = None
    value: Any = None
    error: BaseException | None = None
    message: Message | None = None
    stopping: tuple[NewRun, ...] = ()
    """What stops it, where it goes on though its time is over."""
    notes: Sequence[Event] = ()
    """Facts that whoever was asked last has noted."""


class OutsideWork:
    """The outside work of one call of a step, for as long as a worker has its run; `ended` hears of its end, once."""

    def __init__(
        self, asked: Asked, body: StepBody, record: Record, wait: OpenWait | None, ended: Callable[[End], None]
    ) -> None:
        self._asked = asked
        self._body = body
        self._ended = ended
        self._started = Started.read(record.value or "null")
        self._call = record.call
        self._deadline_at = record.due_at
        self.is_over = False
        if wait is None:
            wait = self._started.lost_wait(record, asked.context.host.clock.now())
            asked.context.mailbox.put_off(wait, record.call)
        self.wait = wait
        """Open in the store until the end is recorded."""
        self._asking = Asking.read(wait.name)
        self._notes: Sequence[Event] = ()

    def await_(self) -> None:
        """From now on a call back ends it, at once: a timer that is over later must not come before it."""
        self._asked.context.mailbox.await_(self.wait, Waiter(self._look, self._callback))
        self._look()

    @property
    def _callback(self) -> Address:
        return CALLBACK, message_name(self._asked.context.run.generation, self._call)

    def _look(self) -> None:
        """Something may have come."""
        context = self._asked.context
        message = None
        if not self.is_over:
            message = context.mailbox.take(*self._callback, None)
        if message is not None:
            self._end(self._brought(message))

    def _end(self, end: End) -> None:
        self.is_over = True
        self._asked.context.busy.add(self._asked.call)
        self._asked.context.mailbox.forget(self.wait.wait_id)
        self._ended(end)

    async def follow(self, is_unwanted: Callable[[], bool]) -> None:
        """Ask from time to time, until it is over or the run is let go of."""
        context = self._asked.context
        while not self.is_over and await self._rest():
            if self._deadline_at is not None and self._deadline_at <= context.host.clock.now():
                if not await self._expire():
                    return
            elif (end := await self._ask(is_unwanted)) is not None and not self.is_over:
                self._end(end._replace(notes=self._notes))

    async def _rest(self) -> bool:
        """Wait for the time of the next question; False when the run was let go of meanwhile."""
        context, call, clock = self._asked.context, self._asked.call, self._asked.context.host.clock
        due_at = self.wait.due_at
        if due_at is None or due_at - clock.now() >= NEARLY_DUE_MS:
            # The store wakes the run in time: if nothing else is under way, nobody need sit here.
            context.busy.discard(call)
            context.kick()
        if due_at is None:
            await context.outer.create_future()
            return False
        while (left_ms := due_at - clock.now()) > 0:
            await clock.sleep(left_ms)
        if not await context.until_free():
            return False
        context.busy.add(call)
        return True

    def _brought(self, message: Message) -> End:
        """The end that somebody told of, or that of its time."""
        told = json.loads(message.value or "{}")
        if told.get("expired"):
            return End(error=self._too_late(), message=message, stopping=self._asking.stopping())
        if "error" in told:
            failure = told["error"]
            return End(error=StepFailed(failure["message"], type_name=failure["type"]), message=message)
        text = json.dumps(told["value"])
        try:
            return End(text, self._body.result.decode(text), message=message)
        except Invalid as misfit:
            return End(error=misfit, message=message)

    def _too_late(self) -> StepTimeout:
        asking = self._asking
        last = f" The last question failed: {asking.error}" if asking.error else ""
        return StepTimeout(
            f"Step {self._call.address} was given up: its outside work {asking.shown_handle} was not done within its "
            f"deadline. It was asked after {asking.polls} times.{last}"
        )

    async def _expire(self) -> bool:
        """The time seems to be over: have it judged by the store, where no call back can come between."""
        from stepfast.kernel.commands import Request

        context = self._asked.context
        command = ExpireCall(self._call, context.run.generation)
        expire = Request(context.run.run_id, command, context.run.tenant)
        (answer,) = await context.answered(partial(context.host.change, [expire]))
        if isinstance(answer, StepfastError) and not isinstance(answer, IllegalMove):
            context.stop(answer)
            return False
        if not await context.look_now():
            return False
        if not self.is_over:
            self._put_off(TOO_EARLY_MS, self._asking)
        return True

    async def _ask(self, is_unwanted: Callable[[], bool]) -> End | None:
        """Ask how far it is; None when it is not done."""
        context = self._asked.context
        self._asking = self._asking._replace(polls=self._asking.polls + 1)
        retry, task = context.host.default_retry, asyncio.current_task()
        try:
            poll = poll_named(self._body, self._started.poll or "")
            retry = poll.retry or retry
            async with self._turn():
                value = await self._invoke(poll)
        except BaseException as error:
            if is_unwanted() or ends_the_task(error, task):
                raise
            return self._failed(as_meant(error), retry)
        if isinstance(value, Pending):
            self._go_on(value)
            return None
        try:
            return End(*self._body.result.restore(value))
        except Invalid as misfit:
            return End(error=misfit)

    def _turn(self) -> AbstractAsyncContextManager[Any]:
        return self._asked.context.host.polls or nullcontext()

    async def _invoke(self, poll: StepBody) -> Any:
        context, host = self._asked.context, self._asked.context.host
        self._notes = notes = list[Event]()
        asking = (self._call, self._asking.polls)
        info = StepInfo(context.run, *asking, host.clock.now, context.tell, host.storage, notes)
        arguments = poll.arguments.from_json((self._started.handle,), {})
        arguments.apply_defaults()
        limit = self._limit(poll)
        if limit is None:
            return await poll.invoke(dict(arguments.arguments), info, host.threads)
        return await run_within(limit, host.clock, partial(poll.invoke, dict(arguments.arguments), info, host.threads))

    def _limit(self, poll: StepBody) -> Limit | None:
        """How long this question may take: as long as the poll's own limit says, and no longer than there is time."""
        left_ms = None
        if self._deadline_at is not None:
            left_ms = max(self._deadline_at - self._asked.context.host.clock.now(), 1)
        spans = [span for span in (poll.limits.attempt_ms, left_ms) if span is not None]
        return Limit(min(spans), is_final=False) if spans else None

    def _go_on(self, pending: Pending) -> None:
        context, asking = self._asked.context, self._asking
        if pending.progress is not None:
            done, total = pending.progress if isinstance(pending.progress, tuple) else (pending.progress, None)
            told = progress_data(done, total, None)
            # Whoever looks at the history wants to see it move.
            if told != asking.told:
                context.tell(rules.progress(self._call, context.host.clock.now(), told))
            asking = asking._replace(told=told)
        self._put_off(self._started.every_ms, asking._replace(tries=0, error=None))

    def _failed(self, error: BaseException, retry: Retry) -> End | None:
        """A question that fails is asked again by the poll's policy, then in its turn; few errors end the work."""
        if isinstance(error, OutOfTime):
            error = StepTimeout(f"The question took longer than {error.limit.span_ms} ms.")
        if isinstance(error, Later):
            self._put_off(max(error.delay_ms, 1), self._asking)
            return None
        if retry.forbids(error):
            return End(error=error)
        tries, told = self._asking.tries + 1, f"{type(error).__name__}: {error}"[:SHOWN_ERROR]
        asking = self._asking._replace(error=told, tries=tries)
        if retry.allows(tries, error):
            self._put_off(retry.delay_ms(tries, self._asked.seed), asking)
        else:
            self._put_off(self._started.every_ms, asking._replace(tries=0))
        return None

    def _put_off(self, span_ms: int, asking: Asking) -> None:
        """Look again later; the store hears of it with the park, which costs no row and no commit of its own."""
        now = self._asked.context.host.clock.now()
        ends = [Instant(now + span_ms)] + ([self._deadline_at] if self._deadline_at is not None else [])
        due_at = min(ends) if min(ends) > now else Instant(now + span_ms)
        self._asking = asking
        self.wait = self.wait._replace(name=asking.text, due_at=due_at)
        self._asked.context.mailbox.put_off(self.wait, self._call)
