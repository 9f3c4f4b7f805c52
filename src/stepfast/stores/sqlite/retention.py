"""Retention in the SQLite file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial

import apsw

from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.retention import Held, KeptRun, Policy, PolicyChange, PruneBatch, keep_ms, policy_for
from stepfast.stores.retention import RetentionReads, kept_run, policy_of
from stepfast.stores.sqlite.asking import fetch, moment, one, statements
from stepfast.stores.sqlite.connection import Writer
from stepfast.stores.sqlite.pending import write_events

SQL = statements("retention")


class SqliteRetention(RetentionReads):
    """What a store of this kind does for retention."""

    _writer: Writer

    async def change_policy(self, change: PolicyChange) -> str | None:
        """Set or remove a policy, with its event."""
        return await self._writer.run(partial(_change, change=change))

    async def prune(self, batch: PruneBatch, told: str) -> str | None:
        """Delete runs with all that belongs to them, or say why not."""
        return await self._writer.run(partial(_prune, batch=batch, told=told))

    async def swept(self, run_ids: Sequence[RunId]) -> None:
        """These have no blobs any more."""
        await self._writer.run(partial(_swept, run_ids=run_ids))


def _change(connection: apsw.Connection, change: PolicyChange) -> str | None:
    before = fetch(connection, SQL["told_before"], (change.change_id,))
    if before:
        return str(before[0][0])
    now = moment(connection)
    connection.execute(SQL["remove_policy" if change.is_removed else "set_policy"], {**change._asdict(), "now": now})
    told = (EventType.RETENTION_CHANGED.value, now, None, None, 0, change.actor, change.told)
    write_events(connection, [(change.change_id, 1, change.tenant, 1, *told)])
    return None


def _prune(connection: apsw.Connection, batch: PruneBatch, told: str) -> str | None:
    refusal = next(_refusals(connection, batch), None)
    if refusal is not None:
        return refusal
    now = moment(connection)
    connection.execute(SQL["begin_pruning"])
    connection.execute(SQL["delete_runs"], (_ids(batch),))
    connection.execute(SQL["end_pruning"])
    gone = [(run_id, batch.tenant, last_seq, batch.batch_id, now) for run_id, last_seq in batch.runs]
    connection.executemany(SQL["insert_pruned"], gone)
    connection.executemany(SQL["insert_rest"], [(run_id, batch.tenant) for run_id, _ in batch.runs])
    facts = (EventType.PRUNED.value, now, None, None, 0, batch.actor, told)
    write_events(connection, [(batch.batch_id, 1, batch.tenant, 1, *facts)])
    return None


def _refusals(connection: apsw.Connection, batch: PruneBatch) -> Iterator[Held]:
    """Why runs of a batch cannot go."""
    policies = [policy_of(row) for row in fetch(connection, SQL["policies"])]
    batch = batch._replace(is_sealing=batch.is_sealing or bool(one(connection, SQL["is_sealing"])))
    for run_id, last_seq in batch.runs:
        refusal = _refusal(connection, batch, policies, run_id, last_seq)
        if refusal is not None:
            yield refusal


def _refusal(
    connection: apsw.Connection, batch: PruneBatch, policies: list[Policy], run_id: RunId, last_seq: int
) -> Held | None:
    run = _kept(connection, run_id)
    if run is None or run.tenant != batch.tenant:
        return Held.GONE
    root = _kept(connection, one(connection, SQL["get_root"], (run_id,))) or run
    keep, now = keep_ms(policy_for(policies, root.tenant, root.workflow), batch.least_ms), moment(connection)
    why = run.why_kept(now, keep, batch.is_sealing)
    if why is None and run.last_seq != last_seq:
        return Held.CHANGED
    if why is None and fetch(connection, SQL["children_left"], {"run_id": run_id, "runs": _ids(batch)}):
        return Held.CHILDREN
    # Of the run that began the family its end counts, whatever else speaks against letting that one go.
    began = root._replace(held=root.held if root.held == Held.OPEN else None)
    return why or began.why_kept(now, keep, is_sealing=False)


def _kept(connection: apsw.Connection, run_id: RunId) -> KeptRun | None:
    return next(map(kept_run, fetch(connection, SQL["get_kept"], (run_id,))), None)


def _ids(batch: PruneBatch) -> str:
    return json.dumps([run_id for run_id, _ in batch.runs])


def _swept(connection: apsw.Connection, run_ids: Sequence[RunId]) -> None:
    connection.executemany(SQL["swept"], [(run_id,) for run_id in run_ids])
