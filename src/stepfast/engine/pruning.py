"""Pruning: families of runs that were kept long enough go, with a signed event that names them."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import NamedTuple

from stepfast.engine.values import Values
from stepfast.kernel.blobs import BlobFilter
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import RANDOM_BITS, RunId, new_id
from stepfast.kernel.ports import Store
from stepfast.kernel.retention import Held, KeptRun, Policy, PruneBatch, keep_ms, policy_for, shortest_ms
from stepfast.kernel.seals import Signer
from stepfast.kernel.states import ENDED

# A transaction deletes no more than this, unless one run alone has more events.
MAX_RUNS = 200
MAX_EVENTS = 5_000
PAGE = 500
SWEEP_PAGE = 100
# What was held back is looked at again after this time; what becomes old enough meanwhile is found at once.
LOOK_AGAIN_MS = 3_600_000

Reached = dict[tuple[str, str], int]


class PruneScope(NamedTuple):
    """Which runs may go: all that the policies let go, or fewer."""

    tenant: str | None = None
    workflow: str | None = None
    least_ms: int | None = None
    """How old they must be at least; those without a policy go by this alone."""
    limit: int | None = None
    """How many families at most."""
    dry_run: bool = False
    actor: str | None = None


class PruneCount(NamedTuple):
    """What went, or would go, of one tenant and workflow."""

    tenant: str
    workflow: str
    families: int
    runs: int
    events: int


class PruneReport(NamedTuple):
    """What a pass did, or would do."""

    counts: tuple[PruneCount, ...]
    held: dict[str, int]
    """Families that were old enough and stayed, by why."""

    @property
    def runs(self) -> int:
        return sum(count.runs for count in self.counts)


class Family(NamedTuple):
    """A run that nobody has started and all that it has; `members` go in this order, None when they are too many."""

    root: KeptRun
    policy: Policy | None
    size: int
    events: int
    members: tuple[KeptRun, ...] | None


class Tally:
    """What has gone so far, and what stayed."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[int]] = {}
        self.held: Counter[str] = Counter()
        self.families = 0

    def add(self, family: Family) -> None:
        self.families += 1
        count = self._counts.setdefault((family.root.tenant, family.root.workflow), [0, 0, 0])
        for index, number in enumerate((1, family.size, family.events)):
            count[index] += number

    def report(self) -> PruneReport:
        counts = (PruneCount(*whose, *count) for whose, count in sorted(self._counts.items()))
        return PruneReport(tuple(counts), dict(self.held))


class Progress:
    """How far passes have looked; whoever makes them with one pruner after the other keeps it for all."""

    def __init__(self) -> None:
        self._reached: Reached = {}
        self._looked_at = Instant(0)
        self._policies: list[Policy] = []

    def under(self, policies: list[Policy], now: Instant) -> Reached:
        """Where to go on, which moves along; from the beginning when the policies are other ones, or after a while."""
        if policies != self._policies or now - self._looked_at >= LOOK_AGAIN_MS:
            self._reached, self._looked_at, self._policies = {}, now, policies
        return self._reached


