"""Whatever families, ages and policies there are: just those go that a model of a few lines lets go."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepfast.conformance.store.acts import end, joins
from stepfast.conformance.store.harness import Harness
from stepfast.engine import pruning
from stepfast.engine.pruning import Pruner, PruneScope
from stepfast.engine.values import Values
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId, new_id
from stepfast.kernel.retention import PolicyChange
from stepfast.stores.blobs.database import DatabaseBlobs

HOUR = 3_600_000
TENANTS, WORKFLOWS = ("acme", "blue"), ("order", "refund")
_numbers = itertools.count()


class Tree(NamedTuple):
    """A family to be: when its first run ends, in hours from the beginning, or never; and what that starts."""

    ends: int | None
    children: tuple[Tree, ...] = ()

    @property
    def ends_of_all(self) -> list[int | None]:
        return [self.ends, *(end for child in self.children for end in child.ends_of_all)]


class Plan(NamedTuple):
    """A family of a tenant and workflow."""

    tenant: str
    workflow: str
    tree: Tree


# Few and small, so that most things happen in most examples; one run of ten never ends.
moments = st.sampled_from([*range(3), *range(3), *range(3), None])
leaves = st.tuples(moments, st.just(())).map(Tree._make)
parents = st.tuples(moments, st.lists(leaves, max_size=3).map(tuple)).map(Tree._make)
grandparents = st.tuples(moments, st.lists(parents, min_size=1, max_size=2).map(tuple)).map(Tree._make)
trees = st.one_of(leaves, parents, grandparents)
plans = st.tuples(st.sampled_from(TENANTS), st.sampled_from(WORKFLOWS), trees).map(Plan._make)
names = st.tuples(st.sampled_from(("", *TENANTS)), st.sampled_from(("", *WORKFLOWS)))
policies = st.dictionaries(names, st.sampled_from([1, 2, 3, 1, 2, 3, None]), min_size=1, max_size=5)


def goes(plan: Plan, keeping: dict[tuple[str, str], int | None], least: int | None, now: int) -> bool:
    """The model."""
    names = [(plan.tenant, plan.workflow), (plan.tenant, ""), ("", plan.workflow), ("", "")]
    found = [keeping[name] for name in names if name in keeping]
    keep = least if not found else None if found[0] is None else max(found[0], least or 0)
    ends = plan.tree.ends_of_all
    return keep is not None and all(end is not None and end + keep <= now for end in ends)


class World:
    """A store with families of one example, whose tenants no other example has."""

    def __init__(self, harness: Harness, number: int) -> None:
        self._harness = harness
        self._number = number
        self._born = harness.now
        self.roots: dict[RunId, Plan] = {}
        self.runs: dict[RunId, RunId] = {}
        """Every run, with the one that began its family."""
        self._ending: list[tuple[int, HeldRun]] = []

    def tenant(self, name: str) -> str:
        return name and f"{name}-{self._number}"

    async def begin(self, plan: Plan) -> None:
        names = {"tenant": self.tenant(plan.tenant), "workflow": plan.workflow}
        root = await self._grow(plan.tree, None, None, names)
        self.roots[root.run_id] = plan

    async def _grow(self, tree: Tree, parent: HeldRun | None, root: RunId | None, names: dict[str, str]) -> HeldRun:
        born = self._harness.new_run(**names, joins=None if parent is None else joins(parent))
        await self._harness.store.start([born], None)
        held = await self._harness.claim_run(born.run_id)
        assert held is not None
        self.runs[held.run_id] = root or held.run_id
        for child in tree.children:
            await self._grow(child, held, root or held.run_id, names)
        if tree.ends is not None:
            self._ending.append((tree.ends, held))
        return held

    async def pass_time(self, hours: int) -> None:
        """Let runs end at their moments, and stop at an hour."""
        for moment, held in sorted(self._ending, key=lambda each: each[0]):
            decision = end(held)
            assert decision.outcome is not None
            decision.outcome = decision.outcome._replace(ended_at=Instant(self._born + moment * HOUR))
            await self._harness.save(decision)
        await self._harness.set_clock(self._born + hours * HOUR)
        self._harness.now = self._born + hours * HOUR

    async def keep(self, keeping: dict[tuple[str, str], int | None], removed: bool = False) -> None:
        for (tenant, workflow), hours in keeping.items():
            change_id = RunId(new_id(Instant(self._harness.now), next(self._harness.counter)))
            keep_ms = None if hours is None else hours * HOUR
            change = PolicyChange(change_id, self.tenant(tenant), workflow, keep_ms, removed)
            await self._harness.store.change_policy(change)

    async def left(self) -> set[RunId]:
        return {run_id for run_id in self.runs if await self._harness.store.run(None, run_id) is not None}


@pytest.mark.parametrize("most", [2, 200], ids=["small batches", "large batches"])
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    families=st.lists(plans, min_size=6, max_size=8),
    keeping=policies,
    least=st.sampled_from([None, None, 0, 2]),
    now=st.integers(2, 6),
)
async def test_just_those_go_that_the_model_lets_go(harness, monkeypatch, most, families, keeping, least, now):
    monkeypatch.setattr(pruning, "MAX_RUNS", most)
    world = World(harness, next(_numbers))
    await harness.enrol()
    for plan in families:
        await world.begin(plan)
    await world.keep(keeping)
    await world.pass_time(now)
    expected = {root for root, plan in world.roots.items() if not goes(plan, keeping, least, now)}
    least_ms = None if least is None else least * HOUR
    for tenant in TENANTS:
        scope = PruneScope(tenant=world.tenant(tenant), least_ms=least_ms)
        await Pruner(harness.store, Values(DatabaseBlobs(harness.store)), lambda: None).prune(scope)
    await world.keep(keeping, removed=True)
    assert await world.left() == {run_id for run_id, root in world.runs.items() if root in expected}
