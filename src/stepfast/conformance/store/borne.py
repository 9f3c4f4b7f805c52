"""Failures that a run goes on from: each is an exception item, by the record that says so."""

from __future__ import annotations

from stepfast.conformance.store.acts import NOON, decide, end
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Rerun
from stepfast.kernel.decisions import CallId, Decision, HeldRun, Record
from stepfast.kernel.items import AssignItem, CommentItem, ItemFilter, ItemView, ResolveItem
from stepfast.kernel.plan_rules import BORNE, Borne, bear
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.states import RunState, StepState

FAILURE = Borne.of("tell", "tell#1", "ValueError", "no")


def borne(run: HeldRun) -> Decision:
    """A run goes on from a failure; its holder counts on."""
    call = CallId("", "tell.borne", 1)
    record = Record(call, BORNE, StepState.COMPLETED, 1, "d", "{}", FAILURE.text, None, NOON, NOON)
    said = bear(run, record, FAILURE)
    return decide(run, events=said.events, records=said.records)


async def items(harness: Harness, resolved: bool = True) -> list[ItemView]:
    return await harness.store.exceptions(ItemFilter(resolved=resolved))


async def ended(harness: Harness) -> HeldRun:
    """A run that has borne a failure, and ended."""
    run = await harness.held()
    await harness.save(borne(run), end(run))
    return run


@on_fresh_stores
class BorneSuite(StoreSuite):
    """A failure that is borne is in the exception queue until it is seen to, or done again."""

    async def test_a_failure_that_is_borne_is_an_item(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(borne(run))
        (item,) = await items(harness)
        assert (item.run_id, item.cause, item.tenant, item.workflow) == (run.run_id, "step:1", run.tenant, "order")
        assert (item.kind, item.step, item.title) == (ItemKind.FAILED, "tell#1", FAILURE.title)
        assert (item.shape, item.opened_at, item.resolved_at) == (FAILURE.shape, NOON, None)

    async def test_its_item_stays_when_the_run_ends(self, harness: Harness) -> None:
        await ended(harness)
        assert len(await items(harness, resolved=False)) == 1

    async def test_a_holder_that_is_too_late_opens_none(self, harness: Harness) -> None:
        run = await harness.held()
        late = borne(run)
        await harness.bury()
        await harness.save(late)
        assert await items(harness) == []

    async def test_its_item_is_resolved_with_its_record(self, harness: Harness) -> None:
        run = await ended(harness)
        await harness.change(run.run_id, Rerun(), actor="ann")
        assert [item.resolution for item in await items(harness)] == ["replayed"]
        assert (await harness.event_types(run.run_id))[-2:] == ["exception_resolved", "rerun"]

    async def test_its_item_is_resolved_by_hand(self, harness: Harness) -> None:
        run = await ended(harness)
        await harness.change(run.run_id, ResolveItem("step:1"), actor="ann")
        (item,) = await items(harness)
        assert (item.resolution, item.actor, item.resolved_at) == ("discarded", "ann", harness.now)
        assert await harness.state(run.run_id) is RunState.COMPLETED

    async def test_what_was_resolved_by_hand_stays_so_in_the_next_generation(self, harness: Harness) -> None:
        run = await ended(harness)
        await harness.change(run.run_id, ResolveItem("step:1"), actor="ann")
        await harness.change(run.run_id, Rerun(), actor="bob")
        assert [item.actor for item in await items(harness)] == ["ann"]
        assert (await harness.event_types(run.run_id)).count("exception_resolved") == 1

    async def test_somebody_sees_to_its_item_and_says_so(self, harness: Harness) -> None:
        run = await ended(harness)
        await harness.change(run.run_id, AssignItem("step:1", "bob"))
        await harness.change(run.run_id, CommentItem("step:1", "on it"))
        assert [item.assignee for item in await items(harness)] == ["bob"]
