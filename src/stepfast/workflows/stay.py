"""A run's stay with its worker: what is done beside its code, what comes for it, and how it is parked or let go."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from stepfast.errands import begin_errand
from stepfast.kernel import rules
from stepfast.kernel.blobs import BlobsAway, LargeValues
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.decisions import CallId, Decision, HeldRun, History, Message
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import LeaseLost, StepfastError, StoreUnavailable, WrongCall
from stepfast.kernel.events import Event
from stepfast.kernel.exchange import Delivered, Look, Woken
from stepfast.kernel.ids import RunId
from stepfast.kernel.outside_rules import nothing_came, put_off
from stepfast.kernel.ports import Clock, Recorder, Store
from stepfast.kernel.retry import Retry
from stepfast.kernel.states import STEP_ENDED, StepState
from stepfast.workflows.bodies import StorageHost
from stepfast.workflows.branches import Parked
from stepfast.workflows.limits import BodyThreads
from stepfast.workflows.loop import open_loop
from stepfast.workflows.mailbox import ENDED_BY_TIME, Mailbox

T = TypeVar("T")

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class Held(Exception):
    """A person holds the run: it is given back, and nobody takes it until it is resumed."""


async def nothing_to_learn() -> None:
    """Nobody compiles here what is registered."""


class Host(NamedTuple):
    """What a run gets from the worker that executes it."""

    recorder: Recorder
    clock: Clock
    threads: BodyThreads
    default_retry: Retry
    store: Store
    values: LargeValues
    change: Callable[[Sequence[Request]], Awaitable[list[Changed | StepfastError]]]
    """Carries commands out, and tells those whom they concern."""
    delivered: Callable[[RunId, Delivered], None]
    """Hears of what was brought to a run."""
    storage: StorageHost | None = None
    polls: asyncio.Semaphore | None = None
    """How many questions after outside work are asked at once; None: as many as there are."""
    learn: Callable[[], Awaitable[None]] = nothing_to_learn
    """Makes known what is registered by now."""


class Stay:
    """A run while this worker has it, from its claim until it ends, is parked or is let go."""

    # With more than thirty attributes, as its subclass has, each instance would have a dictionary that grows thrice.
    __slots__ = (
        "_closed",
        "_ends",
        "_errands",
        "_errors",
        "_has_news",
        "_last_look",
        "_leaving",
        "_looking",
        "_moved",
        "_next_look",
        "_parking",
        "_reading",
        "_states",
        "busy",
        "computes",
        "host",
        "loop",
        "mailbox",
        "on_stop",
        "outer",
        "resting",
        "run",
        "stopped_by",
    )

    def __init__(
        self,
        run: HeldRun,
        history: History,
        host: Host,
        outer: asyncio.AbstractEventLoop,
        on_quiet: Callable[[], bool],
    ) -> None:
        self.run = run
        self.host = host
        self.outer = outer
        self.loop = open_loop(outer, on_quiet)
        self.mailbox = Mailbox(history.waits, history.inbox, history.records)
        self.stopped_by: BaseException | None = None
        self.on_stop: Callable[[], None] = _nothing
        self.busy: set[CallId] = set()
        """Calls that do something; while there are any, the run does not park."""
        self.resting: set[CallId] = set()
        """Those of them that wait for their next try."""
        self.computes = False
        """Whether the thread of a `def` workflow has its answer and goes on: not every branch waits then."""
        self._errands: set[asyncio.Task[Any]] = set()
        self._states: dict[CallId, StepState] = {}
        self._errors: dict[CallId, str] = {}
        self._ends: dict[CallId, Instant] = {}
        self._closed = False
        self._leaving: BaseException | None = None
        self._parking = False
        self._has_news = False
        self._looking = self._reading = False
        self._moved: asyncio.Future[None] | None = None
        self._last_look: asyncio.Task[bool] | None = None
        self._next_look: asyncio.Task[bool] | None = None

    def save(self, decision: Decision, answered: Callable[[BaseException | None], None]) -> None:
        """Save something of this run with the next commit."""
        for record in decision.records:
            self._states[record.call] = record.state
            if record.error is not None:
                self._errors[record.call] = record.error
        for wait in decision.opened:
            if wait.kind in ENDED_BY_TIME and wait.due_in_ms is not None:
                self._ends[wait.call] = Instant(self.host.clock.now() + wait.due_in_ms)
        self.host.recorder.save(self.run, decision, answered)

    async def saved(self, decision: Decision) -> bool:
        """Save, and wait for it; False when the run cannot go on here."""
        answer: asyncio.Future[BaseException | None] = self.outer.create_future()

        def answered(refused: BaseException | None) -> None:
            if not answer.done():
                answer.set_result(refused)

        self.save(decision, answered)
        refused = await answer
        if refused is not None:
            self.stop(refused)
        return refused is None

    def run_errand(self, errand: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Do something beside the code, on the worker's loop; whatever goes wrong there stops the run with that error.

        A task that nobody refers to may vanish, and the run would wait for ever for what it was to bring.
        """
        task = begin_errand(errand, name, loop=self.outer)
        self._errands.add(task)
        task.add_done_callback(self._errand_done)
        return task

    def _errand_done(self, task: asyncio.Task[Any]) -> None:
        self._errands.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error)

    def tell(self, event: Event) -> None:
        """Send an event along with the run's next commit; may be called from any thread."""
        if events._get_running_loop() in (self.outer, self.loop):
            self.host.recorder.ride(self.run, event)
        else:
            self.outer.call_soon_threadsafe(self.host.recorder.ride, self.run, event)

    def kick(self) -> None:
        """Something came from outside: let the code go on."""
        self.loop.kick()

    def stop(self, error: BaseException) -> None:
        """The run cannot go on here; its worker hears why."""
        if self.stopped_by is None:
            self.stopped_by = error
            self.outer.call_soon(self.on_stop)
            self._tell_move()

    def wind_down(self, reason: BaseException) -> None:
        """Begin no further step, and stop when those under way are recorded; one that rests before a retry is not."""
        self._leaving = reason
        self.kick()

    def rest_ms(self, delay_ms: int, now: Instant) -> int:
        """How long the run is put off that wants to rest for so long: a time that is over before is to be noticed."""
        open_ends = (at for call, at in self._ends.items() if self._states.get(call) not in STEP_ENDED)
        # The store's own, and those that are on the way into it.
        ends = [at for at in (self.mailbox.next_end_at, *open_ends) if at is not None]
        return min([delay_ms, *(max(at - now, 1) for at in ends)])

    def leave_when_still(self) -> None:
        """Let go, if that is wanted, once nothing is under way that would have to be done again."""
        leaving = Held() if self.run.hold else self._leaving
        if leaving is not None and self.busy <= self.resting:
            self.stop(leaving)

    def park_when_still(self) -> None:
        """Park, now that every branch of the code waits, unless something is still under way."""
        if self.busy or self._parking or self._leaving is not None:
            return
        if self.mailbox.is_awaited:
            self._parking = True
            now = self.host.clock.now()
            decision = rules.park(self.run, now, self.mailbox.open_kinds, self.mailbox.next_due_at)
            waits = self.mailbox.waits_put_off(now)
            unsaid: list[Event] = []
            if nothing_came(self.run, waits):
                decision.events, unsaid, self.run.riders = (), self.run.riders, []
            self.save(put_off(decision, waits), partial(self._parked, unsaid))
        elif self.loop.tasks and not self._errands:
            self.stop(WrongCall(NOTHING_COMES))

    def _parked(self, unsaid: list[Event], refused: BaseException | None) -> None:
        self._parking = False
        if refused is not None:
            self.run.riders[:0] = unsaid
        if refused is None:
            self.stop(Parked())
        elif isinstance(refused, Woken):
            self.look()
        else:
            self.stop(refused)
        self._tell_move()

    async def until_unparked(self) -> bool:
        """Wait while the run is being parked, which would cut off what is done meanwhile; False when it is gone."""
        while self._parking and self.stopped_by is None:
            await self._move()
        return self.stopped_by is None

    async def until_free(self) -> bool:
        """Wait while no step may begin: the run is held, or is being parked or let go; False when it is gone."""
        while (self._parking or self.run.hold or self._leaving is not None) and self.stopped_by is None:
            await self._move()
        return self.stopped_by is None

    async def _move(self) -> None:
        self._moved = self._moved or self.outer.create_future()
        await asyncio.shield(self._moved)

    def _tell_move(self) -> None:
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set_result(None)

    def look(self) -> None:
        """Something may have come for the run: read it, once for all that comes until the reading begins.

        Of ten thousand children each may tell of its end before their parent is parked.
        """
        self._has_news = True
        if not self._closed and not self._looking:
            self._looking = self._reading = True
            self.run_errand(self._look(), "stepfast-look")

    async def _look(self) -> None:
        looks = 0
        try:
            while self._has_news and not self._closed and self.stopped_by is None:
                if looks == LOOKS_IN_A_ROW:
                    looks = 0
                    await self._give_turn()
                self._has_news = False
                await self.look_now()
                looks += 1
        finally:
            self._looking = self._reading = False
            self.kick()

    async def _give_turn(self) -> None:
        """Let the code go on between two looks: where something comes all the time there would be no other moment."""
        self._reading = False
        self.kick()
        await asyncio.sleep(0)
        self._reading = True

    async def answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store answers; one that is away is asked again for as long as the run is held here.

        To let go of the run instead would cut off its steps under way, and they would be done again.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await ask()
            except BlobsAway:
                raise
            except StoreUnavailable:
                await self._pause(pause_s)
                if self._closed or self.stopped_by is not None:
                    raise
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _pause(self, pause_s: float) -> None:
        """Rest for so long, or until the run is let go of."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._move()

    async def look_now(self) -> bool:
        """Read what has come for the run, and let those look who wait for it; False when that was not possible.

        One reading after the other, each for all who ask until it begins: a thousand timers may be over at once.
        """
        if self._next_look is None:
            self._next_look = self.run_errand(self._look_after(self._last_look), "stepfast-reading")
        return await asyncio.shield(self._next_look)

    async def _look_after(self, before: asyncio.Task[bool] | None) -> bool:
        if before is not None:
            await asyncio.wait({before})
        self._last_look, self._next_look = self._next_look, None
        return await self._look_once()

    async def _look_once(self) -> bool:
        try:
            look = await self.answered(self._read_look)
        except StepfastError as error:
            self.stop(error)
            return False
        if self._closed:
            return False
        if look is None or look.token != self.run.token:
            self.stop(LeaseLost(f"Run {self.run.run_id} was ended or taken by a command."))
            return False
        # Of two looks under way the later may be answered first.
        if look.wakes >= self.run.wakes:
            self._take_in(look)
        return True

    async def _read_look(self) -> Look | None:
        run, host = self.run, self.host
        look = await host.store.look(run.run_id)
        if look is None or not look.inbox:
            return look
        values = await host.values.resolve(run.tenant, run.run_id, [message.value for message in look.inbox])
        inbox = [message._replace(value=value) for message, value in zip(look.inbox, values, strict=True)]
        return look._replace(inbox=inbox)

    def _take_in(self, look: Look) -> None:
        self.run.wakes, self.run.hold = look.wakes, look.hold
        self.mailbox.update(look.waits, look.inbox)
        commands = [] if look.hold else self.take_commands()
        if commands:
            # Before what the code makes of them.
            self.save(rules.tell_commands(self.run, commands, self.host.clock.now()), self._told)
        self.mailbox.let_look()
        self._tell_move()
        self.kick()

    def take_commands(self) -> list[Message]:
        """The commands that have come for the run and that nobody has told of, now taken."""
        return self.mailbox.take_commands(self.run.wakes)

    def hear(self, n: int) -> None:
        """The code has been given a message: it is nobody else's any more, in this life of the run or a later one."""
        message = self.mailbox.hear(n)
        if message is not None:
            self.save(rules.take(self.run, message), self._told)

    def _told(self, refused: BaseException | None) -> None:
        if refused is not None:
            self.stop(refused)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def release(self) -> None:
        """Nothing of the run is left here: take apart what refers to each other, so that it is freed at once."""
        self.on_stop = _nothing
        self.mailbox.newcomers = list
        self._last_look = None
        self.loop.release()


# The code waits for what has come to be read, but not for all that may come meanwhile.
LOOKS_IN_A_ROW = 4


def _nothing() -> None:
    """Nobody is there to be told."""


NOTHING_COMES = (
    "The workflow's code waits for something that no durable call can bring, such as an asyncio.Event of its own. "
    "Await a step, a sleep, a signal or a child instead."
)
