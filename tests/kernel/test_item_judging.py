"""What commands mean for exception items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepfast.kernel.commands import LockedRun, Request
from stepfast.kernel.control import decide
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, NotFound
from stepfast.kernel.ids import RunId
from stepfast.kernel.items import AssignItem, CommentItem, ItemChange, ItemCommand, LockedItem, ResolveItem
from stepfast.kernel.reviews import ItemKind, LockedReview, Owner, ReviewId, ReviewState, Verdict
from stepfast.kernel.states import RunState, TaskState

NOW = Instant(1_000)
RUN_ID = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")
FAILED = LockedItem("failed:1", ItemKind.FAILED, "ship#1", None)
BLOCKED = LockedItem("blocked:1", ItemKind.BLOCKED, None, None)
COMMANDS = [AssignItem("failed:1", "ben"), CommentItem("failed:1", "look"), ResolveItem("failed:1")]


def run_with(item: LockedItem | None, **changes: Any) -> LockedRun:
    who = (RUN_ID, "acme", "order", 1, "workflow", "order@1", "{}", 1)
    run = LockedRun(*who, RunState.FAILED, None, False, False, None, None, False, True, item=item)
    return run._replace(**changes)


def asked(command: ItemCommand) -> Request:
    return Request(RUN_ID, command, None, "ann", "because")


def test_an_item_is_assigned_and_told_of():
    change = decide(run_with(FAILED), asked(AssignItem("failed:1", "ben")), NOW)
    [event] = change.events
    assert (change.item, change.state) == (ItemChange("failed:1", assigned=("ben",)), RunState.FAILED)
    assert (event.type, event.step, event.actor) == ("exception_assigned", "ship#1", "ann")
    assert json.loads(event.data or "") == {
        "cause": "failed:1",
        "kind": "failed",
        "assignee": "ben",
        "reason": "because",
    }


def test_a_comment_is_kept_and_its_text_is_not_in_the_history():
    change = decide(run_with(FAILED), asked(CommentItem("failed:1", "look")), NOW)
    [event] = change.events
    assert (change.item, "look" in (event.data or "")) == (ItemChange("failed:1", comment="look"), False)


def test_a_resolved_failure_is_a_discarded_letter():
    change = decide(run_with(FAILED), asked(ResolveItem("failed:1")), NOW)
    assert [event.type for event in change.events] == ["exception_resolved", "dlq_discarded"]
    assert (change.resolution, change.item) == ("discarded", None)


def test_events_of_a_run_that_is_held_are_left_to_its_holder():
    held = run_with(BLOCKED, state=RunState.RUNNING, task=TaskState.LEASED, has_letter=False)
    change = decide(held, asked(AssignItem("blocked:1", "ben")), NOW)
    assert (change.events, [event.type for event in change.owed]) == ((), ["exception_assigned"])


@pytest.mark.parametrize("item", [BLOCKED, LockedItem("review:1", ItemKind.LOW_CONFIDENCE, "ask#1", None)])
def test_what_has_another_end_is_not_resolved_by_hand(item):
    with pytest.raises(IllegalMove, match=str(RUN_ID)):
        decide(run_with(item), asked(ResolveItem(item.cause)), NOW)


def test_the_item_of_a_run_that_waits_for_code_names_the_way_out_where_no_code_fits():
    way_out = f"`stepfast runs rollback {RUN_ID} --to STEP`.*`stepfast runs resume {RUN_ID}`"
    with pytest.raises(IllegalMove, match=way_out):
        decide(run_with(BLOCKED), asked(ResolveItem(BLOCKED.cause)), NOW)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_item_that_is_not_there_is_not_found(command):
    with pytest.raises(NotFound, match="failed:1"):
        decide(run_with(None), asked(command), NOW)


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[2]])
def test_a_resolved_item_stays_as_it_is(command):
    with pytest.raises(IllegalMove, match="replayed"):
        decide(run_with(FAILED._replace(resolution="replayed")), asked(command), NOW)


def test_a_review_for_one_person_alone_is_not_laid_open_to_everybody():
    item = LockedItem("review:7", ItemKind.REVIEW_REQUIRED, "ask#1", None)
    for_ann = LockedReview(
        review_id=ReviewId(RUN_ID, 7),
        generation=1,
        step="ask#1",
        state=ReviewState.OPEN,
        digest="d",
        verdicts=(Verdict.CONTINUE,),
        owner=Owner("ann"),
        quorum=1,
        quorum_reject=1,
        expires_ms=None,
        on_expiry="fail",
        escalate_to=Owner(),
        escalations=0,
        due_at=None,
        subject=None,
    )
    with pytest.raises(IllegalMove, match="ann alone"):
        decide(run_with(item, review=for_ann), asked(AssignItem("review:7", None)), NOW)
