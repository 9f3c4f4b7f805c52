"""What comes for a run: how it is brought, and how its holder reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from stepfast.kernel.decisions import History
from stepfast.kernel.exchange import Delivered, Delivery, Look
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState
from stepfast.stores import rows
from stepfast.stores.postgres import claiming
from stepfast.stores.postgres.driver import Row

T = TypeVar("T")

DELIVER = """
select state, queue, worker_id
  from stepfast.deliver($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text)
"""
WAITS = "select * from stepfast.waits($1::uuid[])"
MESSAGES = "select * from stepfast.messages($1::uuid[])"
WAKES = "select t.token, t.wakes, t.hold, t.deadline_at from stepfast.task t where t.run_id = $1::uuid"

Fetch = Callable[[str, Sequence[object]], Awaitable[Sequence[Row]]]


async def deliver(fetch: Fetch, delivery: Delivery) -> Delivered:
    """Bring something to a run."""
    ((state, queue, worker_id),) = await fetch(DELIVER, list(delivery))
    if state is None:
        return Delivered(None)
    return Delivered(RunState(state), queue or "", None if worker_id is None else WorkerId(worker_id))


async def histories(fetch: Fetch, run_ids: Sequence[RunId]) -> dict[RunId, History]:
    """All that the code of runs goes on from."""
    runs = [list(run_ids)]
    records = claiming.records_by_run(run_ids, await fetch(claiming.RECORDS, runs))
    waits = by_run(await fetch(WAITS, runs), rows.open_wait)
    inbox = by_run(await fetch(MESSAGES, runs), rows.message)
    return {run_id: History(records[run_id], waits.get(run_id, []), inbox.get(run_id, [])) for run_id in run_ids}


async def look(fetch: Fetch, run_id: RunId) -> Look | None:
    """What has come for a run. Its wakes are read first: what comes later is not missed, only seen twice."""
    found = await fetch(WAKES, [run_id])
    if not found:
        return None
    token, wakes, hold, deadline_at = found[0]
    waits = by_run(await fetch(WAITS, [[run_id]]), rows.open_wait)
    inbox = by_run(await fetch(MESSAGES, [[run_id]]), rows.message)
    return Look(token, wakes, hold, waits.get(run_id, []), inbox.get(run_id, []), deadline_at)


def by_run(answer: Sequence[Row], view: Callable[[Row], T]) -> dict[RunId, list[T]]:
    """The views of each run's rows; the id of the run comes first in a row."""
    found: dict[RunId, list[T]] = {}
    for run_id, *row in answer:
        found.setdefault(RunId(run_id), []).append(view(row))
    return found
