"""Pages of lists: one more is read than shown, which tells whether there is a next page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import click

from stepfast.cli.printing import print_json, print_table, say
from stepfast.cli.shapes import page_object
from stepfast.kernel.numbers import written

T = TypeVar("T")


class Listing(NamedTuple, Generic[T]):
    """How the items of a list are shown: as objects, as rows under a head, or by a word when there are none."""

    to_object: Callable[[T], dict[str, Any]]
    head: Sequence[str]
    to_row: Callable[[T], Sequence[object]]
    nothing: str
    cursor_of: Callable[[T], object]


def numeric_cursor(cursor: str) -> int:
    """The number that a page's cursor is."""
    number = written(cursor)
    if number is None:
        raise click.BadParameter(f"{cursor!r} is no cursor of this command; it gives numbers.", param_hint="--cursor")
    return number


def print_page(found: Sequence[T], limit: int, listing: Listing[T], is_json: bool) -> None:
    """Show up to so many of what was found, and how to come to the next page."""
    shown, next_cursor = found[:limit], str(listing.cursor_of(found[limit - 1])) if len(found) > limit else None
    if is_json:
        print_json(page_object(map(listing.to_object, shown), next_cursor))
        return
    if not shown:
        say(listing.nothing)
        return
    print_table(listing.head, map(listing.to_row, shown))
    if next_cursor:
        say(f"There are more: --cursor {next_cursor}")
