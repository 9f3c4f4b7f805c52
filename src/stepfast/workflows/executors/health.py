"""Whether an executor could do its work now, as it says itself; whatever its check does is contained."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from stepfast.kernel.texts import shown
from stepfast.workflows.executors.threads import called
from stepfast.workflows.limits import leave_behind

HealthCheck = Callable[[], Any]
"""Raises, or returns False, when something is wrong; a text that it returns is shown."""

DEFAULT_TIMEOUT_S = 5.0
# How much longer a thread may take than the check in it.
SLACK_S = 0.5
HUNG = "hung"


class Health(NamedTuple):
    """What became of one check."""

    ok: bool
    message: str
    took_ms: int


async def ask(check: HealthCheck | None, timeout_s: float = DEFAULT_TIMEOUT_S) -> Health:
    """Ask a check; one that does not answer in time is left behind and reported as hung."""
    if check is None:
        return Health(True, "it has no health check", 0)
    begun = time.monotonic()
    asking = asyncio.ensure_future(_answer(check))
    try:
        await asyncio.wait({asking}, timeout=timeout_s)
    finally:
        leave_behind(asking)
    took_ms = round((time.monotonic() - begun) * 1_000)
    if not asking.done():
        return _hung(timeout_s, took_ms)
    ok, message = (False, "its check was cancelled") if asking.cancelled() else asking.result()
    return Health(ok, message, took_ms)


async def ask_apart(check: HealthCheck | None, timeout_s: float = DEFAULT_TIMEOUT_S) -> Health:
    """The same in a thread and an event loop of its own: also for one that blocks, or cannot be called off."""
    if check is None:
        return await ask(None)
    answered = await ask(lambda: asyncio.run(ask(check, timeout_s)), timeout_s + SLACK_S)
    return answered if answered.ok or not answered.message.startswith(HUNG) else _hung(timeout_s, answered.took_ms)


def _hung(timeout_s: float, took_ms: int) -> Health:
    return Health(False, f"{HUNG}: it gave no answer within {timeout_s:g} s", took_ms)


async def _answer(check: HealthCheck) -> tuple[bool, str]:
    try:
        answer = await called(check, check)
    except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - other people's code, and SystemExit would end the event loop
        return False, f"{type(error).__name__}: {error}".rstrip(": ")
    return _told(answer)


def _told(answer: object) -> tuple[bool, str]:
    if isinstance(answer, Health):
        return bool(answer.ok), str(answer.message)
    if answer is None or answer is True:
        return True, "ok"
    if isinstance(answer, str):
        return True, answer
    return False, "it says that it is not" if answer is False else f"its check answered {shown(answer)}"
