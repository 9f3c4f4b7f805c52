"""The exception queue: opened and resolved with its causes, and seen to by people."""

from __future__ import annotations

from typing import Any

from stepfast.conformance.store.acts import NOON, asked, decide, fail, park, told_by, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.causes import shape_of
from stepfast.kernel.commands import Cancel, Changed, Command, Discard, Request, Rerun, RetryRun
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, NotFound
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.items import (
    AssignItem,
    CommentItem,
    CommentView,
    ItemCommand,
    ItemFilter,
    ItemId,
    ItemView,
    ResolveItem,
)
from stepfast.kernel.review_views import ReviewFilter
from stepfast.kernel.reviews import Decide, ItemKind, Owner, Verdict
from stepfast.kernel.states import WaitKind


async def failed(
    harness: Harness, message: str = "no", step: str | None = None, error_type: str = "ValueError", **changes: Any
) -> HeldRun:
    """A run that has just become a dead letter."""
    run = await harness.held(**changes)
    decision = fail(run, step, error_type)
    assert decision.dead_letter is not None
    decision.dead_letter = decision.dead_letter._replace(message=message)
    await harness.save(decision)
    return run


async def reviewed(harness: Harness, is_parked: bool = True, **changes: Any) -> HeldRun:
    """A run that has just asked a person: its item is `review:1`."""
    run = await harness.held()
    await harness.save(asked(run, **changes))
    if is_parked:
        await harness.save(park(run))
    return run


async def blocked(harness: Harness) -> HeldRun:
    """A run whose records do not fit the code of its worker."""
    run = await harness.held()
    await harness.save(decide(run, EventType.WAITING, opened=(wait(-1, WaitKind.CODE),), release=park(run).release))
    return run


async def items(harness: Harness, **where: Any) -> list[ItemView]:
    return await harness.store.exceptions(ItemFilter(**where))


async def item(harness: Harness, run_id: RunId) -> ItemView:
    """The one item of a run, whether it is resolved or not."""
    (view,) = await items(harness, run_id=run_id, resolved=True)
    return view


