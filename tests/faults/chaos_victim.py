"""A worker process of a trial: every body records itself, with the token that it runs under.

Called as `python -m tests.faults.chaos_victim OPTIONS` with a JSON object: database, trace (the file that bodies are
recorded in), ears (whom it tells of what it has stored), linger (seconds that each body takes), broken (a guard to take
out).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepfast import Retry, Stepfast, WorkerSettings, step, workflow
from stepfast.engine.committer import Committer
from stepfast.kernel.decisions import Decision
from stepfast.kernel.exchange import Saving
from stepfast.stores.sqlite import claiming, workers
from stepfast.workflows.bodies import current_step
from tests.support.promises import START, Body
from tests.support.victims import tell_of_calls

STEPS = 5
LEASE_MS = 1_000
HASTY = WorkerSettings(lease_ms=LEASE_MS, heartbeat_ms=200, poll_ms=50, upkeep_ms=100, grace_ms=0)
FAILURES = 0.1
LATE_S = 0.1
SEEN_FOR_MS = 150
OPTIONS: dict[str, Any] = {}


@step(retry=Retry(attempts=50, base="10ms", jitter=0))
async def work(number: int, index: int, given: str) -> str:
    with recorded(given) as body:
        await asyncio.to_thread(threading.Event().wait, OPTIONS["linger"])
        if random.random() < FAILURES:
            raise ConnectionError("away")
        body["gave"] = uuid.uuid4().hex
        return str(body["gave"])


@workflow
async def relay(number: int) -> list[str]:
    """Each step is given what the one before it gave, which is another thing each time."""
    values = [START]
    for index in range(STEPS):
        values.append(await work(number, index, values[-1]))
    return values[1:]


@contextmanager
def recorded(given: str) -> Iterator[dict[str, str | None]]:
    """Record that a body begins, and that it ends, however it does."""
    info = current_step.get()
    body: dict[str, str | None] = {"gave": None}
    whose = {"body": uuid.uuid4().hex, "pid": os.getpid()}
    call = f"{info.call.path}/{info.call.name}/{info.call.nth}"
    write({**whose, "run_id": info.run.run_id, "token": info.run.token, "call": call, "given": given})
    try:
        yield body
    finally:
        write({**whose, **body})


def write(line: dict[str, Any]) -> None:
    # One write of a short line to a file opened for appending is never torn, also not by a kill. The clock is the same
    # for all processes.
    trace = os.open(OPTIONS["trace"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(trace, (json.dumps({**line, "at": time.monotonic_ns()}) + "\n").encode())
    os.close(trace)


def bodies_of(trace: Path) -> list[Body]:
    """Every body that began, in order."""
    begun: dict[str, Body] = {}
    for line in map(json.loads, trace.read_text().splitlines() if trace.exists() else ()):
        if "run_id" in line:
            whose = (line["run_id"], line["call"], line["token"], line["pid"])
            begun[line["body"]] = Body(*whose, line["at"], None, line["given"], None)
        else:
            begun[line["body"]] = begun[line["body"]]._replace(ended_at=line["at"], gave=line["gave"])
    return list(begun.values())


def answer_first() -> None:
    """Take out "saved before seen": a decision is answered at once, and saved a while later."""
    save = Committer._save_until_answered
    turn = asyncio.Lock()
    late: set[asyncio.Task[None]] = set()

    async def save_late(self: Committer, decisions: list[Decision]) -> None:
        async with turn:
            await asyncio.to_thread(threading.Event().wait, LATE_S)
            await save(self, decisions)

    async def answer(self: Committer, decisions: list[Decision]) -> list[Saving]:
        late.add(asyncio.create_task(save_late(self, decisions)))
        return [Saving.SAVED for _ in decisions]

    Committer._save_until_answered = answer  # type: ignore[method-assign]


# Leases that end by themselves after a while, however alive their holder: nobody is told that one was lost.
GIVE_OUT_AGAIN = f"""
update task set state = 'ready', worker_id = null
 where queue = :queue and state = 'leased' and since_at < :now - {SEEN_FOR_MS}
"""
GIVE_OUT_AGAIN_ON_POSTGRES = f"""begin
    update stepfast.task t set state = 'ready', worker_id = null
     where t.queue = p_queue and t.state = 'leased' and t.since_at < moment - {SEEN_FOR_MS};"""


def give_out_again() -> None:
    """Take out that a lease lasts as long as its holder beats; on PostgreSQL the database itself is changed."""
    claiming.SQL["promote_due"] += f";{GIVE_OUT_AGAIN}"
    # A claim that sees nothing ready, or due, would not come so far.
    claiming.look = lambda connection, request: None
    workers.SQL["standing"] = "select label, :queues from worker where worker_id = :worker_id and :now > 0"


GUARDS = {"saved-before-seen": answer_first, "lease": give_out_again}


async def main() -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with Stepfast(OPTIONS["database"], workflows=[relay], worker=HASTY) as app:
        # Upkeep too, for it ends runs: and so a worker is heard of as long as it lives.
        tell_of_calls(app._open_parts().store, Path(OPTIONS["ears"]), "save", "change", "upkeep")
        await told.wait()


if __name__ == "__main__":
    OPTIONS.update(json.loads(sys.argv[1]))
    if "broken" in OPTIONS:
        GUARDS[OPTIONS["broken"]]()
    asyncio.run(main())
