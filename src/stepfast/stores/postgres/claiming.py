"""Claims: what is asked, and the runs that come back."""

from __future__ import annotations

from collections.abc import Sequence

from stepfast.kernel.decisions import HeldRun, Joins, Record
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Claim, Claimed
from stepfast.stores import rows
from stepfast.stores.postgres.driver import Row

# The leases are written by one function and what they hand out is read by another, in a younger snapshot; a claim of
# nothing still answers with a row, for the sake of the next moment.
CLAIM = """
select c.next_due_at, h.*
  from stepfast.claim($1::uuid, $2::text[], $3::integer[], $4::text[], $5::text[], $6::integer, $7::text[]) c
  left join lateral stepfast.held_runs(c.claimed) h on true
"""

RECORDS = "select * from stepfast.records($1::uuid[])"


def claim_arguments(request: Claim) -> list[object]:
    """The arguments of `CLAIM`."""
    names, rooms, after = zip(*request.queues, strict=True) if request.queues else ((), (), ())
    tenants = None if request.tenants is None else list(request.tenants)
    return [request.worker_id, names, rooms, after, list(request.codes), max(1, request.burst), tenants]


def claimed(answer: Sequence[Row]) -> Claimed:
    """The runs handed out, in order."""
    return Claimed([_held_run(row) for row in answer if row[1] is not None], answer[0][0])


def records_by_run(run_ids: Sequence[RunId], answer: Sequence[Row]) -> dict[RunId, list[Record]]:
    """The records of each run, in order; a run without any has an empty list."""
    found: dict[RunId, list[Record]] = {run_id: [] for run_id in run_ids}
    for run_id, *row in answer:
        found[run_id].append(rows.record(row))
    return found


def _held_run(row: Row) -> HeldRun:
    place, (parent_id, parent_wait), origin = row[1:19], row[19:21], row[21:]
    joins = None if parent_id is None else Joins(parent_id, parent_wait)
    return HeldRun(*place, joins, *origin)
