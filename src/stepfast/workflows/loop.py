"""The event loop of one run: its tasks are the run's branches, and the run knows exactly when all of them wait."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import weakref
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from types import AsyncGeneratorType
from typing import Any, NoReturn, TypeVar, TypeVarTuple, cast

from stepfast.kernel.errors import WrongCall
from stepfast.workflows.branches import Branch
from stepfast.workflows.placed_futures import PlacedFuture, place_gathering
from stepfast.workflows.unawaited import close_refused, comes_from_as_completed

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# One run must not keep the others waiting: after so many callbacks the outer loop gets its turn.
CALLBACKS_PER_TURN = 2_000

# The branch below which generators are closed that nobody closed by hand.
GENERATORS = "~"

# Loops whose code would not end when it was let go of.
DROPPED: list[RunLoop] = []


class BranchTask(asyncio.Task[Any]):
    """A task of a run's code; the branch that its durable calls belong to.

    Code goes through sets of tasks, as those that `asyncio.wait` gives: these have the same order on every replay,
    since a task is found in them by its place in the run and not by its place in memory.
    """

    def __init__(
        self,
        code: Coroutine[Any, Any, Any],
        branch: Branch,
        place: int,
        loop: RunLoop,
        name: str | None,
        context: contextvars.Context | None,
    ) -> None:
        self.branch = branch
        # First: a task is put into a set of all tasks when it is made.
        self._place = place
        super().__init__(code, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._place

    def cancel(self, msg: Any = None) -> bool:
        # By code on its way out with `Later`, as in a `TaskGroup`: the run is put off, this goes on when it is back.
        self.branch.context.heed(sys.exception())
        return super().cancel(msg)


class CallAnswer(asyncio.Future[Any]):
    """What a durable call waits for; the run hears at once when the code no longer wants it."""

    on_cancel: Callable[[], None] | None = None

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self.on_cancel is not None:
            self.on_cancel()
        return cancelled


class Ready(asyncio.Handle):
    """A callback of a run's loop. There are several for each step, so that it has nothing that only debugging needs."""

    __slots__ = ()
    _loop = _source_traceback = _repr = None

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = bool, ()


class Driver:
    """Drives the loops of runs that have something to do, all of them in one callback of their outer loop."""

    def __init__(self) -> None:
        self._waiting: deque[RunLoop] = deque()
        self._is_scheduled = False

    def add(self, loop: RunLoop, outer: asyncio.AbstractEventLoop) -> None:
        """Drive a loop soon."""
        self._waiting.append(loop)
        if not self._is_scheduled:
            self._is_scheduled = True
            outer.call_soon(self._drive_all, outer)

    def _drive_all(self, outer: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        running, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        try:
            # What is added meanwhile comes behind whatever else the outer loop has to do.
            for _ in range(len(waiting)):
                waiting.popleft().drive()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(running)
            self._is_scheduled = bool(waiting)
            if waiting:
                outer.call_soon(self._drive_all, outer)


_drivers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Driver] = weakref.WeakKeyDictionary()


def _driver_of(outer: asyncio.AbstractEventLoop) -> Driver:
    driver = _drivers.get(outer)
    if driver is None:
        driver = _drivers[outer] = Driver()
    return driver


