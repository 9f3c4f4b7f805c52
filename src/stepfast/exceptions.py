"""The exception queue: what a person should look at, from reviews, failures and runs whose code does not fit."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepfast.base import AppBase
from stepfast.control import asked, changed_or_raise
from stepfast.filters import item_filter, item_place, page_size
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import NotFound
from stepfast.kernel.items import (
    AssignItem,
    CommentItem,
    CommentView,
    GroupView,
    ItemCommand,
    ItemFilter,
    ItemId,
    ItemView,
    ResolveItem,
    parse_item_id,
)
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.texts import MAX_NOTE, check_optional_text, check_text

Items = list[ItemView]
Groups = list[GroupView]


class WholeItem(NamedTuple):
    """An item, and what people have said of it."""

    item: ItemView
    comments: tuple[CommentView, ...]


class Exceptions:
    """The exception items on an app's store.

    Filters are `tenant`, `kind` (`review_required`, `failed`, `blocked`, `low_confidence`, `policy_conflict`),
    `workflow`, `assignee`, `run_id` and `opened_after`. Items that are resolved are left out unless `resolved`.
    """

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(
        self, /, *, resolved: bool = False, limit: int = 100, cursor: str | None = None, **filters: Any
    ) -> Items:
        """A page of items, newest run first; the id of the last one is the cursor of the next page."""
        where = item_filter(**filters)._replace(resolved=resolved, limit=page_size(limit), before=item_place(cursor))
        return await self._app._open_parts().store.exceptions(where)

    async def get(self, item_id: str, *, tenant: str | None = None) -> WholeItem:
        """One item, also a resolved one, with what people have said of it."""
        store, where = self._app._open_parts().store, parse_item_id(item_id)
        whose = check_optional_text("tenant", tenant)
        found = await store.exceptions(ItemFilter(whose, run_id=where.run_id, cause=where.cause, resolved=True))
        if not found:
            raise NotFound(f"Exception item {item_id} not found. List them with `stepfast exceptions list`.")
        return WholeItem(found[0], tuple(await store.exception_comments(where)))

    async def count(self, /, *, resolved: bool = False, **filters: Any) -> dict[ItemKind, int]:
        """How many items there are, by kind; every kind is there."""
        where = item_filter(**filters)._replace(resolved=resolved)
        found = await self._app._open_parts().store.exception_counts(where)
        return {kind: found.get(kind, 0) for kind in ItemKind}

    async def groups(self, /, *, limit: int = 100, **filters: Any) -> Groups:
        """Equal open items as one: failures of the same step with the same shape, reviews of the same call."""
        where = item_filter(**filters)._replace(limit=page_size(limit))
        return await self._app._open_parts().store.exception_groups(where)

    async def assign(
        self,
        item_id: str,
        assignee: str | None,
        *,
        tenant: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Changed:
        """Say who sees to an item; None: nobody in particular. Of a review, that is who may answer it."""
        where = parse_item_id(item_id)
        command = AssignItem(where.cause, check_optional_text("assignee", assignee))
        return await self._change(where, command, tenant, key, reason, actor)

    async def comment(
        self,
        item_id: str,
        text: str,
        *,
        tenant: str | None = None,
        key: str | None = None,
        actor: str | None = None,
    ) -> Changed:
        """Say something about an item; a comment on a review is one of the review."""
        where = parse_item_id(item_id)
        command = CommentItem(where.cause, check_text("The comment", text, MAX_NOTE))
        return await self._change(where, command, tenant, key, None, actor)

    async def resolve(
        self,
        item_id: str,
        *,
        tenant: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Changed:
        """Put a failure aside, with its dead letter; a review is answered, and code that fits deployed instead."""
        where = parse_item_id(item_id)
        return await self._change(where, ResolveItem(where.cause), tenant, key, reason, actor)

    async def _change(
        self,
        where: ItemId,
        command: ItemCommand,
        tenant: str | None,
        key: str | None,
        reason: str | None,
        actor: str | None,
    ) -> Changed:
        request = asked(command, key, reason, actor).of(where.run_id, check_optional_text("tenant", tenant))
        return changed_or_raise(await self._app._open_parts().change([request]))
