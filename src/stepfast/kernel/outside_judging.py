"""What a call back, or the end of the time for it, means for a run: of several that come together one counts."""

from __future__ import annotations

import json
from typing import assert_never

from stepfast.kernel.commands import Change, LockedRun, Request, telling
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, StepfastError
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.outside import (
    CALLBACK,
    CallBack,
    CallbackAct,
    CallbackExpired,
    CallbackForeign,
    CallbackUsed,
    CallbackWrong,
    ExpireCall,
    LockedCall,
    NewMessage,
    OutsideCommand,
    message_name,
)
from stepfast.kernel.states import STEP_ENDED, StepState

EXPIRED = json.dumps({"expired": True})
NOTHING_RECORDED = LockedCall(None, None, False)


def judge_outside(run: LockedRun, request: Request, command: OutsideCommand, now: Instant) -> Change:
    """The change that a command makes of a step that waits for outside work."""
    match command:
        case CallBack():
            return call_back(run, request, command, now)
        case ExpireCall():
            return expire(run, command, now)
        case _:
            assert_never(command)


def call_back(run: LockedRun, request: Request, command: CallBack, now: Instant) -> Change:
    """Somebody says what became of outside work. Every attempt is told of, also one that is refused."""
    refusal = _why_not(run, command, now)
    if refusal is not None:
        return telling(run, (_submitted(command, request, now, refusal.code),))._replace(refusal=refusal)
    if command.act is CallbackAct.PROGRESS:
        event = Event(EventType.STEP_PROGRESS, now, command.call.address, actor=request.actor, data=command.value)
        return telling(run, (event,))
    told = telling(run, (_submitted(command, request, now, command.act),))
    return told._replace(message=_message(command, command.value))


def expire(run: LockedRun, command: ExpireCall, now: Instant) -> Change:
    """The time is over by the database's clock, unless an end has come before."""
    call = run.call or NOTHING_RECORDED
    if command.generation != run.generation or call.is_answered or call.state is not StepState.WAITING:
        raise IllegalMove(f"Step {command.call.address} of run {run.run_id} waits for no outside work any more.")
    if call.due_at is None or call.due_at > now:
        raise IllegalMove(f"The outside work of step {command.call.address} of run {run.run_id} still has time.")
    return Change(run.state, message=_message(command, EXPIRED))


def wrong_callback() -> CallbackWrong:
    """What somebody shows is no token that was handed out."""
    return CallbackWrong("The callback token is wrong. Copy it whole, as the step handed it out.")


def _why_not(run: LockedRun, command: CallBack, now: Instant) -> StepfastError | None:
    """The first reason why this call back does not count."""
    call = run.call or NOTHING_RECORDED
    if command.tenant not in (None, run.tenant):
        return CallbackForeign("The callback token is for another tenant.")
    if command.generation != run.generation:
        return CallbackForeign(
            "The callback token is for an earlier generation of its run, which has begun anew since."
        )
    if call.is_answered or call.state in STEP_ENDED:
        return CallbackUsed("The outside work of this callback token has its end already; the first counts.")
    if run.task is None:
        return CallbackExpired(f"Run {run.run_id} is {run.state}: it waits for no call back any more.")
    if command.expires_at <= now or (call.due_at is not None and call.due_at <= now):
        return CallbackExpired("The time of the callback token is over.")
    return None


def _message(command: OutsideCommand, value: str) -> NewMessage:
    return NewMessage(CALLBACK, message_name(command.generation, command.call), value)


def _submitted(command: CallBack, request: Request, now: Instant, outcome: str) -> Event:
    data = json.dumps({"outcome": outcome})
    return Event(EventType.CALLBACK_SUBMITTED, now, command.call.address, actor=request.actor, data=data)