class RunLoop(asyncio.AbstractEventLoop):
    """Runs the code of one run inside the callbacks of an outer loop.

    Only durable calls bring anything into it from outside, one result at a time: when nothing is left to do,
    `on_quiet` hands out the next result. So the code takes the same way on every replay, also through `gather`,
    `wait` and locks, and the moment when every branch waits is known, not guessed.
    """

    def __init__(self, outer: asyncio.AbstractEventLoop, on_quiet: Callable[[], bool]) -> None:
        self._outer = outer
        self._driver = _driver_of(outer)
        self._on_quiet = on_quiet
        self.ready: deque[Ready] = deque()
        """What can go on at once."""
        self._scheduled = False
        self._driving = False
        self._is_dropped = False
        self.tasks: set[BranchTask] = set()
        self._main: Branch | None = None
        self._generators: Branch | None = None
        self._open_generators: dict[int, weakref.ref[AsyncGeneratorType[Any, Any]]] = {}
        self._closing: set[BranchTask] = set()
        self._last_place = 0
        self._last_future = 0
        self._when_closed: Callable[[], None] = _nothing

    def start(
        self, code: Coroutine[Any, Any, T], branch: Branch, ended: Callable[[asyncio.Future[T]], None] | None = None
    ) -> asyncio.Task[T]:
        """Begin code of the run in a branch of its own; `ended` hears of its end."""
        self._main = branch
        return self._add_task(code, branch, ended=ended)

    def begin(self, code: Coroutine[Any, Any, T], branch: Branch) -> BranchTask:
        """Run code of the run in a branch that it chooses itself."""
        return self._add_task(code, branch)

    def kick(self) -> None:
        """Have the outer loop drive this one, soon."""
        if not self._driving and not self._scheduled:
            self._scheduled = True
            self._driver.add(self, self._outer)

    def release(self) -> None:
        """No code is left in this loop: let go of the run that it belongs to."""
        if not self.tasks:
            self._on_quiet = bool
            self._main = self._generators = None
            self._open_generators.clear()

    @property
    def is_idle(self) -> bool:
        """Whether every task waits, and nothing is on its way to them."""
        return not self.ready and not self._scheduled

    def drain(self, callbacks: int) -> None:
        """Let closed code unwind: run what is ready, without handing out anything more."""
        running, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        self._enter()
        try:
            self._run_ready(callbacks)
            if self.tasks:
                self._drop()
        finally:
            self._driving = False
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(running)

    def _drop(self) -> None:
        # Collected as garbage, such code would be told once more to end, and go on outside of every loop.
        self._is_dropped = True
        self.ready.clear()
        DROPPED.append(self)

    def drive(self) -> None:
        """Run the code until every branch waits. The caller sets right again which loop is the running one."""
        self._scheduled = False
        if self._is_dropped:
            return
        self._enter()
        budget = CALLBACKS_PER_TURN
        try:
            while budget > 0:
                if self.ready:
                    budget -= self._run_ready(budget)
                elif self._on_quiet():
                    budget -= 1
                else:
                    return
        finally:
            self._driving = False
        self.kick()

    def _enter(self) -> None:
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(self._opened, self._left_open)
        self._driving = True

    def _opened(self, opening: AsyncGenerator[Any, Any]) -> None:
        generator = cast("AsyncGeneratorType[Any, Any]", opening)
        key, opened = id(generator), self._open_generators
        opened[key] = weakref.ref(generator, lambda _: opened.pop(key, None))

    def close_generators(self, then: Callable[[], None]) -> bool:
        """The code has ended: close what it has left open; `then` is called when that is done, unless all is closed."""
        held = [generator for hold in self._open_generators.values() if (generator := hold()) is not None]
        self._open_generators.clear()
        for generator in held:
            # One that is just being iterated over ends with the branch that does so.
            if generator.ag_frame is not None and not generator.ag_running:
                self._close_generator(generator)
        if self._closing:
            self._when_closed = then
        return bool(self._closing)

    def _generator_closed(self, task: asyncio.Task[Any]) -> None:
        self._closing.discard(cast(BranchTask, task))
        if not self._closing:
            then, self._when_closed = self._when_closed, _nothing
            then()

    def _left_open(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close a generator that the code dropped in this loop too: elsewhere its steps would be plain functions."""
        if events._get_running_loop() is self:
            self._close_generator(generator)
        elif not self._outer.is_closed():
            self._outer.call_soon_threadsafe(self._close_generator, generator)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._main is None:
            # The run is not here any more; let go of like this, the generator does nothing.
            return
        if self._generators is None:
            self._generators = Branch(self._main.context, GENERATORS)
        task = self._add_task(generator.aclose(), self._generators.child())
        self._closing.add(task)
        task.add_done_callback(self._generator_closed)

    def _run_ready(self, callbacks: int) -> int:
        ran = 0
        ready = self.ready
        while ready and ran < callbacks:
            callback = ready.popleft()
            ran += 1
            if not callback._cancelled:
                try:
                    callback._context.run(callback._callback, *callback._args)
                except KeyboardInterrupt:
                    raise
                except BaseException:  # noqa: BLE001
                    # The task whose code raised it keeps it as its result; raised further it would end the worker.
                    continue
        return ran

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        ready = Ready(callback, args, contextvars.copy_context() if context is None else context)
        self.ready.append(ready)
        if not self._driving and not self._scheduled:
            self.kick()
        return ready

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self._outer.call_soon_threadsafe(lambda: self.call_soon(callback, *args, context=context))

    def create_future(self) -> asyncio.Future[Any]:
        return PlacedFuture(loop=self)

    def next_future(self) -> int:
        """The place of one more future among those that the code puts into sets."""
        self._last_future += 1
        return self._last_future

    def create_answer(self) -> CallAnswer:
        """A future for the answer to a durable call."""
        return CallAnswer(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        if comes_from_as_completed(sys._getframe(1)):
            coro.close()
            raise WrongCall(
                "asyncio.as_completed makes tasks of coroutines in another order each time, which cannot be replayed. "
                "Give it tasks, as in as_completed([asyncio.create_task(call) for call in calls])."
            )
        return self._add_task(coro, current_branch_of(self).child(), name, context)

    def _add_task(
        self,
        code: Any,
        branch: Branch,
        name: str | None = None,
        context: contextvars.Context | None = None,
        ended: Callable[[asyncio.Future[Any]], None] | None = None,
    ) -> BranchTask:
        # Apart from the tasks of other runs, which stand in the same set of all tasks.
        self._last_place = 1 + (self._last_place or int(branch.context.run.run_id[-12:], 16))
        task = BranchTask(code, branch, self._last_place, self, name, context)
        self.tasks.add(task)
        # One callback for both, where there are two: each is a turn of this loop.
        task.add_done_callback(self._branch_ended if ended is None else partial(self._task_ended, ended))
        return task

    def _task_ended(self, ended: Callable[[asyncio.Future[Any]], None], task: asyncio.Task[Any]) -> None:
        self.tasks.discard(cast(BranchTask, task))
        ended(task)

    def _branch_ended(self, ended: asyncio.Task[Any]) -> None:
        task = cast(BranchTask, ended)
        self.tasks.discard(task)
        # Heard of before whoever waits for the task: a `TaskGroup` would call off what is beside it. A task that was
        # called off has another reason to end. Not by `exception()`, which would keep asyncio from telling of it.
        if task._exception is not None and not task.cancelling():
            task.branch.context.heed(task._exception)

    def time(self) -> float:
        return self._outer.time()

    def is_running(self) -> bool:
        return self._driving

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        # Each future asks that while it is made: of those that others make, the loop hears by nothing else.
        place_gathering(sys._getframe(1))
        return False

    def get_task_factory(self) -> None:
        return None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Code that was dropped leaves unread futures and unfinished tasks behind; that is no error of anybody's."""


def _nothing() -> None:
    """Nobody waits for that."""


def current_branch_of(loop: RunLoop) -> Branch:
    """The branch of the task that runs now in this loop."""
    task = asyncio.current_task(loop)
    if task is None:
        raise WrongCall(
            "A durable call was made in a callback, outside every task of its workflow. Await it in a task."
        )
    if not isinstance(task, BranchTask):
        raise WrongCall(
            f"A durable call was made in a {type(task).__qualname__} that the workflow's loop has not made: it has no "
            "place in the run. Make tasks with `asyncio.create_task`, `TaskGroup` or `gather`."
        )
    return task.branch


def _refusal(name: str) -> Callable[..., NoReturn]:
    way = _WAYS.get(name, "Do it in a function marked @step, and await that.")

    def refuse(self: RunLoop, *args: Any, **options: Any) -> NoReturn:
        close_refused(sys._getframe(1), args)
        raise WrongCall(f"Workflow code called the event loop's {name}: {_WHY.get(name, _NOT_REPLAYED)}. {way}")

    return refuse


# What people meant who came there by asyncio's sleep, wait_for and timeout.
_IN_TIME = "Wait with `await sleep(...)`, limit with `async with timeout(...)`, both from stepfast."
_WAYS = {
    "call_later": _IN_TIME,
    "call_at": _IN_TIME,
    "set_task_factory": "Make tasks with `asyncio.create_task`, `TaskGroup` or `gather`.",
}
_NOT_REPLAYED = "timers, threads and I/O cannot be replayed"
_WHY = {"set_task_factory": "the tasks of a run are its branches, and made by the run itself"}


_OUTSIDE = """
    call_later call_at run_in_executor getaddrinfo getnameinfo create_connection create_server
    create_datagram_endpoint create_unix_connection create_unix_server connect_accepted_socket
    connect_read_pipe connect_write_pipe set_task_factory subprocess_shell subprocess_exec start_tls sendfile add_reader
    add_writer remove_reader remove_writer sock_recv sock_recv_into sock_recvfrom sock_sendall
    sock_sendto sock_connect sock_accept sock_sendfile add_signal_handler run_forever run_until_complete
"""

for _name in _OUTSIDE.split():
    setattr(RunLoop, _name, _refusal(_name))

# What the base class leaves open was closed above, where type checkers do not look.
open_loop = cast("Callable[[asyncio.AbstractEventLoop, Callable[[], bool]], RunLoop]", RunLoop)
