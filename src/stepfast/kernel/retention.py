"""Retention: how long runs are kept, which may go, and what proves later that they went by a policy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused, NotFound
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.seals import Leaf, Signer
from stepfast.kernel.views import EventView

ALL = ""
"""In the place of a tenant or a workflow: every one."""


class Policy(NamedTuple):
    """How long runs are kept after their end: those of a tenant, a workflow, both, or all."""

    tenant: str
    workflow: str
    keep_ms: int | None
    """None: for ever."""
    actor: str | None = None
    reason: str | None = None
    changed_at: Instant = Instant(0)


class PolicyChange(NamedTuple):
    """A policy to be set, or removed."""

    change_id: RunId
    """What its event is under; the same for the same key."""
    tenant: str
    workflow: str
    keep_ms: int | None
    is_removed: bool = False
    actor: str | None = None
    reason: str | None = None

    @property
    def told(self) -> str:
        """What its event says."""
        facts: dict[str, Any] = {"tenant": self.tenant or None, "workflow": self.workflow or None}
        facts |= {"removed": True} if self.is_removed else {"keep_ms": self.keep_ms}
        return json.dumps(facts if self.reason is None else {**facts, "reason": self.reason})


def check_told(change: PolicyChange, told_before: str | None) -> None:
    """Refuse a key that was used for another change."""
    if told_before is not None and told_before != change.told:
        raise KeyReused("This key was used for another change of a retention policy. Use a new key for a new change.")


def policy_for(policies: Iterable[Policy], tenant: str, workflow: str) -> Policy | None:
    """The policy for a run: that of its tenant and workflow, else of its tenant, of its workflow, of all."""
    fitting = (each for each in policies if each.tenant in (tenant, ALL) and each.workflow in (workflow, ALL))
    return max(fitting, key=lambda each: (each.tenant != ALL, each.workflow != ALL), default=None)


def keep_ms(policy: Policy | None, least_ms: int | None) -> int | None:
    """How long a run is kept: as its policy says, and no less than what was asked for; None: for ever."""
    if policy is None:
        return least_ms
    return None if policy.keep_ms is None else max(policy.keep_ms, least_ms or 0)


def shortest_ms(policies: Iterable[Policy], tenant: str, least_ms: int | None) -> int | None:
    """No run of a tenant may go sooner than this after its end; None: none ever."""
    own = [each for each in policies if each.tenant in (tenant, ALL)]
    spans = [span for each in own if (span := keep_ms(each, least_ms)) is not None]
    return min(spans if least_ms is None else [*spans, least_ms], default=None)


class Held(StrEnum):
    """Why a run cannot go although it is old enough; published names."""

    OPEN = "open"
    YOUNG = "young"
    KEPT = "kept"
    DEAD_LETTER = "dead_letter"
    EXCEPTION = "exception"
    OUTSIDE = "outside"
    UNSEALED = "unsealed"
    SINK = "sink"
    DAMAGED = "damaged"
    CHILDREN = "children"
    CHANGED = "changed"
    GONE = "gone"


class KeptRun(NamedTuple):
    """What speaks for and against letting a run go."""

    run_id: RunId
    tenant: str
    workflow: str
    parent_wait: int | None
    ended_at: Instant | None
    last_seq: int | None
    has_children: bool
    is_sealed: bool
    held: str | None

    def why_kept(self, now: Instant, keep: int | None, is_sealing: bool) -> Held | None:
        """Why it cannot go; None when it can."""
        if self.held is not None:
            return Held(self.held)
        if keep is None:
            return Held.KEPT
        if not self._is_older(keep, now):
            return Held.YOUNG
        return Held.UNSEALED if is_sealing and not self.is_sealed else None

    def why_told(self, now: Instant, keep: int | None, is_sealing: bool, least_ms: int | None) -> Held | None:
        """The same for whoever looks for runs: `kept` is one of the age that was asked for, all others are `young`."""
        why = self.why_kept(now, keep, is_sealing)
        if why not in (Held.KEPT, Held.YOUNG):
            return why
        return Held.KEPT if least_ms is not None and self._is_older(least_ms, now) else Held.YOUNG

    def _is_older(self, span_ms: int, now: Instant) -> bool:
        return self.ended_at is not None and self.ended_at <= now - span_ms


class PrunedRun(NamedTuple):
    """A run that was pruned, with the number of its last event, and the history that tells of it."""

    run_id: RunId
    last_seq: int
    batch_id: RunId


class RunGone(NotFound):
    """A run that is no longer there: it had been kept long enough, and was pruned."""


class PruneBatch(NamedTuple):
    """Runs of one tenant that go in one transaction."""

    batch_id: RunId
    tenant: str
    policy: Policy | None
    least_ms: int | None
    """How old they must be at least besides what the policy says."""
    runs: tuple[tuple[RunId, int], ...]
    """Each with the number of its last event."""
    is_sealing: bool
    actor: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What the event says of it, besides the signature."""
        policy = None if self.policy is None else [self.policy.tenant, self.policy.workflow, self.policy.keep_ms]
        return {
            "count": len(self.runs),
            "policy": policy,
            "older_than_ms": self.least_ms,
            "runs": [*map(list, self.runs)],
        }

    def told(self, signer: Signer | None) -> str:
        """The event's data, signed where there are keys."""
        if signer is None:
            return json.dumps(self.facts)
        key, signature = signer.sign(signed_text(self.batch_id, self.tenant, self.facts))
        return json.dumps({**self.facts, "key": key, "signature": signature})


