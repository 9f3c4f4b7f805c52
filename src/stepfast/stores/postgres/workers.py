"""Workers and upkeep: what is asked, and how the answers read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stepfast.kernel.exchange import Beat, Enrolled, Enrolment, Holding, Turns, Upkeep, UpkeepReport
from stepfast.kernel.ids import WorkerId
from stepfast.stores.postgres.driver import Row

ENROL = """
select moment, turn_queues, turn_tenants
  from stepfast.enrol(
           $1::uuid, $2::text, $3::text, $4::integer, $5::text, $6::text, $7::text, $8::bigint, $9::text)
"""
BEAT = "select moment, alive, run_ids, tokens, wakes, holds from stepfast.beat($1::uuid)"
RETIRE = "select stepfast.retire($1::uuid, $2::text, $3::text[], $4::text[])"
GIVE_BACK = "select stepfast.give_back($1::uuid, $2::uuid[], 'its worker did not know of it')"
UPKEEP = """
select buried, returned, failed, overdue, unjoined, silent_at, definitions, silent_holds, kept
  from stepfast.upkeep($1::boolean, $2::integer, $3::integer, $4::text, $5::text, $6::text, $7::text, $8::uuid)
"""


def enrol_arguments(worker: Enrolment) -> list[object]:
    """The arguments of `ENROL`; queues and codes are JSON lists in text."""
    queues, codes = json.dumps(list(worker.queues)), json.dumps(list(worker.codes))
    lacks = json.dumps(dict(worker.lacks))
    return [worker.worker_id, worker.label, worker.host, worker.pid, queues, codes, lacks, worker.lease_ms, worker.crew]


def enrolled(answer: Sequence[Row]) -> Enrolled:
    """The answer to an enrolment."""
    moment, queues, tenants = answer[0]
    return Enrolled(moment, dict(zip(queues, tenants, strict=True)))


def retire_arguments(worker_id: WorkerId, turns: Turns | None) -> list[object]:
    """The arguments of `RETIRE`."""
    crew, served = turns or Turns("", {})
    return [worker_id, crew, list(served.keys()), list(served.values())]


def beat_of(answer: Sequence[Row]) -> Beat:
    """The answer to a heartbeat."""
    moment, alive, *columns = answer[0]
    return Beat(moment, alive, [Holding(*row) for row in zip(*columns, strict=True)])


def upkeep_arguments(request: Upkeep) -> list[object]:
    """The arguments of `UPKEEP`."""
    verdict = request.verdict
    return [request.may_bury, request.max_crashes, request.limit, *verdict, verdict.shape, request.worker_id]


def upkeep_report(answer: Sequence[Row]) -> UpkeepReport:
    """What a pass did."""
    return UpkeepReport(*answer[0])