@on_fresh_stores
class ExceptionsSuite(StoreSuite):
    """An item is there from the commit of its cause to that of its end."""

    async def test_a_run_that_fails_for_good_is_an_item(self, harness: Harness) -> None:
        run = await failed(harness, "no card", "1.2/ship#3")
        place, what = (run.run_id, "failed:1", "acme", 1, "order"), (ItemKind.FAILED, "1.2/ship#3")
        shape = shape_of("ValueError", "no card", "ship#1")
        view = ItemView(*place, *what, "ValueError: no card", shape, None, Instant(NOON), None, None, None)
        assert await items(harness) == [view]

    async def test_a_run_that_took_its_workers_down_has_the_shape_that_the_kernel_gives_it(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.bury(max_crashes=1)
        view = await item(harness, run.run_id)
        kind, _, message = view.title.partition(": ")
        assert view.shape == shape_of(kind, message)

    @cases(
        end={
            "discard": (Discard(), "discarded"),
            "resolve": (ResolveItem("failed:1"), "discarded"),
            "retry": (RetryRun(), "replayed"),
            "rerun": (Rerun(), "replayed"),
        }
    )
    async def test_the_item_of_a_failure_is_resolved_with_its_dead_letter(
        self, harness: Harness, end: tuple[Command, str]
    ) -> None:
        run = await failed(harness)
        await harness.advance(5)
        await harness.change(run.run_id, end[0], actor="ann")
        view = await item(harness, run.run_id)
        assert (view.resolution, view.actor, view.resolved_at) == (end[1], "ann", NOON + 5)
        (letter,) = await harness.letters(resolved=True)
        assert (letter.resolution, letter.actor) == (end[1], "ann")

    @cases(command={"discard": Discard(), "resolve": ResolveItem("failed:1"), "retry": RetryRun()})
    async def test_the_end_of_such_an_item_is_told_before_the_end_of_the_letter(
        self, harness: Harness, command: Command
    ) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, command, actor="ann", reason="known")
        (event,) = [each for each in await harness.store.events(run.run_id) if each.type == "exception_resolved"]
        resolution = "replayed" if isinstance(command, RetryRun) else "discarded"
        told = {"cause": "failed:1", "kind": "failed", "resolution": resolution, "reason": "known"}
        assert (event.seq, event.actor, told_by(event)) == (run.last_event + 1, "ann", told)

    async def test_a_run_that_fails_again_is_another_item(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, RetryRun())
        (run,) = await harness.claim()
        await harness.save(fail(run))
        found = await items(harness, resolved=True)
        assert [(view.cause, view.resolution) for view in found] == [("failed:2", None), ("failed:1", "replayed")]

    async def test_a_review_is_an_item_until_it_is_decided(self, harness: Harness) -> None:
        run = await reviewed(harness, kind=ItemKind.LOW_CONFIDENCE, owner=Owner("ben"))
        (view,) = await items(harness)
        assert (view.cause, view.kind, view.title, view.assignee) == (
            "review:1",
            ItemKind.LOW_CONFIDENCE,
            "May it go out?",
            "ben",
        )
        await harness.change(run.run_id, Decide(1, Verdict.CONTINUE), actor="ben")
        view = await item(harness, run.run_id)
        assert (view.resolution, view.actor, view.resolved_at) == ("continue", "ben", NOON)

    async def test_a_run_that_waits_for_code_is_an_item_until_a_worker_brings_it(self, harness: Harness) -> None:
        run = await blocked(harness)
        assert [(view.cause, view.kind) for view in await items(harness)] == [("blocked:1", ItemKind.BLOCKED)]
        await harness.enrol("w2")
        assert (await item(harness, run.run_id)).resolution == "taken up"

    async def test_that_the_code_has_come_is_told(self, harness: Harness) -> None:
        run = await blocked(harness)
        await harness.enrol("w2")
        event = await harness.last_event(run.run_id)
        told = {"cause": "blocked:1", "kind": "blocked", "resolution": "taken up"}
        assert (event.type, event.seq, told_by(event)) == ("exception_resolved", run.last_event + 1, told)

    @cases(make={"review": reviewed, "blocked": blocked})
    async def test_an_item_of_a_run_that_is_cancelled_is_withdrawn(self, harness: Harness, make: Any) -> None:
        run = await make(harness)
        await harness.change(run.run_id, Cancel())
        assert await items(harness) == []
        assert (await item(harness, run.run_id)).resolution == "withdrawn"

    async def test_an_assigned_item_is_found_by_its_assignee(self, harness: Harness) -> None:
        run, _ = await failed(harness), await failed(harness)
        await harness.change(run.run_id, AssignItem("failed:1", "ben"), actor="ann")
        assert [view.run_id for view in await items(harness, assignee="ben")] == [run.run_id]
        event = await harness.last_event(run.run_id)
        told = {"cause": "failed:1", "kind": "failed", "assignee": "ben"}
        assert (event.type, event.actor, told_by(event)) == ("exception_assigned", "ann", told)

    async def test_an_item_can_be_taken_from_its_assignee(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, AssignItem("failed:1", "ben"))
        await harness.change(run.run_id, AssignItem("failed:1", None))
        assert (await item(harness, run.run_id)).assignee is None

    async def test_who_is_assigned_a_review_is_who_may_answer_it(self, harness: Harness) -> None:
        run = await reviewed(harness, owner=Owner(None, "legal"))
        await harness.change(run.run_id, AssignItem("review:1", "ben"))
        (review,) = await harness.store.reviews(ReviewFilter())
        assert (review.assignee, review.role, (await item(harness, run.run_id)).assignee) == ("ben", "legal", "ben")

    async def test_comments_are_kept_in_order(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, CommentItem("failed:1", "look"), actor="ann")
        await harness.advance(5)
        await harness.change(run.run_id, CommentItem("failed:1", "done"), actor="ben")
        said = [CommentView("ann", "look", Instant(NOON)), CommentView("ben", "done", Instant(NOON + 5))]
        assert await harness.store.exception_comments(ItemId(run.run_id, "failed:1")) == said
        assert (await harness.event_types(run.run_id))[-2:] == ["exception_commented"] * 2

    async def test_a_comment_on_the_item_of_a_review_is_one_of_the_review(self, harness: Harness) -> None:
        run = await reviewed(harness)
        await harness.change(run.run_id, CommentItem("review:1", "look"), actor="ann")
        said = await harness.store.exception_comments(ItemId(run.run_id, "review:1"))
        assert said == [CommentView("ann", "look", Instant(NOON))]
        assert (await harness.last_event(run.run_id)).type == "review_commented"

    async def test_what_is_said_of_a_run_that_is_held_is_told_by_its_holder(self, harness: Harness) -> None:
        run = await reviewed(harness, is_parked=False)
        await harness.change(run.run_id, AssignItem("review:1", "ben"), actor="ann")
        look = await harness.look(run.run_id)
        assert [(message.kind, message.actor) for message in look.inbox] == [("review_assigned", "ann")]
        assert (await harness.last_event(run.run_id)).seq == run.last_event

    @cases(make={"review": reviewed, "blocked": blocked})
    async def test_what_has_another_end_is_not_resolved_by_hand(self, harness: Harness, make: Any) -> None:
        run = await make(harness)
        cause = (await item(harness, run.run_id)).cause
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, ResolveItem(cause)), IllegalMove)
        assert await harness.contents() == before

    @cases(command={"assign": AssignItem("failed:1", "ben"), "resolve": ResolveItem("failed:1")})
    async def test_a_resolved_item_stays_as_it_is(self, harness: Harness, command: ItemCommand) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, Discard())
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, command), IllegalMove)
        assert await harness.contents() == before

    async def test_a_resolved_item_can_be_talked_about(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, Discard())
        await harness.change(run.run_id, CommentItem("failed:1", "it was the card"))
        assert len(await harness.store.exception_comments(ItemId(run.run_id, "failed:1"))) == 1

    @cases(command={"assign": AssignItem("failed:2", "ben"), "resolve": ResolveItem("review:1")})
    async def test_an_item_that_a_run_does_not_have_is_not_found(self, harness: Harness, command: ItemCommand) -> None:
        run = await failed(harness)
        assert isinstance(await harness.refusal(run.run_id, command), NotFound)

    async def test_the_same_command_with_its_key_is_carried_out_once(self, harness: Harness) -> None:
        run = await failed(harness)
        for _ in range(2):
            answer = await harness.change(run.run_id, CommentItem("failed:1", "look"), key="k")
            assert isinstance(answer, Changed)
        assert len(await harness.store.exception_comments(ItemId(run.run_id, "failed:1"))) == 1

    async def test_commands_on_two_items_of_one_run_each_meet_their_own(self, harness: Harness) -> None:
        run = await reviewed(harness, is_parked=False)
        await harness.save(asked(run, title="And this?"))
        causes = ("review:7", "review:1", "review:2")
        await harness.store.change([Request(run.run_id, AssignItem(cause, cause)) for cause in causes])
        assert [(view.cause, view.assignee) for view in await items(harness)] == [
            ("review:2", "review:2"),
            ("review:1", "review:1"),
        ]

    async def test_a_list_goes_on_where_the_page_before_ended_also_within_a_run(self, harness: Harness) -> None:
        older = await failed(harness)
        run = await reviewed(harness, is_parked=False)
        await harness.save(asked(run))
        first = await items(harness, limit=2)
        rest = await items(harness, limit=2, before=ItemId(first[0].run_id, first[0].cause))
        assert [view.cause for view in first] == ["review:2", "review:1"]
        assert [(view.run_id, view.cause) for view in rest] == [(run.run_id, "review:1"), (older.run_id, "failed:1")]

    @cases(
        wanted={
            "tenant": ({"tenant": "other"}, {"tenant": "other"}),
            "workflow": ({"workflow": "mail"}, {"workflow": "mail"}),
            "shape": ({"message": "out of cards"}, {"shape": shape_of("ValueError", "out of cards")}),
        }
    )
    async def test_a_list_of_items_holds_only_what_is_asked_for(
        self, harness: Harness, wanted: tuple[dict[str, Any], dict[str, Any]]
    ) -> None:
        made, where = wanted
        await failed(harness)
        run = await failed(harness, **made)
        assert [view.run_id for view in await items(harness, **where)] == [run.run_id]
        assert await harness.store.exception_counts(ItemFilter(**where)) == {ItemKind.FAILED: 1}

    async def test_items_are_counted_by_kind(self, harness: Harness) -> None:
        await failed(harness)
        gone = await failed(harness)
        await harness.change(gone.run_id, Discard())
        await reviewed(harness)
        counts = await harness.store.exception_counts(ItemFilter())
        assert counts == {ItemKind.FAILED: 1, ItemKind.REVIEW_REQUIRED: 1}
        assert await harness.store.exception_counts(ItemFilter(resolved=True)) == counts | {ItemKind.FAILED: 2}

    async def test_equal_failures_are_one_group(self, harness: Harness) -> None:
        first = await failed(harness, "order 17 refused", "ship#1")
        await harness.advance(5)
        await failed(harness, "order 18 refused", "1/ship#2")
        await harness.advance(5)
        newest = await failed(harness, "order 9 refused", "2/ship#1")
        (group,) = await harness.store.exception_groups(ItemFilter())
        assert (group.size, group.first_at, group.newest_at) == (3, NOON, NOON + 10)
        assert (group.shape, group.newest) == (
            "ship: ValueError: order <n> refused",
            ItemId(newest.run_id, "failed:1"),
        )
        assert (group.step, group.title) == ("2/ship#1", "ValueError: order 9 refused")
        assert group.newest.run_id != first.run_id

    @cases(
        other={
            "workflow": {"workflow": "mail"},
            "step": {"step": "mail#1"},
            "error": {"error_type": "KeyError"},
            "message": {"message": "refused for good"},
        }
    )
    async def test_other_failures_are_another_group(self, harness: Harness, other: dict[str, Any]) -> None:
        for _ in range(2):
            await failed(harness, step="ship#1")
        await failed(harness, **{"step": "ship#1"} | other)
        assert [group.size for group in await harness.store.exception_groups(ItemFilter())] == [2, 1]

    async def test_a_group_has_what_is_open_of_a_tenant(self, harness: Harness) -> None:
        runs = [await failed(harness) for _ in range(2)]
        await failed(harness, tenant="other")
        await harness.change(runs[0].run_id, Discard())
        assert [group.size for group in await harness.store.exception_groups(ItemFilter(tenant="acme"))] == [1]
