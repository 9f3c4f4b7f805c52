"""What is wrong with a trail: seals against each other, leaves against their seal, events against their leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from stepfast.kernel.retention import ToldPolicies
from stepfast.kernel.seals import FIRST, NOTHING_BEFORE, Leaf, Seal, Signer, leaves_of, root_by, root_of
from stepfast.kernel.trail import Gap
from stepfast.kernel.views import EventView


class Fault(StrEnum):
    """What can be wrong; published names."""

    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    SEAL_REMOVED = "seal_removed"
    SEAL_CHANGED = "seal_changed"
    SEAL_UNSIGNED = "seal_unsigned"
    SEAL_UNKNOWN_KEY = "seal_unknown_key"
    COPY_MISSING = "copy_missing"
    COPY_DIFFERS = "copy_differs"
    PRUNED_UNPROVEN = "pruned_unproven"
    PRUNED_PARTLY = "pruned_partly"


class AuditFinding(NamedTuple):
    """One thing that is wrong, and where."""

    fault: Fault
    seal: int | None
    run_id: str | None
    message: str


class AuditReport(NamedTuple):
    """What was looked at, and what is wrong; of very many findings the first."""

    seals: int
    events: int
    unsealed: int
    """Events behind the last seal, which nothing proves yet."""
    findings: tuple[AuditFinding, ...]
    pruned: int = 0
    """Leaves whose events are provably gone by a retention policy."""
    uncopied: int = 0
    """The last seal, if it has no copy yet: whoever makes the next copies it first."""

    @property
    def is_sound(self) -> bool:
        return not self.findings


def check_chain(previous: Seal | None, seal: Seal) -> Iterator[AuditFinding]:
    """A seal against the one before it."""
    number = FIRST if previous is None else previous.body.number + 1
    if seal.body.number != number:
        missing = f"seal {number}" if seal.body.number == number + 1 else f"seals {number} to {seal.body.number - 1}"
        yield AuditFinding(Fault.SEAL_REMOVED, seal.body.number, None, f"In front of it, {missing} cannot be found.")
        return
    before, after = (NOTHING_BEFORE, 0) if previous is None else (previous.digest, previous.body.upto)
    if (seal.body.previous, seal.body.after) != (before, after):
        yield _of_seal(Fault.SEAL_CHANGED, seal, "It does not follow upon the seal in front of it.")


def check_signature(seal: Seal, signer: Signer) -> Iterator[AuditFinding]:
    """A seal against its key."""
    is_proven = signer.proves(seal.body.text, seal.key, seal.signature)
    if is_proven is None:
        words = f"It was signed with key {seal.key!r}, which is not known here. Name that key too, and verify again."
        yield _of_seal(Fault.SEAL_UNKNOWN_KEY, seal, words)
    elif not is_proven:
        yield _of_seal(Fault.SEAL_UNSIGNED, seal, f"Its signature is not that of key {seal.key!r}.")


def check_copy(seal: Seal, copy: Seal | None) -> Iterator[AuditFinding]:
    """A seal against what was kept of it outside of the database."""
    if copy is None:
        yield _of_seal(Fault.COPY_MISSING, seal, "There is no copy of it outside of the database.")
    elif copy != seal:
        yield _of_seal(Fault.COPY_DIFFERS, seal, "It is not what its copy outside of the database says.")


def check_leaves(seal: Seal, leaves: Sequence[Leaf]) -> Iterator[AuditFinding]:
    """The leaves of a seal against it."""
    if (len(leaves), root_of(leaves).hex()) != (seal.body.leaves, seal.body.root):
        yield _of_seal(Fault.SEAL_CHANGED, seal, "Its leaves are not those that were sealed.")


def check_way(seal: Seal, leaf: Leaf, way: Sequence[str]) -> Iterator[AuditFinding]:
    """A leaf against its seal, by what leads from one to the other."""
    try:
        is_its_own = root_by(leaf, way).hex() == seal.body.root
    except ValueError:
        is_its_own = False
    if not is_its_own:
        words = f"Its events {leaf.first_seq} to {leaf.last_seq} do not lead to the root of the seal."
        yield AuditFinding(Fault.SEAL_CHANGED, seal.body.number, leaf.run_id, words)


def check_events(
    seal: Seal, leaves: Sequence[Leaf], events: Iterable[EventView], pruned: Iterable[str] = ()
) -> Iterator[AuditFinding]:
    """The events that stand between a seal's positions now against its leaves; runs that were pruned may be gone."""
    there = list(events)
    found = {leaf.run_id: leaf for leaf in leaves_of(there)}
    counts = Counter(event.run_id for event in there)
    gone = frozenset(pruned)
    for leaf in leaves:
        stands = found.pop(leaf.run_id, None)
        if stands is None and leaf.run_id in gone:
            continue
        if stands != leaf:
            yield _of_run(seal, leaf, counts[leaf.run_id])
    for leaf in found.values():
        words = f"Its events {leaf.first_seq} to {leaf.last_seq} were not there when the seal was made."
        yield AuditFinding(Fault.INSERTED, seal.body.number, leaf.run_id, words)


def check_pruned(seal: Seal, flaws: Mapping[str, str | None]) -> Iterator[AuditFinding]:
    """Runs of a seal that are said to be pruned against what is to prove it."""
    for run_id, flaw in flaws.items():
        if flaw is not None:
            words = f"It is gone and said to be pruned, and the event that is to prove it {flaw}."
            yield AuditFinding(Fault.PRUNED_UNPROVEN, seal.body.number, run_id, words)


def check_policies(seal: Seal, events: Iterable[EventView], told: ToldPolicies) -> Iterator[AuditFinding]:
    """The policies by which runs went against what is told of policies; all that came before was looked at already."""
    for event in told.untold(events):
        words = "It tells of runs that went by a policy, and nothing tells that this was ever set."
        yield AuditFinding(Fault.PRUNED_UNPROVEN, seal.body.number, event.run_id, words)


def left_over(run_id: str) -> AuditFinding:
    """A run that was pruned and has events all the same."""
    return AuditFinding(Fault.PRUNED_PARTLY, None, run_id, "It was pruned, and there are events of it all the same.")


def lost(gap: Gap) -> AuditFinding:
    """An event that is missing among the others of its run."""
    return AuditFinding(Fault.REMOVED, None, gap.run_id, f"Its event {gap.seq} is gone.")


def _of_run(seal: Seal, leaf: Leaf, count: int) -> AuditFinding:
    whose, which = (seal.body.number, leaf.run_id), f"events {leaf.first_seq} to {leaf.last_seq}"
    sealed = leaf.last_seq - leaf.first_seq + 1
    if count < sealed:
        words = f"Of its {which}, {sealed - count} of {sealed} are gone."
        return AuditFinding(Fault.REMOVED, *whose, words)
    if count > sealed:
        words = f"Between its {which} there are {count - sealed} that were not there when the seal was made."
        return AuditFinding(Fault.INSERTED, *whose, words)
    return AuditFinding(Fault.CHANGED, *whose, f"Its {which} are not what they were.")


def _of_seal(fault: Fault, seal: Seal, message: str) -> AuditFinding:
    return AuditFinding(fault, seal.body.number, None, message)
