"""How long an app's store keeps runs: policies for tenants and workflows, and the pruning by them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from stepfast.base import AppBase
from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, NotFound
from stepfast.kernel.ids import RANDOM_BITS, RunId, new_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.retention import ALL, Policy, PolicyChange, check_told, policy_for
from stepfast.kernel.texts import MAX_NOTE, check_optional_text, check_text

# Most processes never prune by hand.
if TYPE_CHECKING:
    from stepfast.engine.pruning import PruneReport

FOREVER = "forever"
MAX_FAMILIES = 1_000_000
# Below, a slip of the unit would let runs go that people still look at.
SHORTEST_MS = 60_000
_KEYS = UUID("5d0f9c1e-6b0e-4a60-9a4c-6c1f5a1e7d11")


class Retention:
    """The retention policies on an app's store. Without a policy runs are kept for ever."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def set(
        self,
        keep: Duration,
        *,
        tenant: str | None = None,
        workflow: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        key: str | None = None,
    ) -> Policy:
        """Keep runs for so long after their end, as in `"90d"`, or `"forever"`: of a tenant, a workflow, both, or all.

        The most specific policy counts: that of tenant and workflow, else of the tenant, of the workflow, of all.
        """
        change = self._change(tenant, workflow, reason, actor, key)._replace(keep_ms=_keep_ms(keep))
        await self._make(change)
        policy = self._exact(await self.list(), change.tenant, change.workflow)
        return policy or Policy(*change[1:4], change.actor, change.reason)

    async def remove(
        self,
        *,
        tenant: str | None = None,
        workflow: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        key: str | None = None,
    ) -> None:
        """Take a policy back; runs that it was for go by the next one that fits, or are kept for ever."""
        change = self._change(tenant, workflow, reason, actor, key)._replace(is_removed=True)
        if key is None and self._exact(await self.list(), change.tenant, change.workflow) is None:
            raise NotFound(f"There is no policy for {_scope(change)}. See `stepfast retention list`.")
        await self._make(change)

    async def list(self) -> Sequence[Policy]:
        """Every policy; an empty tenant or workflow means all."""
        return await self._app._open_parts().store.policies()

    async def get(self, workflow: str, *, tenant: str | None = None) -> Policy | None:
        """The policy that counts for runs of a workflow; None: they are kept for ever."""
        whose = self._app.tenant if tenant is None else check_text("tenant", tenant)
        return policy_for(await self.list(), whose, check_text("workflow", workflow))

    async def prune(
        self,
        *,
        older_than: Duration | None = None,
        tenant: str | None = None,
        workflow: str | None = None,
        limit: int | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> PruneReport:
        """Let go now the runs that were kept long enough; workers do so by themselves.

        With `older_than` runs without a policy go too, if they ended longer ago than that; those with a policy stay as
        long as that says in any case. `limit` is the number of families, a run with all that it has started each.
        """
        from stepfast.engine.pruning import PruneScope

        parts, least_ms = self._app._open_parts(), None if older_than is None else span_ms(older_than, "older_than")
        most = None if limit is None else check_whole("limit", limit, 1, MAX_FAMILIES)
        which = (check_optional_text("tenant", tenant), check_optional_text("workflow", workflow))
        scope = PruneScope(*which, least_ms, most, dry_run, check_optional_text("actor", actor))
        return await parts.pruner().prune(scope)

    async def _make(self, change: PolicyChange) -> None:
        check_told(change, await self._app._open_parts().store.change_policy(change))

    def _change(
        self, tenant: str | None, workflow: str | None, reason: str | None, actor: str | None, key: str | None
    ) -> PolicyChange:
        names = (check_optional_text("tenant", tenant) or ALL, check_optional_text("workflow", workflow) or ALL)
        why = None if reason is None else check_text("reason", reason, MAX_NOTE)
        who = check_optional_text("actor", actor)
        return PolicyChange(self._id_for(key), *names, None, False, who, why)

    def _id_for(self, key: str | None) -> RunId:
        """What the event is under: the same key has the same id, so that a change sent twice is one."""
        if key is None:
            return RunId(new_id(self._app._clock.now(), secrets.randbits(RANDOM_BITS)))
        return RunId(str(uuid5(_KEYS, check_text("key", key))))

    def _exact(self, policies: Sequence[Policy], tenant: str, workflow: str) -> Policy | None:
        return next((each for each in policies if (each.tenant, each.workflow) == (tenant, workflow)), None)


def _keep_ms(keep: Duration) -> int | None:
    if keep == FOREVER:
        return None
    span = span_ms(keep, "keep")
    if span < SHORTEST_MS:
        raise Invalid(f'keep is {keep!r}; it must be a minute or more, or "{FOREVER}".')
    return span


def _scope(change: PolicyChange) -> str:
    tenant = f"tenant {change.tenant!r}" if change.tenant else "all tenants"
    return f"{tenant} and {f'workflow {change.workflow!r}' if change.workflow else 'all workflows'}"
