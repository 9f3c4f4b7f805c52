"""What the exception queue needs from a store, as part of its port."""

from __future__ import annotations

from typing import Protocol

from stepfast.kernel.items import CommentView, GroupView, ItemFilter, ItemId, ItemView
from stepfast.kernel.reviews import ItemKind


class ItemReads(Protocol):
    """Exception items as people read them; they are changed by commands alone."""

    async def exceptions(self, where: ItemFilter) -> list[ItemView]:
        """A page of exception items, newest run first."""
        ...

    async def exception_counts(self, where: ItemFilter) -> dict[ItemKind, int]:
        """How many there are of each kind that has any; a page's bounds do not matter."""
        ...

    async def exception_groups(self, where: ItemFilter) -> list[GroupView]:
        """Equal open items as one: same kind, workflow and shape of failure; the largest groups first."""
        ...

    async def exception_comments(self, item: ItemId) -> list[CommentView]:
        """What people have said of an item, in order; for a review that is what they said of the review."""
        ...
