"""A worker process to be killed: it leaves a trace of every body that really ran, and dies where it is told to.

Called as `python -m tests.faults.victim OPTIONS` with a JSON object: database, trace, start (how many runs to start),
die_after (how many bodies run before it dies), die_at (run number and step number), wait_at (the same: the body waits
there at a `gate`), ears (whom it tells that its worker is there, and of every body), linger (seconds that each body
takes), die_when ("started": right behind the commit of its starts), deaf (no hints come or go), broken (a guard to take
out).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from stepfast import Stepfast, step, workflow
from stepfast.engine.committer import Committer
from stepfast.engine.hints import Hints
from stepfast.kernel.decisions import Decision
from stepfast.kernel.exchange import Saving
from tests.support.apps import MORTAL
from tests.support.victims import pass_gate, tell

STEPS = 5
OPTIONS: dict[str, Any] = {}


@step
async def work(number: int, index: int) -> int:
    leave_trace(number, index)
    OPTIONS["ran"] = OPTIONS.get("ran", 0) + 1
    if OPTIONS.get("die_at") == [number, index] or OPTIONS.get("die_after") == OPTIONS["ran"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if OPTIONS.get("wait_at") == [number, index]:
        await asyncio.to_thread(pass_gate, Path(OPTIONS["gate"]))
    if "linger" in OPTIONS:
        await asyncio.to_thread(threading.Event().wait, OPTIONS["linger"])
    return index


@workflow
async def chain(number: int) -> int:
    return sum([await work(number, index) for index in range(STEPS)])


def leave_trace(number: int, index: int) -> None:
    # One write of a short line to a file opened for appending is never torn, also not by a kill.
    trace = os.open(OPTIONS["trace"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(trace, f"{number} {index}\n".encode())
    os.close(trace)
    tell_others()


def tell_others() -> None:
    if "ears" in OPTIONS:
        tell(Path(OPTIONS["ears"]))


def trace_of(path: Path) -> list[tuple[int, int]]:
    """Every body that ran, in order: run number, step number."""
    if not path.exists():
        return []
    pairs = [line.split() for line in path.read_text().splitlines()]
    return [(int(number), int(index)) for number, index in pairs]


def acknowledge_before_the_commit() -> None:
    """Take out "saved before seen": decisions count as saved while they are only in memory."""

    async def forget(self: Committer, decisions: list[Decision]) -> list[Saving]:
        return [Saving.SAVED for _ in decisions]

    Committer._save_until_answered = forget  # type: ignore[method-assign]


def send_and_hear_nothing() -> None:
    """Hints between processes get lost."""
    Hints.send = lambda self, topic: None  # type: ignore[method-assign]
    Hints._heard = lambda self, topic: None  # type: ignore[method-assign]


def die_behind_a_start(app: Stepfast) -> None:
    """Die when runs are stored, before anybody hears of it."""
    store: Any = app._parts.store if app._parts else None
    start = store.start

    async def start_and_die(*args: Any, **named: Any) -> None:
        await start(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    store.start = start_and_die


GUARDS = {"saved-before-seen": acknowledge_before_the_commit}


async def main() -> None:
    async with Stepfast(OPTIONS["database"], workflows=[chain], worker=MORTAL) as app:
        tell_others()
        if OPTIONS.get("die_when") == "started":
            die_behind_a_start(app)
        await asyncio.gather(*(app.start(chain, number, key=str(number)) for number in range(OPTIONS.get("start", 0))))
        await asyncio.Event().wait()


if __name__ == "__main__":
    OPTIONS.update(json.loads(sys.argv[1]))
    if "broken" in OPTIONS:
        GUARDS[OPTIONS["broken"]]()
    if OPTIONS.get("deaf"):
        send_and_hear_nothing()
    asyncio.run(main())
