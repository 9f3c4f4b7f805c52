"""The exception queue as it is read, one connection's snapshot at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from stepfast.kernel.items import CommentView, GroupView, ItemFilter, ItemId, ItemView
from stepfast.kernel.reviews import ItemKind
from stepfast.stores import items
from stepfast.stores.sqlite.asking import fetch
from stepfast.stores.statements import exception_statements, narrowed, unprefixed

T = TypeVar("T")

SQL = {name: unprefixed(text) for name, text in exception_statements().items()}


def list_items(connection: apsw.Connection, where: ItemFilter) -> list[ItemView]:
    return _all(connection, "list_exceptions", items.item_parameters(where), items.item_view)


def count_items(connection: apsw.Connection, where: ItemFilter) -> dict[ItemKind, int]:
    return dict(_all(connection, "count_exceptions", items.item_parameters(where), items.kind_count))


def group_items(connection: apsw.Connection, where: ItemFilter) -> list[GroupView]:
    return _all(connection, "group_exceptions", items.item_parameters(where), items.group_view)


def list_comments(connection: apsw.Connection, item: ItemId) -> list[CommentView]:
    return _all(connection, "list_item_comments", items.comment_parameters(item), items.comment_view)


def _all(
    connection: apsw.Connection, name: str, bindings: dict[str, Any], view: Callable[[Sequence[Any]], T]
) -> list[T]:
    given = {parameter for parameter, value in bindings.items() if value is not None}
    return [view(row) for row in fetch(connection, narrowed(SQL[name], given), bindings)]
