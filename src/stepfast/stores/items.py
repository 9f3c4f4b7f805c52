"""What is read and written of exception items: the same statements for both stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stepfast.kernel.commands import Change, Request
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.items import (
    AssignItem,
    CommentItem,
    CommentView,
    GroupView,
    ItemFilter,
    ItemId,
    ItemView,
    LockedItem,
    ResolveItem,
    review_number,
)
from stepfast.kernel.reviews import ItemKind
from stepfast.stores.rows import ABOVE_ALL_IDS

Row = Sequence[Any]

# An item's cause begins with a small letter.
ABOVE_ALL_CAUSES = "~"
NO_REVIEW = 0


def cause_of(request: Request) -> str | None:
    """The item that a command is about, if it is about one."""
    command = request.command
    return command.cause if isinstance(command, AssignItem | CommentItem | ResolveItem) else None


def locked_item(row: Row) -> LockedItem:
    """A row of `locked_item`."""
    cause, kind, step, resolution = row
    return LockedItem(cause, ItemKind(kind), step, resolution)


def item_writes(run_id: RunId, actor: str | None, change: Change, now: Instant) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a change writes of an item: statements by name, each with its parameters."""
    if change.item is None:
        return
    which = {"run_id": run_id, "cause": change.item.cause}
    if change.item.assigned is not None:
        (assignee,) = change.item.assigned
        yield "assign_item", {**which, "assignee": assignee}
    if change.item.comment is not None:
        yield "comment_item", {**which, "actor": actor, "text": change.item.comment, "now": now}
    if change.item.resolution is not None:
        yield "resolve_item", {**which, "resolution": change.item.resolution, "actor": actor, "now": now}


def item_parameters(where: ItemFilter) -> dict[str, Any]:
    """The parameters of `list_exceptions`; a condition that is not asked for is None."""
    before = where.before or ItemId(ABOVE_ALL_IDS, ABOVE_ALL_CAUSES)
    return {
        **where._asdict(),
        "kind": None if where.kind is None else where.kind.value,
        "before_run": before.run_id,
        "before_cause": before.cause,
        "unresolved": None if where.resolved else "only",
    }


def comment_parameters(item: ItemId) -> dict[str, Any]:
    """The parameters of `list_item_comments`."""
    return {**item._asdict(), "wait_id": review_number(item.cause) or NO_REVIEW}


def item_view(row: Row) -> ItemView:
    """A row of `list_exceptions`."""
    run_id, cause, tenant, generation, workflow, kind, *rest = row
    return ItemView(RunId(str(run_id)), cause, tenant, generation, workflow, ItemKind(kind), *rest)


def kind_count(row: Row) -> tuple[ItemKind, int]:
    """A row of `count_exceptions`."""
    kind, number = row
    return ItemKind(kind), number


def comment_view(row: Row) -> CommentView:
    """A row of `list_item_comments`."""
    return CommentView(*row)


def group_view(row: Row) -> GroupView:
    """A row of `group_exceptions`."""
    kind, workflow, shape, size, first_at, newest_at, run_id, cause, *newest = row
    item = ItemId(RunId(str(run_id)), cause)
    return GroupView(ItemKind(kind), workflow, shape, size, first_at, newest_at, item, *newest)
