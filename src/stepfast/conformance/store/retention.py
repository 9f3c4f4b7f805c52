"""Retention: policies with their events, what may go and what may not, and what is left of what went."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from stepfast.conformance.store.acts import HOUR_MS, NOON, decide, end, fail, joins, told_by, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.blobs import BlobFilter, BlobKey
from stepfast.kernel.commands import Cancel, Discard, Rerun
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId, new_id
from stepfast.kernel.retention import Held, KeptRun, Policy, PolicyChange, PruneBatch
from stepfast.kernel.seals import sealed
from stepfast.kernel.sinks import SinkStep
from stepfast.kernel.states import RunState, WaitKind

LEASE_MS = 30_000
BEFORE_ALL, PAGE = -1, 100


class Scribble:
    """Signs without any key."""

    def sign(self, text: bytes) -> tuple[str, str]:
        return "1", "signed"

    def proves(self, text: bytes, key: str, signature: str) -> bool | None:
        return signature == "signed"


def fresh(harness: Harness) -> RunId:
    return RunId(new_id(Instant(harness.now), next(harness.counter)))


def change(harness: Harness, **changes: Any) -> PolicyChange:
    return PolicyChange(fresh(harness), "acme", "order", HOUR_MS, actor="ada", reason="the law")._replace(**changes)


async def set_policy(harness: Harness, **changes: Any) -> str | None:
    return await harness.store.change_policy(change(harness, **changes))


async def done(harness: Harness, **changes: Any) -> HeldRun:
    """A run that has ended at noon."""
    run = await harness.held(**changes)
    await harness.save(end(run))
    return run


async def family(harness: Harness) -> tuple[HeldRun, list[HeldRun]]:
    """A parent with two children, all of them ended."""
    parent = await harness.held()
    born = [harness.new_run(joins=joins(parent)) for _ in range(2)]
    await harness.save(decide(parent, opened=(wait(1, WaitKind.CHILDREN, need=2),), children=born))
    children = await harness.claim()
    await harness.save(*map(end, children))
    await harness.save(end(parent))
    return parent, sorted(children, key=lambda child: child.run_id)


async def batch(harness: Harness, run_ids: Sequence[RunId], **changes: Any) -> PruneBatch:
    named = [(run_id, (await harness.store.events(run_id))[-1].seq) for run_id in run_ids]
    return PruneBatch(fresh(harness), "acme", None, None, tuple(named), False, "bob")._replace(**changes)


async def prune(harness: Harness, *run_ids: RunId, **changes: Any) -> str | None:
    given = await batch(harness, run_ids, **changes)
    return await harness.store.prune(given, given.told(None))


async def roots(harness: Harness, **where: Any) -> list[KeptRun]:
    given = {"tenant": "acme", "state": "completed", "after": BEFORE_ALL, "upto": harness.now, **where}
    return await harness.store.ended_roots(**given)


async def seal_all(harness: Harness) -> None:
    last, store = await harness.store.last_seal(), harness.store
    page = await store.trail(0 if last is None else last.body.upto, 1_000)
    assert await store.put_seal(*sealed(last, page.events, page.reached, Instant(harness.now), Scribble()))


async def open_again(harness: Harness, run: HeldRun) -> None:
    await harness.change(run.run_id, Rerun())


async def take_up_a_sink(harness: Harness, run: HeldRun) -> None:
    assert await harness.store.take_sink("place", "me", LEASE_MS, True) is not None


async def begin_to_seal(harness: Harness, run: HeldRun) -> None:
    """Seal everything, and have another event of the run behind that."""
    await seal_all(harness)
    await open_again(harness, run)
    (held,) = await harness.claim()
    await harness.save(end(held))


async def keep_for_ever(harness: Harness, run: HeldRun) -> None:
    await set_policy(harness, keep_ms=None)


async def keep_longer(harness: Harness, run: HeldRun) -> None:
    await set_policy(harness, keep_ms=3 * HOUR_MS)


async def remove_policy(harness: Harness, run: HeldRun) -> None:
    await set_policy(harness, is_removed=True)


AGAINST = {
    "it is open again": (open_again, Held.OPEN),
    "a sink has not had it": (take_up_a_sink, Held.SINK),
    "it is not sealed": (begin_to_seal, Held.UNSEALED),
    "it is kept for ever": (keep_for_ever, Held.KEPT),
    "it is kept longer": (keep_longer, Held.YOUNG),
    "there is no policy": (remove_policy, Held.KEPT),
}


@on_fresh_stores
class RetentionSuite(StoreSuite):
    """What the engine relies on for retention."""

    async def test_a_policy_is_kept_with_who_set_it_and_told_of(self, harness: Harness) -> None:
        asked = change(harness)
        assert await harness.store.change_policy(asked) is None
        policy = Policy("acme", "order", HOUR_MS, "ada", "the law", Instant(harness.now))
        assert await harness.store.policies() == [policy]
        (event,) = await harness.store.events(asked.change_id)
        assert (event.type, event.seq, event.tenant, event.actor) == (EventType.RETENTION_CHANGED, 1, "acme", "ada")
        assert event.data == asked.told

    async def test_a_policy_is_replaced_and_removed(self, harness: Harness) -> None:
        await set_policy(harness)
        await set_policy(harness, keep_ms=None)
        assert [policy.keep_ms for policy in await harness.store.policies()] == [None]
        await set_policy(harness, is_removed=True)
        assert await harness.store.policies() == []

    async def test_a_change_that_is_sent_again_is_not_made_again(self, harness: Harness) -> None:
        asked = change(harness)
        await harness.store.change_policy(asked)
        await set_policy(harness, is_removed=True)
        assert await harness.store.change_policy(asked) == asked.told
        assert await harness.store.policies() == []

    async def test_the_tenants_of_ended_runs_are_each_named_once(self, harness: Harness) -> None:
        assert await harness.store.ended_tenants() == []
        for tenant in ("acme", "blue", "acme"):
            await done(harness, tenant=tenant)
        await harness.start(tenant="cold")
        assert await harness.store.ended_tenants() == ["acme", "blue"]

    async def test_ends_are_reached_page_by_page_and_never_torn_apart(self, harness: Harness) -> None:
        store = harness.store
        assert await store.ended_reach("acme", "completed", BEFORE_ALL, harness.now, PAGE) is None
        await done(harness)
        await done(harness)
        assert await store.ended_reach("acme", "completed", BEFORE_ALL, harness.now, 1) == NOON
        assert await store.ended_reach("acme", "completed", NOON, harness.now, 1) is None
        assert await store.ended_reach("acme", "completed", BEFORE_ALL, NOON - 1, 1) is None
        assert len(await roots(harness)) == 2

    async def test_of_a_family_the_one_that_began_it_is_found(self, harness: Harness) -> None:
        parent, _ = await family(harness)
        (root,) = await roots(harness)
        assert (root.run_id, root.workflow, root.has_children, root.ended_at) == (parent.run_id, "order", True, NOON)
        assert await roots(harness, upto=NOON - 1) == []
        assert await roots(harness, tenant="blue") == []

    async def test_a_run_that_has_ended_twice_is_found_by_its_newest_end_alone(self, harness: Harness) -> None:
        run = await done(harness)
        await open_again(harness, run)
        assert [root.run_id for root in await roots(harness)] == [run.run_id]
        await harness.change(run.run_id, Cancel())
        found = [await roots(harness, state=state) for state in ("completed", "cancelled")]
        assert [[root.run_id for root in some] for some in found] == [[], [run.run_id]]

    async def test_children_come_page_by_page(self, harness: Harness) -> None:
        parent, children = await family(harness)
        (first,) = await harness.store.kept_children(parent.run_id, (BEFORE_ALL, ""), 1)
        (second,) = await harness.store.kept_children(parent.run_id, (first.parent_wait or 0, first.run_id), 1)
        assert [first.run_id, second.run_id] == [child.run_id for child in children]
        assert await harness.store.kept_children(parent.run_id, (second.parent_wait or 0, second.run_id), 1) == []

    async def test_a_run_goes_with_all_that_belongs_to_it(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness, key="once", tags=("red",))
        await harness.store.put_blob(BlobKey("acme", run.run_id, "large"), b"content")
        await harness.advance(HOUR_MS)
        assert await prune(harness, run.run_id) is None
        assert await harness.store.run(None, run.run_id) is None
        assert await harness.store.events(run.run_id) == []
        assert await harness.store.steps(run.run_id) == []
        assert await harness.store.outcomes([run.run_id]) == {}
        assert await harness.store.list_blobs(BlobFilter()) == []
        assert (await harness.start(key="once")).fresh

    async def test_a_run_that_is_gone_is_known_to_be_pruned_by_its_tenant_alone(self, harness: Harness) -> None:
        await set_policy(harness)
        run, left = await done(harness), await done(harness)
        await harness.advance(HOUR_MS)
        assert await prune(harness, run.run_id) is None
        tenants = (None, "acme", "other")
        found = [await harness.store.pruned_at(tenant, run.run_id) for tenant in tenants]
        assert found == [harness.now, harness.now, None]
        assert await harness.store.pruned_at(None, left.run_id) is None

    async def test_the_event_is_there_with_what_it_tells_of(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(HOUR_MS)
        given = await batch(harness, [run.run_id])
        assert await harness.store.prune(given, given.told(Scribble())) is None
        (event,) = await harness.store.events(given.batch_id)
        assert (event.type, event.seq, event.tenant, event.actor) == (EventType.PRUNED, 1, "acme", "bob")
        assert told_by(event) == {**json.loads(json.dumps(given.facts)), "key": "1", "signature": "signed"}
        assert await harness.store.pruned_runs("", PAGE) == [(run.run_id, False)]

    @cases(against=AGAINST)
    async def test_a_run_stays_as_long_as_something_speaks_against_it(self, harness: Harness, against: Any) -> None:
        act, why = against
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(2 * HOUR_MS)
        await act(harness, run)
        before = await harness.contents()
        assert await prune(harness, run.run_id) == why
        assert await harness.contents() == before
        assert await harness.store.pruned_runs("", PAGE) == []

    async def test_a_run_that_is_too_young_stays(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(HOUR_MS - 1)
        assert await prune(harness, run.run_id) == Held.YOUNG
        await harness.advance(1)
        assert await prune(harness, run.run_id) is None

    async def test_without_a_policy_the_age_that_is_asked_for_counts(self, harness: Harness) -> None:
        run = await done(harness)
        await harness.advance(HOUR_MS)
        assert await prune(harness, run.run_id, least_ms=2 * HOUR_MS) == Held.YOUNG
        assert await prune(harness, run.run_id, least_ms=HOUR_MS) is None

    async def test_the_age_that_is_asked_for_never_shortens_a_policy(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(HOUR_MS - 1)
        assert await prune(harness, run.run_id, least_ms=0) == Held.YOUNG

    async def test_the_most_specific_policy_counts(self, harness: Harness) -> None:
        everywhere = {"tenant": "", "workflow": ""}
        await set_policy(harness, **everywhere, keep_ms=None)
        await set_policy(harness, tenant="", workflow="order", keep_ms=3 * HOUR_MS)
        await set_policy(harness, tenant="acme", workflow="", keep_ms=2 * HOUR_MS)
        run = await done(harness)
        await harness.advance(HOUR_MS)
        assert await prune(harness, run.run_id) == Held.YOUNG
        await set_policy(harness)
        assert await prune(harness, run.run_id) is None

    async def test_a_dead_letter_keeps_its_run_until_it_is_put_aside(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await harness.held()
        await harness.save(fail(run))
        await harness.advance(HOUR_MS)
        assert await prune(harness, run.run_id) == Held.DEAD_LETTER
        await harness.change(run.run_id, Discard())
        assert await prune(harness, run.run_id) is None

    async def test_a_run_whose_history_has_grown_stays(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(HOUR_MS)
        given = await batch(harness, [run.run_id])
        old = given._replace(runs=((run.run_id, given.runs[0][1] - 1),))
        assert await harness.store.prune(old, old.told(None)) == Held.CHANGED

    async def test_a_parent_goes_with_its_children_or_after_them(self, harness: Harness) -> None:
        await set_policy(harness)
        parent, children = await family(harness)
        await harness.advance(HOUR_MS)
        assert await prune(harness, parent.run_id) == Held.CHILDREN
        assert await prune(harness, children[0].run_id) is None
        assert await prune(harness, children[1].run_id, parent.run_id) is None

    async def test_a_child_stays_while_the_one_that_began_its_family_is_open(self, harness: Harness) -> None:
        await set_policy(harness)
        parent, children = await family(harness)
        await harness.advance(HOUR_MS)
        await open_again(harness, parent)
        assert await prune(harness, children[0].run_id) == Held.OPEN

    async def test_of_several_runs_all_go_or_none(self, harness: Harness) -> None:
        await set_policy(harness)
        ripe = await done(harness)
        await harness.advance(HOUR_MS)
        running = await harness.held()
        assert await prune(harness, ripe.run_id, running.run_id) == Held.OPEN
        assert await harness.state(ripe.run_id) is RunState.COMPLETED

    async def test_another_tenants_run_is_not_there(self, harness: Harness) -> None:
        run = await done(harness, tenant="blue")
        await harness.advance(HOUR_MS)
        assert await prune(harness, run.run_id, least_ms=0) == Held.GONE

    async def test_of_many_that_prune_a_run_at_once_one_does(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(HOUR_MS)
        given = [await batch(harness, [run.run_id]) for _ in range(5)]
        answers = await asyncio.gather(*(harness.store.prune(each, each.told(None)) for each in given))
        assert sorted(map(str, answers)) == ["None", *["gone"] * 4]

    async def test_a_sink_that_has_had_all_keeps_nothing_back(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(HOUR_MS)
        taken = await harness.store.take_sink("place", "me", LEASE_MS, True)
        assert taken is not None
        last = (await harness.last_event(run.run_id)).position
        assert await harness.store.advance_sink(taken, SinkStep(last), LEASE_MS)
        assert await prune(harness, run.run_id) is None

    async def test_sealed_runs_are_named_with_the_seal_that_has_them(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await seal_all(harness)
        await harness.advance(HOUR_MS)
        given = await batch(harness, [run.run_id], is_sealing=True)
        assert await harness.store.pruned_of_seal(1) == []
        assert await harness.store.prune(given, given.told(Scribble())) is None
        assert await harness.store.pruned_of_seal(1) == [(run.run_id, given.runs[0][1], given.batch_id)]
        assert run.run_id in {leaf.run_id for leaf in await harness.store.leaves(1)}

    async def test_the_first_seal_is_refused_when_one_of_its_runs_has_gone(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(HOUR_MS)
        page = await harness.store.trail(0, 1_000)
        made = sealed(None, page.events, page.reached, Instant(harness.now), Scribble())
        assert await prune(harness, run.run_id) is None
        assert not await harness.store.put_seal(*made)
        assert await harness.store.last_seal() is None

    async def test_what_is_left_to_sweep_is_told_until_it_is_swept(self, harness: Harness) -> None:
        await set_policy(harness)
        run = await done(harness)
        await harness.advance(HOUR_MS)
        await prune(harness, run.run_id)
        assert await harness.store.unswept("", PAGE) == [("acme", run.run_id)]
        await harness.store.swept([run.run_id])
        assert await harness.store.unswept("", PAGE) == []
