"""What proves a run's events: the seals that cover them, found by position, and checked where the keys are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepfast.kernel.auditing import AuditFinding, Fault, check_belonging, check_events, check_leaves, check_signature
from stepfast.kernel.ids import RunId
from stepfast.kernel.seals import MAX_EVENTS, Seal, Signer
from stepfast.kernel.trail import TrailRows
from stepfast.kernel.views import EventView

# A run that goes on for months may be in thousands of seals; of these the first are looked at.
MAX_SEALS = 20


class Proof(NamedTuple):
    """The seals over a run's events, and what is wrong with them."""

    sealed: int
    unsealed: int
    seals: tuple[Seal, ...]
    is_cut: bool
    """There are more seals over these events than were looked at."""
    is_checked: bool
    """False: the keys are not known here, so nothing is said of signatures."""
    findings: tuple[AuditFinding, ...] = ()


async def prove(rows: TrailRows, events: Sequence[EventView], signer: Signer | None) -> Proof:
    """Find the seals over these events of one run, and check each for what it says of them."""
    newest = await rows.last_seal()
    upto = 0 if newest is None else newest.body.upto
    positions = sorted(event.position for event in events if event.position <= upto)
    seals: list[Seal] = []
    findings: list[AuditFinding] = []
    for position in positions:
        if seals and position <= seals[-1].body.upto:
            continue
        if len(seals) == MAX_SEALS:
            break
        seal = await _seal_over(rows, position, 0 if newest is None else newest.body.number)
        if seal is None:
            break
        seals.append(seal)
        if position <= seal.body.after:
            words = "The seal that its first events were in is gone."
            findings.append(AuditFinding(Fault.SEAL_REMOVED, seal.body.number - 1, events[0].run_id, words))
        findings += await _check(rows, seal, events[0].run_id, signer)
    is_cut = bool(seals) and positions[-1] > seals[-1].body.upto
    unsealed = len(events) - len(positions)
    return Proof(len(positions), unsealed, tuple(seals), is_cut, signer is not None, tuple(findings))


async def _seal_over(rows: TrailRows, position: int, last: int) -> Seal | None:
    """The seal that a position is in: seals lie behind each other, so half of them can be left out each time."""
    low, high = 1, last
    while low < high:
        middle = (low + high) // 2
        found = await rows.seals(middle - 1, 1)
        if not found or found[0].body.upto >= position:
            high = middle
        else:
            low = found[0].body.number + 1
    return next(iter(await rows.seals(low - 1, 1)), None)


async def _check(rows: TrailRows, seal: Seal, run_id: RunId, signer: Signer | None) -> list[AuditFinding]:
    leaves = await rows.leaves(seal.body.number)
    own = [leaf for leaf in leaves if leaf.run_id == run_id]
    events = await rows.sealed_events(seal.body.after, seal.body.upto, MAX_EVENTS + 1)
    mine = [event for event in events if event.run_id == run_id]
    signed = [] if signer is None else list(check_signature(seal, signer))
    return [*signed, *check_leaves(seal, leaves), *check_events(seal, own, mine), *check_belonging(seal, mine)]
