"""Rows of retention, in the column order of their statements, as the kernel's values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.retention import KeptRun, Policy, PrunedRun
from stepfast.stores import rows

Row = Sequence[Any]
T = TypeVar("T")

# Below every id.
FIRST_ID = "00000000-0000-0000-0000-000000000000"


def policy_of(row: Row) -> Policy:
    """A row of `list_policies`."""
    return Policy(*row)


def kept_run(row: Row) -> KeptRun:
    """A row of any statement that reads what speaks for and against letting a run go."""
    run_id, tenant, workflow, parent_wait, ended_at, last_seq, has_children, is_sealed, held = row
    told = (ended_at, last_seq, bool(has_children), bool(is_sealed), held)
    return KeptRun(RunId(str(run_id)), tenant, workflow, parent_wait, *told)


def pruned_run(row: Row) -> PrunedRun:
    """A row of `pruned_of_seal`."""
    run_id, last_seq, batch_id = row
    return PrunedRun(RunId(str(run_id)), last_seq, RunId(str(batch_id)))


class RetentionReads:
    """What every store reads for retention, by the statements that all share."""

    @abstractmethod
    async def _ask(self, name: str, parameters: dict[str, Any], view: Callable[[Row], T]) -> list[T]:
        """The rows of a shared statement, each as its view."""

    async def policies(self) -> list[Policy]:
        """Every policy."""
        return await self._ask("list_policies", {}, policy_of)

    async def ended_tenants(self) -> list[str]:
        """The tenants that have runs which have ended."""
        return await self._ask("ended_tenants", {}, lambda row: str(row[0]))

    async def ended_reach(self, tenant: str, state: str, after: int, upto: int, limit: int) -> int | None:
        """The moment by which so many ends have come."""
        given = {"tenant": tenant, "state": state, "after": after, "upto": upto, "limit": limit}
        ((reached,),) = await self._ask("ended_reach", given, tuple)
        return None if reached is None else int(reached)

    async def ended_roots(self, tenant: str, state: str, after: int, upto: int) -> list[KeptRun]:
        """The runs that nobody has started who is still there, whose newest end is between two moments."""
        given = {"tenant": tenant, "state": state, "after": after, "upto": upto}
        return await self._ask("ended_roots", given, kept_run)

    async def kept_children(self, parent_id: RunId, after: tuple[int, str], limit: int) -> list[KeptRun]:
        """A page of a run's children."""
        after_wait, after_run = after
        given = {"parent_id": parent_id, "after_wait": after_wait, "after_run": after_run or FIRST_ID, "limit": limit}
        return await self._ask("kept_children", given, kept_run)

    async def pruned_of_seal(self, number: int) -> list[PrunedRun]:
        """Those of the runs of a seal that are said to be pruned."""
        return await self._ask("pruned_of_seal", {"number": number}, pruned_run)

    async def pruned_runs(self, after: str, limit: int) -> list[tuple[RunId, bool]]:
        """Runs that are said to be pruned, and whether something of them is left."""
        given = {"after": after or FIRST_ID, "limit": limit}
        return await self._ask("pruned_runs", given, lambda row: (rows.run_id_alone(row), bool(row[1])))

    async def pruned_at(self, tenant: str | None, run_id: RunId) -> Instant | None:
        """When a run was pruned."""
        found = await self._ask("pruned_at", {"tenant": tenant, "run_id": run_id}, lambda row: Instant(row[0]))
        return found[0] if found else None

    async def unswept(self, after: str, limit: int) -> list[tuple[str, RunId]]:
        """Runs that were pruned and may have blobs outside of the database."""
        return await self._ask(
            "unswept", {"after": after or FIRST_ID, "limit": limit}, lambda row: (row[0], RunId(str(row[1])))
        )
