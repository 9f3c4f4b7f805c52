"""What a workflow's code calls to wait: for time, or for a signal."""

from __future__ import annotations

from asyncio import events
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import WrongCall
from stepfast.kernel.texts import check_text
from stepfast.workflows.branches import ask_blocking, thread_branch
from stepfast.workflows.calls import Operation
from stepfast.workflows.codec import ValueCodec
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.steps import ask_durably
from stepfast.workflows.wait_calls import ReceiveCall, SleepCall

T = TypeVar("T")


def sleep(duration: Duration) -> Awaitable[None]:
    """Wait durably: `await sleep("5m")`, in a `def` workflow `sleep("5m")`. The run holds no worker meanwhile."""
    call: Awaitable[None] = ask("sleep", SleepCall(span_ms(duration, "The duration of sleep")))
    return call


@overload
def receive(name: str, type: type[T], timeout: Duration | None = None) -> Awaitable[T]: ...


@overload
def receive(name: str, type: Any = None, timeout: Duration | None = None) -> Awaitable[Any]: ...


def receive(name: str, type: Any = None, timeout: Duration | None = None) -> Any:
    """Wait for the next signal of that name; raises WaitTimeout when none comes in time.

    Signals of one name are taken in order of arrival, each once; those that came before are not lost.
    """
    codec = ValueCodec(Any if type is None else type, f"signal {name!r}")
    timeout_ms = None if timeout is None else span_ms(timeout, "The timeout of receive")
    return ask("receive", ReceiveCall(check_text("The signal's name", name), codec, timeout_ms))


def ask(what: str, operation: Operation) -> Any:
    """Make a durable call in the form that the workflow at hand needs: a coroutine, or a call that blocks."""
    loop = events._get_running_loop()
    if isinstance(loop, RunLoop):
        return ask_durably(loop, operation)
    branch = thread_branch()
    if loop is None and branch is not None:
        return ask_blocking(branch, operation)
    raise WrongCall(f"{what}(...) was called outside the code of a workflow; a step's body cannot wait durably.")
