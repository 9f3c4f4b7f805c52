"""A worker for one run and all that it starts: it takes nothing that belongs to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from stepfast.kernel.ids import RunId
from stepfast.kernel.views import Member
from stepfast.worker.claims import ClaimLoop
from stepfast.worker.worker import Worker


class FamilyClaims(ClaimLoop):
    """Asks for what is ready of one run and its descendants."""

    root: RunId

    async def look(self) -> int:
        """Take what there is room for; how long to rest before looking again (0: not at all)."""
        self._asked_at = self._clock.now()
        family = await self._store.family(self.root)
        chosen = list(self._chosen(family.ready))
        runs = await self._store.claim_runs(self.worker_id, chosen, self._codes()) if chosen else []
        if runs:
            await self._take(runs)
            return 0
        return self._pause_ms(family.next_due_at, self._asked_at)

    def _chosen(self, ready: list[Member]) -> Iterator[RunId]:
        """By place, as far as each queue has room; one that may have killed its worker is taken alone."""
        codes, taken, most = set(self._codes()), Counter[str](), self._most()
        known = [member for member in ready if member.code in codes]
        sound = [member for member in known if not member.crashes]
        if known and not sound and not self._held:
            yield known[0].run_id
        for member in sound:
            if taken[member.queue] < self._held.room(member.queue) and taken.total() < most:
                taken[member.queue] += 1
                yield member.run_id


class FamilyWorker(Worker):
    """Executes one run, its children and their children, from `start` to `stop`; and sees to what the dead left."""

    claims_kind = FamilyClaims

    def __init__(self, *told: Any, root: RunId) -> None:
        super().__init__(*told)
        assert isinstance(self._claims, FamilyClaims)
        self._claims.root = root

    async def start(self) -> None:
        """Announce the worker and begin to claim; it takes no run at its birth, for that may be anybody's."""
        await super().start()
        self._accepting = False

    def serves(self, queue: str) -> bool:
        """Whatever becomes ready may be of the family."""
        return True
