"""Retention in the PostgreSQL database, whose own functions see to it that nothing else goes."""

from __future__ import annotations

from collections.abc import Sequence

from stepfast.kernel.ids import RunId
from stepfast.kernel.retention import PolicyChange, PruneBatch
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.retention import RetentionReads

PRUNE = """
select stepfast.prune_runs(
    $1::uuid, $2::text, $3::bigint, $4::boolean, $5::text, $6::text, $7::uuid[], $8::integer[]
)
"""
CHANGE_POLICY = """
select stepfast.change_policy(
    $1::uuid, $2::text, $3::text, $4::bigint, $5::boolean, $6::text, $7::text, $8::text
)
"""
SWEPT = "delete from stepfast.pruned_rest where run_id = any ($1::uuid[])"


class PostgresRetention(RetentionReads):
    """What a store of this kind does for retention."""

    _cold: Pool

    async def change_policy(self, change: PolicyChange) -> str | None:
        """Set or remove a policy, with its event."""
        (row,) = await self._cold.fetch(CHANGE_POLICY, [*change, change.told])
        return None if row[0] is None else str(row[0])

    async def prune(self, batch: PruneBatch, told: str) -> str | None:
        """Delete runs with all that belongs to them, or say why not."""
        given = [batch.batch_id, batch.tenant, batch.least_ms, batch.is_sealing, batch.actor, told]
        run_ids, numbers = [run_id for run_id, _ in batch.runs], [last_seq for _, last_seq in batch.runs]
        (row,) = await self._cold.fetch(PRUNE, [*given, run_ids, numbers])
        return None if row[0] is None else str(row[0])

    async def swept(self, run_ids: Sequence[RunId]) -> None:
        """These have no blobs any more."""
        await self._cold.fetch(SWEPT, [[*run_ids]])