class Pruner:
    """Lets families of runs go; any number of processes may, and each family goes once."""

    def __init__(
        self,
        store: Store,
        values: Values,
        signer: Callable[[], Signer | None],
        progress: Progress | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_over` says whether the time that a pass may take is over: what is left is for the next."""
        self._store = store
        self._values = values
        self._signer = signer
        self._progress = progress or Progress()
        self._is_over = is_over

    async def make_pass(self) -> PruneReport:
        """Let go what the policies say, as far as it was not looked at before; where there are none, do nothing."""
        policies = await self._store.policies()
        report = await self._prune_on(policies) if policies else PruneReport((), {})
        await self._sweep()
        return report

    async def _prune_on(self, policies: list[Policy]) -> PruneReport:
        now = await self._store.now()
        return await self._prune(PruneScope(), policies, now, self._progress.under(policies, now))

    async def prune(self, scope: PruneScope) -> PruneReport:
        """Look at all runs that have ended, and let go those that may."""
        report = await self._prune(scope, await self._store.policies(), await self._store.now(), {})
        if not scope.dry_run:
            await self._sweep()
        return report

    async def _prune(self, scope: PruneScope, policies: list[Policy], now: Instant, reached: Reached) -> PruneReport:
        is_sealing = self._signer() is not None or await self._store.last_seal() is not None
        if is_sealing and self._signer() is None:
            raise Invalid("The trail is sealed, and what goes must be signed: set STEPFAST_SEAL_KEYS to prune runs.")
        tally, look = Tally(), Look(self._store, scope, policies, now, is_sealing, self._is_over)
        batches = Batches(self._store, self._signer(), look, tally)
        async for family in look.families(reached, tally):
            if scope.dry_run:
                tally.add(family)
            else:
                await batches.take(family)
            if scope.limit is not None and tally.families + batches.waiting >= scope.limit:
                break
        await batches.flush()
        return tally.report()

    async def _sweep(self) -> None:
        """Remove what runs that are gone have left in the blob store; one that cannot be removed keeps no other."""
        after, problem = "", None
        while not self._is_over() and (page := await self._store.unswept(after, SWEEP_PAGE)):
            done = list[RunId]()
            for tenant, run_id in page:
                try:
                    await self._remove_blobs(BlobFilter(tenant=tenant, run_id=run_id))
                    done.append(run_id)
                except StepfastError as error:
                    problem = error
            if done:
                await self._store.swept(done)
            elif problem is not None:
                # Of a whole page nothing: the place is away.
                break
            after = page[-1][1]
        if problem is not None:
            raise problem

    async def _remove_blobs(self, where: BlobFilter) -> None:
        blobs = self._values.blobs
        while page := await self._values.ask(partial(blobs.list, where)):
            for info in page:
                await self._values.ask(partial(blobs.delete, info.key))
            where = where._replace(after=page[-1].key)


class Look:
    """One look at the runs that have ended, in the order of their ends, for families that may go."""

    def __init__(
        self,
        store: Store,
        scope: PruneScope,
        policies: list[Policy],
        now: Instant,
        is_sealing: bool,
        is_over: Callable[[], bool],
    ) -> None:
        self._is_over = is_over
        self._store = store
        self.scope = scope
        self._policies = policies
        self.now = now
        self.is_sealing = is_sealing

    async def families(self, reached: Reached, tally: Tally) -> AsyncIterator[Family]:
        """Those that may go; `reached` is how far each tenant and state was looked at, and moves on."""
        tenants = [self.scope.tenant] if self.scope.tenant is not None else await self._store.ended_tenants()
        for tenant in tenants:
            shortest = shortest_ms(self._policies, tenant, self.scope.least_ms)
            if shortest is None:
                continue
            for state in sorted(ENDED):
                async for root in self._roots(tenant, state, self.now - shortest, reached):
                    if self._is_over():
                        return
                    family = await self._family(root)
                    if isinstance(family, Family):
                        yield family
                    elif family is not Held.YOUNG:
                        tally.held[family] += 1

    async def _roots(self, tenant: str, state: str, upto: int, reached: Reached) -> AsyncIterator[KeptRun]:
        after = reached.get((tenant, state), -1)
        while (page_end := await self._store.ended_reach(tenant, state, after, upto, PAGE)) is not None:
            for root in await self._store.ended_roots(tenant, state, after, page_end):
                if self.scope.workflow in (None, root.workflow):
                    yield root
            after = reached[tenant, state] = page_end

    async def _family(self, root: KeptRun) -> Family | Held:
        """A family, if all its members may go; or why one of them may not."""
        policy = policy_for(self._policies, root.tenant, root.workflow)
        keep = keep_ms(policy, self.scope.least_ms)
        rule = (self.now, keep, self.is_sealing, self.scope.least_ms)
        members, size, events = list[KeptRun](), 0, 0
        # The one that began it first: mostly that alone says why it stays.
        if (why := root.why_told(*rule)) is not None:
            return why
        async for member in self.members(root):
            if (why := member.why_told(*rule)) is not None:
                return why
            size, events = size + 1, events + (member.last_seq or 0)
            if size <= MAX_RUNS:
                members.append(member)
        is_whole = size <= MAX_RUNS and (events <= MAX_EVENTS or size == 1)
        return Family(root, policy, size, events, tuple(members) if is_whole else None)

    async def members(self, root: KeptRun) -> AsyncIterator[KeptRun]:
        """A run and all that it has started, children before their parents."""
        above = [(root, self._children(root))]
        while above:
            run, children = above[-1]
            child = await anext(children, None)
            if child is not None:
                above.append((child, self._children(child)))
            else:
                above.pop()
                yield run

    async def _children(self, run: KeptRun) -> AsyncIterator[KeptRun]:
        after = (-1, "")
        while run.has_children:
            page = await self._store.kept_children(run.run_id, after, PAGE)
            for child in page:
                yield child
            if len(page) < PAGE:
                break
            after = (page[-1].parent_wait or 0, page[-1].run_id)


class Batches:
    """Families that go, gathered so that one transaction takes several of those that go by the same policy."""

    def __init__(self, store: Store, signer: Signer | None, look: Look, tally: Tally) -> None:
        self._store = store
        self._signer = signer
        self._look = look
        self._tally = tally
        self._families: list[Family] = []

    @property
    def waiting(self) -> int:
        return len(self._families)

    async def take(self, family: Family) -> None:
        """Let a family go with the next transaction; one that is too large has several of its own."""
        if family.members is None:
            await self.flush()
            self._note(family, await self._take_apart(family))
            return
        if self._families and not self._fits(family):
            await self.flush()
        self._families.append(family)

    async def flush(self) -> None:
        """Let go all that waits; where one family cannot, the others go without it."""
        families, self._families = self._families, []
        if not families:
            return
        why = await self._prune(families[0], [run for each in families for run in each.members or ()])
        for family in families:
            is_alone = why is None or len(families) == 1
            self._note(family, why if is_alone else await self._prune(family, family.members or ()))

    async def _take_apart(self, family: Family) -> Held | None:
        """Let a large family go in pieces, children first, so that what a crash leaves is a family still."""
        piece, events = list[KeptRun](), 0
        async for run in self._look.members(family.root):
            if piece and (len(piece) == MAX_RUNS or events + (run.last_seq or 0) > MAX_EVENTS):
                if (why := await self._prune(family, piece)) is not None:
                    return why
                piece, events = [], 0
            piece.append(run)
            events += run.last_seq or 0
        return await self._prune(family, piece)

    async def _prune(self, family: Family, runs: Sequence[KeptRun]) -> Held | None:
        look = self._look
        batch_id = RunId(new_id(self._look.now, secrets.randbits(RANDOM_BITS)))
        named = tuple((run.run_id, run.last_seq or 0) for run in runs)
        whose = (family.root.tenant, family.policy, look.scope.least_ms)
        batch = PruneBatch(batch_id, *whose, named, look.is_sealing, look.scope.actor)
        why = await self._store.prune(batch, batch.told(self._signer))
        return None if why is None else Held(why)

    def _fits(self, family: Family) -> bool:
        first, together = self._families[0], [*self._families, family]
        is_same = (first.root.tenant, first.policy) == (family.root.tenant, family.policy)
        runs, events = sum(each.size for each in together), sum(each.events for each in together)
        return is_same and runs <= MAX_RUNS and events <= MAX_EVENTS

    def _note(self, family: Family, why: Held | None) -> None:
        if why is None:
            self._tally.add(family)
        elif why is not Held.GONE:
            self._tally.held[why] += 1
