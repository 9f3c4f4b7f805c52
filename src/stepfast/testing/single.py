"""One step alone: its body as a run would call it, without a run."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from stepfast.kernel.decisions import CallId, HeldRun
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import RunId, WorkerId, new_id
from stepfast.kernel.ports import Clock
from stepfast.kernel.texts import shown
from stepfast.testing.clock import VirtualClock
from stepfast.workflows.bodies import StepInfo, unheard
from stepfast.workflows.limits import BodyThreads
from stepfast.workflows.steps import AsyncStep, SyncStep

T = TypeVar("T")


@overload
async def run_step(
    step: AsyncStep[..., T], /, *args: Any, attempt: int = 1, clock: Clock | None = None, **kwargs: Any
) -> T: ...


@overload
async def run_step(
    step: SyncStep[..., T], /, *args: Any, attempt: int = 1, clock: Clock | None = None, **kwargs: Any
) -> T: ...


async def run_step(
    step: AsyncStep[..., Any] | SyncStep[..., Any],
    /,
    *args: Any,
    attempt: int = 1,
    clock: Clock | None = None,
    **kwargs: Any,
) -> Any:
    """One try of a step's body: arguments and result pass through the codec, and `current_run()` answers inside.

    A result that could not be stored fails here, as it would in a run. Errors come as the body raised them; the retry
    policy and timeouts are the run's, and not tried.
    """
    if not isinstance(step, AsyncStep | SyncStep):
        raise Invalid(f"{shown(step)} is no step: mark the function with @step. An engine runs workflows.")
    body = step.body
    _, arguments = body.arguments.restore(body.arguments.bind(args, kwargs))
    info = StepInfo(_lone_run(body.name), CallId("", body.name, 1), attempt, (clock or VirtualClock()).now, unheard)
    threads = BodyThreads(1, thread_name_prefix="stepfast-step")
    try:
        _, restored = body.result.restore(await body.invoke(arguments, info, threads))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
    return restored


def _lone_run(name: str) -> HeldRun:
    now = VirtualClock().now()
    return HeldRun(
        run_id=RunId(new_id(now, 0)),
        tenant="default",
        workflow=name,
        version=0,
        kind="step",
        queue="default",
        generation=1,
        token=1,
        worker_id=WorkerId(""),
        input="{}",
        wakes=0,
        hold=False,
        claims=1,
        crashes=0,
        last_seq=0,
        last_event=0,
        queued_at=now,
    )
