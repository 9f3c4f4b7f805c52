"""Claims: what is asked, and the runs that come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepfast.kernel.decisions import HeldRun, Joins, Record
from stepfast.kernel.exchange import Claim, Claimed
from stepfast.kernel.ids import RunId
from stepfast.stores import rows
from stepfast.stores.postgres.driver import Row

# What one function has locked is leased and read by another, in a younger snapshot; a claim of nothing still answers
# with a row, for the sake of the next moment. What was locked and not leased was set aside.
CLAIM = """
select c.next_due_at, c.suspects_wait, cardinality(c.picked), h.*
  from stepfast.pick_all(
           $1::uuid, $2::text[], $3::integer[], $4::text[], $5::text[], $6::integer, $7::text[], $8::integer[]
       ) c
  left join lateral stepfast.lease($1::uuid, c.picked) h on true
"""

CLAIM_RUNS = """
select h.*
  from stepfast.pick_runs($1::uuid, $2::uuid[], $3::text[]) picked
 cross join lateral stepfast.lease($1::uuid, picked) h
"""

_PARENT = 19

RECORDS = "select * from stepfast.records($1::uuid[])"


def claim_arguments(request: Claim) -> list[object]:
    """The arguments of `CLAIM`."""
    names, rooms, after = zip(*request.queues, strict=True) if request.queues else ((), (), ())
    lists = (request.codes, max(1, request.burst), request.tenants, request.suspects)
    return [request.worker_id, names, rooms, after, *lists]


def claimed(answer: Sequence[Row]) -> Claimed | None:
    """The runs handed out, in order; None: all that were found had to be set aside, and more may be ready."""
    next_due_at, suspects_wait, picked, *_ = answer[0]
    runs = [_held_run([*row][3:]) for row in answer if row[3] is not None]
    return Claimed(runs, next_due_at, suspects_wait) if runs or not picked else None


def claimed_runs(answer: Sequence[Row]) -> list[HeldRun]:
    """Those of the runs asked for that were handed out."""
    return [_held_run([*row]) for row in answer]


def records_by_run(run_ids: Sequence[RunId], answer: Sequence[Row]) -> dict[RunId, list[Record]]:
    """The records of each run, in order; a run without any has an empty list."""
    found: dict[RunId, list[Record]] = {run_id: [] for run_id in run_ids}
    for run_id, *row in answer:
        found[run_id].append(rows.record(row))
    return found


def _held_run(fields: list[Any]) -> HeldRun:
    # Of the parent and its wait one field is made.
    parent_wait = fields.pop(_PARENT + 1)
    if fields[_PARENT] is not None:
        fields[_PARENT] = Joins(fields[_PARENT], parent_wait)
    return HeldRun(*fields)