def signed_text(batch_id: str, tenant: str, facts: dict[str, Any]) -> bytes:
    """What is signed: no text of a seal begins so."""
    return json.dumps(["pruned", batch_id, tenant, facts], sort_keys=True, separators=(",", ":")).encode()


class Proof(NamedTuple):
    """What an event says of runs that were pruned; `flaw` is why it proves nothing."""

    runs: dict[str, int]
    flaw: str | None

    def flaw_for(self, leaf: Leaf, last_seq: int) -> str | None:
        """Why it does not prove that the events of a leaf were pruned; None when it does."""
        if self.flaw is not None:
            return self.flaw
        if self.runs.get(leaf.run_id) != last_seq:
            return "does not name it"
        return None if leaf.last_seq <= last_seq else f"names its first {last_seq} events only"


NO_PROOF = Proof({}, "is not there")


def proof_of(event: EventView | None, signer: Signer) -> Proof:
    """What an event of type `pruned` proves, by its signature alone."""
    if event is None or event.type != EventType.PRUNED:
        return NO_PROOF
    try:
        facts = json.loads(event.data or "")
        key, signature = facts.pop("key", None), facts.pop("signature", None)
        runs = {str(run_id): int(last_seq) for run_id, last_seq in facts["runs"]}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return Proof({}, "cannot be read")
    if not isinstance(key, str) or not isinstance(signature, str):
        return Proof(runs, "is not signed")
    is_proven = signer.proves(signed_text(event.run_id, event.tenant, facts), key, signature)
    if is_proven is None:
        return Proof(runs, f"was signed with key {key!r}, which is not known here")
    return Proof(runs, None if is_proven else f"has a signature that is not that of key {key!r}")


class ToldPolicies:
    """The policies that a trail tells of, as far as it was read; runs go by no other."""

    def __init__(self) -> None:
        self._told: set[tuple[Any, ...]] = set()

    def untold(self, events: Iterable[EventView]) -> list[EventView]:
        """Those of some more events that let runs go by a policy which nobody has set."""
        kinds = (EventType.RETENTION_CHANGED, EventType.PRUNED)
        return [event for event in events if event.type in kinds and not self._is_told(event)]

    def _is_told(self, event: EventView) -> bool:
        try:
            facts = json.loads(event.data or "")
            if event.type == EventType.PRUNED:
                return facts["policy"] is None or tuple(facts["policy"]) in self._told
            if not facts.get("removed"):
                self._told.add((facts["tenant"] or ALL, facts["workflow"] or ALL, facts["keep_ms"]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            # What cannot be read tells nothing, and proves nothing.
            return event.type != EventType.PRUNED
        return True


class RetentionRows(Protocol):
    """What a store does for retention."""

    async def policies(self) -> list[Policy]:
        """Every policy."""
        ...

    async def change_policy(self, change: PolicyChange) -> str | None:
        """Set or remove a policy, with its event; what was told under the same id before, if anything was."""
        ...

    async def ended_tenants(self) -> list[str]:
        """The tenants that have runs which have ended."""
        ...

    async def ended_reach(self, tenant: str, state: str, after: int, upto: int, limit: int) -> int | None:
        """The moment by which so many ends in a state have come behind another moment; None where there are none."""
        ...

    async def ended_roots(self, tenant: str, state: str, after: int, upto: int) -> list[KeptRun]:
        """The runs that no other has started, or none that is still there, whose newest end is between two moments.

        Each run is one of one state and moment, however often it has ended.
        """
        ...

    async def kept_children(self, parent_id: RunId, after: tuple[int, str], limit: int) -> list[KeptRun]:
        """A page of a run's children, by the wait that they count toward and their id."""
        ...

    async def prune(self, batch: PruneBatch, told: str) -> str | None:
        """Delete runs with all that belongs to them, and write the event that tells of it; or say why not.

        It is one transaction, and it sees for itself that every run can go: a name of `Held` says why one cannot, and
        then nothing has changed.
        """
        ...

    async def pruned_of_seal(self, number: int) -> list[PrunedRun]:
        """Those of the runs of a seal that are said to be pruned."""
        ...

    async def pruned_runs(self, after: str, limit: int) -> list[tuple[RunId, bool]]:
        """Runs that are said to be pruned, by id, and whether events of theirs are there all the same."""
        ...

    async def pruned_at(self, tenant: str | None, run_id: RunId) -> Instant | None:
        """When a run of a tenant, or of any, was pruned; None: it was not."""
        ...

    async def unswept(self, after: str, limit: int) -> list[tuple[str, RunId]]:
        """Runs that were pruned and may have blobs outside of the database, by id, each with its tenant."""
        ...

    async def swept(self, run_ids: Sequence[RunId]) -> None:
        """These have none any more."""
        ...
