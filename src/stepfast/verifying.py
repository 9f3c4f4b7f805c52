"""Verifying the trail: one walk over all seals, each against the one before, its key, its copy and its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from stepfast.kernel.auditing import (
    AuditFinding,
    AuditReport,
    Fault,
    check_belonging,
    check_chain,
    check_copy,
    check_events,
    check_leaves,
    check_policies,
    check_pruned,
    check_signature,
    count_pruned,
    left_over,
    lost,
)
from stepfast.kernel.ports import Store
from stepfast.kernel.retention import NO_PROOF, Proof, ToldPolicies, proof_of
from stepfast.kernel.seals import MAX_EVENTS, Leaf, Seal, SealCopies, Signer
from stepfast.kernel.trail import LOWEST
from stepfast.kernel.views import EventView

PAGE = 100
PRUNED_PAGE = 10_000
MAX_FINDINGS = 1_000


class Check:
    """One walk over the whole trail, a seal at a time."""

    def __init__(self, store: Store, signer: Signer, copies: SealCopies | None) -> None:
        self._store = store
        self._signer = signer
        self._copies = None if copies is None else aiter(copies.kept())
        self._ahead: Seal | None = None
        self._uncopied: Seal | None = None
        self._policies = ToldPolicies()
        self._findings: list[AuditFinding] = []
        self._seals = self._events = self._pruned = self._reached = 0

    async def whole(self) -> AuditReport:
        last: Seal | None = None
        async for seal in self._all_seals():
            await self._check(last, seal)
            del self._findings[MAX_FINDINGS:]
            last = seal
        await self._copy_of(None)
        upto = 0 if last is None else last.body.upto
        self._findings += map(lost, await self._store.gaps(upto, MAX_FINDINGS))
        await self._check_leftovers()
        unsealed = await self._store.count_behind(upto)
        found = tuple(self._findings[:MAX_FINDINGS])
        return AuditReport(self._seals, self._events, unsealed, found, self._pruned, int(self._uncopied is not None))

    async def _all_seals(self) -> AsyncIterator[Seal]:
        """Those that were there when the walk began: others go on sealing, and are on their way to the copies."""
        after, newest = 0, await self._store.last_seal()
        while newest is not None and after < newest.body.number:
            page = await self._store.seals(after, PAGE)
            for seal in page:
                if seal.body.number <= newest.body.number:
                    yield seal
            after = page[-1].body.number if page else newest.body.number

    async def _check(self, last: Seal | None, seal: Seal) -> None:
        leaves = await self._store.leaves(seal.body.number)
        after = LOWEST if last is None else seal.body.after
        events = await self._store.sealed_events(after, seal.body.upto, MAX_EVENTS + 1)
        self._findings += check_chain(last, seal)
        self._findings += check_signature(seal, self._signer)
        await self._check_copy(seal)
        self._findings += check_leaves(seal, leaves)
        flaws = await flaws_of_pruned(self._store, seal, leaves, events, self._signer)
        self._findings += check_pruned(seal, flaws)
        self._findings += check_events(seal, leaves, events, flaws)
        self._findings += check_policies(seal, events, self._policies)
        self._findings += check_belonging(seal, events)
        self._seals += 1
        self._events += len(events)
        self._pruned += count_pruned(leaves, flaws)

    async def _check_leftovers(self) -> None:
        after = ""
        while page := await self._store.pruned_runs(after, PRUNED_PAGE):
            self._findings += [left_over(run_id) for run_id, has_events in page if has_events]
            after = page[-1][0]

    async def _check_copy(self, seal: Seal) -> None:
        """A seal against its copy; the last one may have none yet, as those before are copied first."""
        if self._copies is None:
            return
        self._reached = seal.body.number
        if self._uncopied is not None:
            self._findings += check_copy(self._uncopied, None)
        copy = await self._copy_of(seal.body.number)
        self._uncopied = seal if copy is None else None
        if copy is not None:
            self._findings += check_copy(seal, copy)

    async def _copy_of(self, number: int | None) -> Seal | None:
        """The copy of a seal; those in front of it are of seals that are gone."""
        while (copy := await self._next_copy()) is not None:
            if copy.body.number == number:
                return copy
            if number is not None and copy.body.number > number:
                self._ahead = copy
                return None
            self._findings += await self._check_left_copy(copy)
            if len(self._findings) >= MAX_FINDINGS:
                break
        return None

    async def _check_left_copy(self, copy: Seal) -> Iterable[AuditFinding]:
        """A copy that no seal was waiting for: the seal is gone, or the copy stands where it was never written."""
        number, there = copy.body.number, await self._store.seals(copy.body.number - 1, 1)
        if number > self._reached and there == [copy]:
            # It was made since the walk began.
            return ()
        if number <= self._reached and there and there[0].body.number == number:
            words = "A copy of it stands behind those of later seals, or twice."
            return (AuditFinding(Fault.COPY_DIFFERS, number, None, words),)
        words = "A copy of it is outside of the database, and it is no longer there itself."
        return (AuditFinding(Fault.SEAL_REMOVED, number, None, words),)

    async def _next_copy(self) -> Seal | None:
        if self._ahead is not None:
            copy, self._ahead = self._ahead, None
            return copy
        return None if self._copies is None else await anext(self._copies, None)


async def proofs_of_pruned(
    store: Store, seal: Seal, leaves: Sequence[Leaf], events: Sequence[EventView]
) -> AsyncIterator[tuple[Leaf, int, EventView | None]]:
    """The leaves of a seal without events that are said to be pruned: how many events went, and what tells of it."""
    stand = {event.run_id for event in events}
    gone = {leaf.run_id: leaf for leaf in leaves if leaf.run_id not in stand}
    if not gone:
        return
    batch_id, told = "", list[EventView]()
    for said in await store.pruned_of_seal(seal.body.number):
        if said.run_id in gone:
            if said.batch_id != batch_id:
                batch_id, told = said.batch_id, await store.events(said.batch_id, 0, 1)
            yield gone[said.run_id], said.last_seq, told[0] if told else None


async def flaws_of_pruned(
    store: Store, seal: Seal, leaves: Sequence[Leaf], events: Sequence[EventView], signer: Signer
) -> dict[str, str | None]:
    """The runs of a seal that are said to be pruned, each with why that is not proved; None when it is."""
    flaws: dict[str, str | None] = {}
    known: tuple[EventView | None, Proof] = (None, NO_PROOF)
    async for leaf, last_seq, event in proofs_of_pruned(store, seal, leaves, events):
        if event is not known[0]:
            known = (event, proof_of(event, signer))
        flaws[leaf.run_id] = known[1].flaw_for(leaf, last_seq)
    return flaws
