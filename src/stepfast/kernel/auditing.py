"""What is wrong with a trail: seals against each other, leaves against their seal, events against their leaves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from stepfast.kernel.events import EventType
from stepfast.kernel.origins import correlation_of, told_correlation
from stepfast.kernel.retention import ToldPolicies
from stepfast.kernel.seals import FIRST, NOTHING_BEFORE, Leaf, Seal, Signer, leaves_of, root_by, root_of
from stepfast.kernel.trail import Gap
from stepfast.kernel.views import EventView

# Of very many holes in the numbers of a run the first are named.
MAX_SPANS = 10


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


CODES: Mapping[Fault, str] = {
    Fault.CHANGED: "E-AUD-001",
    Fault.REMOVED: "E-AUD-002",
    Fault.INSERTED: "E-AUD-003",
    Fault.SEAL_REMOVED: "E-AUD-004",
    Fault.SEAL_CHANGED: "E-AUD-005",
    Fault.SEAL_UNSIGNED: "E-AUD-006",
    Fault.SEAL_UNKNOWN_KEY: "E-AUD-007",
    Fault.COPY_MISSING: "E-AUD-008",
    Fault.COPY_DIFFERS: "E-AUD-009",
    Fault.PRUNED_UNPROVEN: "E-AUD-010",
    Fault.PRUNED_PARTLY: "E-AUD-011",
}
"""Published like the names; neither is ever given to anything else."""


class AuditFinding(NamedTuple):
    """One thing that is wrong, and where."""

    fault: Fault
    seal: int | None
    run_id: str | None
    message: str

    @property
    def code(self) -> str:
        """Its stable code, as of errors."""
        return CODES[self.fault]


class AuditReport(NamedTuple):
    """What was looked at, and what is wrong; of very many findings the first."""

    seals: int
    events: int
    unsealed: int
    """Events behind the last seal, which nothing proves yet."""
    findings: tuple[AuditFinding, ...]
    pruned: int = 0
    """Runs that are provably gone by a retention policy."""
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
    numbers = defaultdict[str, list[int]](list)
    for event in there:
        numbers[event.run_id].append(event.seq)
    gone = frozenset(pruned)
    for leaf in leaves:
        stands = found.pop(leaf.run_id, None)
        if stands is None and leaf.run_id in gone:
            continue
        if stands != leaf:
            yield _of_run(seal, leaf, numbers[leaf.run_id])
    for leaf in found.values():
        yield AuditFinding(Fault.INSERTED, seal.body.number, leaf.run_id, _inserted(numbers[leaf.run_id]))


def check_pruned(seal: Seal, flaws: Mapping[str, str | None]) -> Iterator[AuditFinding]:
    """Runs of a seal that are said to be pruned against what is to prove it."""
    for run_id, flaw in flaws.items():
        if flaw is not None:
            words = f"It is gone and said to be pruned, and the event that is to prove it {flaw}."
            yield AuditFinding(Fault.PRUNED_UNPROVEN, seal.body.number, run_id, words)


def count_pruned(leaves: Iterable[Leaf], flaws: Mapping[str, str | None]) -> int:
    """How many runs that are provably pruned have begun in a seal: each counts once, in however many seals it is."""
    proven = {run_id for run_id, flaw in flaws.items() if flaw is None}
    return sum(leaf.first_seq == 1 and leaf.run_id in proven for leaf in leaves)


def check_policies(seal: Seal, events: Iterable[EventView], told: ToldPolicies) -> Iterator[AuditFinding]:
    """The policies by which runs went against what is told of policies; all that came before was looked at already."""
    for event in told.untold(events):
        words = "It tells of runs that went by a policy, and nothing tells that this was ever set."
        yield AuditFinding(Fault.PRUNED_UNPROVEN, seal.body.number, event.run_id, words)


def check_correlation(seal: Seal | None, event: EventView, told: str) -> Iterator[AuditFinding]:
    """What an event is shown as belonging to, which is stored with its run, against what the run's first event says."""
    belongs = correlation_of(event.run_id, event.correlation_id)
    if belongs != told:
        words = f"Its event {event.seq} is shown with correlation id {belongs!r}, and its first event says {told!r}."
        yield AuditFinding(Fault.CHANGED, None if seal is None else seal.body.number, event.run_id, words)


def check_belonging(seal: Seal, events: Iterable[EventView]) -> Iterator[AuditFinding]:
    """What the runs that begin in a seal are shown as belonging to now."""
    for event in events:
        if event.type == EventType.QUEUED:
            yield from check_correlation(seal, event, told_correlation(event))


def left_over(run_id: str) -> AuditFinding:
    """A run that was pruned and has events all the same."""
    return AuditFinding(Fault.PRUNED_PARTLY, None, run_id, "It was pruned, and there are events of it all the same.")


def lost(gap: Gap) -> AuditFinding:
    """Events that are missing among the others of their run."""
    words = f"These events of it are gone: {_spans([(gap.first, gap.seq)])}."
    return AuditFinding(Fault.REMOVED, None, gap.run_id, words)


def _of_run(seal: Seal, leaf: Leaf, numbers: Sequence[int]) -> AuditFinding:
    whose, span = (seal.body.number, leaf.run_id), (leaf.first_seq, leaf.last_seq)
    sealed = leaf.last_seq - leaf.first_seq + 1
    if len(numbers) < sealed:
        words = f"Of its events {_spans([span])}, these are gone: {_spans(_holes(*span, numbers))}."
        return AuditFinding(Fault.REMOVED, *whose, words)
    if len(numbers) > sealed:
        within = {number for number in numbers if leaf.first_seq <= number <= leaf.last_seq}
        return AuditFinding(Fault.INSERTED, *whose, _inserted((Counter(numbers) - Counter(within)).elements()))
    return AuditFinding(Fault.CHANGED, *whose, f"These events of it are not what they were: {_spans([span])}.")


def _inserted(numbers: Iterable[int]) -> str:
    runs = list[tuple[int, int]]()
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return f"These events of it were not there when the seal was made: {_spans(runs)}."


def _holes(first: int, last: int, numbers: Iterable[int]) -> list[tuple[int, int]]:
    """What is missing between two numbers; they may be anything, so that nothing counts from one to the other."""
    holes, begins = list[tuple[int, int]](), first
    for number in [*sorted(number for number in numbers if first <= number <= last), last + 1]:
        if number > begins:
            holes.append((begins, number - 1))
        begins = number + 1
    return holes


def _spans(spans: Sequence[tuple[int, int]]) -> str:
    named = [str(first) if first == last else f"{first} to {last}" for first, last in spans[:MAX_SPANS]]
    return ", ".join([*named, "..."] if len(spans) > MAX_SPANS else named)


def _of_seal(fault: Fault, seal: Seal, message: str) -> AuditFinding:
    return AuditFinding(fault, seal.body.number, None, message)
