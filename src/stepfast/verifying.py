"""Verifying the trail: one walk over all seals, each against the one before, its key, its copy and its events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from stepfast.kernel.auditing import (
    AuditFinding,
    AuditReport,
    Fault,
    check_chain,
    check_copy,
    check_events,
    check_leaves,
    check_signature,
    lost,
)
from stepfast.kernel.ports import Store
from stepfast.kernel.seals import MAX_EVENTS, Seal, SealCopies, Signer

PAGE = 100
MAX_FINDINGS = 1_000


class Check:
    """One walk over the whole trail, a seal at a time."""

    def __init__(self, store: Store, signer: Signer, copies: SealCopies | None) -> None:
        self._store = store
        self._signer = signer
        self._copies = None if copies is None else aiter(copies.kept())
        self._ahead: Seal | None = None
        self._findings: list[AuditFinding] = []
        self._seals = self._events = 0

    async def whole(self) -> AuditReport:
        last: Seal | None = None
        async for seal in self._all_seals():
            await self._check(last, seal)
            last = seal
        await self._copy_of(None)
        upto = 0 if last is None else last.body.upto
        self._findings += map(lost, await self._store.gaps(upto, MAX_FINDINGS))
        unsealed = await self._store.count_behind(upto)
        return AuditReport(self._seals, self._events, unsealed, tuple(self._findings[:MAX_FINDINGS]))

    async def _all_seals(self) -> AsyncIterator[Seal]:
        after = 0
        while page := await self._store.seals(after, PAGE):
            for seal in page:
                yield seal
            after = page[-1].body.number

    async def _check(self, last: Seal | None, seal: Seal) -> None:
        leaves = await self._store.leaves(seal.body.number)
        events = await self._store.sealed_events(seal.body.after, seal.body.upto, MAX_EVENTS + 1)
        self._findings += check_chain(last, seal)
        self._findings += check_signature(seal, self._signer)
        if self._copies is not None:
            self._findings += check_copy(seal, await self._copy_of(seal.body.number))
        self._findings += check_leaves(seal, leaves)
        self._findings += check_events(seal, leaves, events)
        self._seals += 1
        self._events += len(events)

    async def _copy_of(self, number: int | None) -> Seal | None:
        """The copy of a seal; those in front of it are of seals that are gone."""
        while (copy := await self._next_copy()) is not None:
            if copy.body.number == number:
                return copy
            if number is not None and copy.body.number > number:
                self._ahead = copy
                return None
            words = "A copy of it is outside of the database, and it is no longer there itself."
            self._findings.append(AuditFinding(Fault.SEAL_REMOVED, copy.body.number, None, words))
        return None

    async def _next_copy(self) -> Seal | None:
        if self._ahead is not None:
            copy, self._ahead = self._ahead, None
            return copy
        return None if self._copies is None else await anext(self._copies, None)
