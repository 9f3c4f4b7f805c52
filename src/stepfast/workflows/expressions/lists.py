"""What can be made of lists: sums, orders, and lists without repetitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key, partial
from typing import Any

from stepfast.workflows.expressions.budget import Meter, spend
from stepfast.workflows.expressions.kinds import NUMBERS, kind_name, plain
from stepfast.workflows.expressions.problems import Failed
from stepfast.workflows.expressions.values import add, check_int, equals, greater, less

_HASHED = frozenset({str, bytes, bool, type(None)})


def sum_of(meter: Meter, items: list[Any]) -> Any:
    spend(meter, len(items))
    if not items:
        return 0
    total = plain(items[0])
    if kind_name(total) not in {"int", "uint", "double", "duration"}:
        raise Failed(f"sum needs numbers or durations, and the first item is of kind {kind_name(total)}")
    if type(total) is int:
        check_int(total)
    for item in items[1:]:
        total = add(meter, total, item)
    return total


def least(meter: Meter, items: list[Any]) -> Any:
    return _best(meter, items, less, "min")


def greatest(meter: Meter, items: list[Any]) -> Any:
    return _best(meter, items, greater, "max")


def _best(meter: Meter, items: list[Any], better: Callable[[Meter, Any, Any], bool], name: str) -> Any:
    if not items:
        raise Failed(f"{name} of an empty list")
    spend(meter, len(items))
    best = items[0]
    # Compared with itself, a single item that has no order is found out as well.
    for item in items:
        if better(meter, item, best):
            best = item
    return best


def sort(meter: Meter, items: list[Any]) -> list[Any]:
    spend(meter, len(items) * max(1, len(items).bit_length()))
    return sorted(items, key=cmp_to_key(partial(_order, meter)))


def _order(meter: Meter, one: Any, other: Any) -> int:
    return -1 if less(meter, one, other) else int(less(meter, other, one))


def distinct(meter: Meter, items: list[Any]) -> list[Any]:
    """The items without those that equal an earlier one."""
    spend(meter, len(items))
    seen: set[Any] = set()
    kept: list[Any] = []
    others: list[Any] = []
    for item in items:
        key = _hashed(item)
        if key is None and any(equals(meter, item, other) for other in others):
            continue
        if key in seen:
            continue
        if key is None:
            others.append(item)
        else:
            seen.add(key)
        kept.append(item)
    return kept


def _hashed(item: Any) -> Any:
    """Something that Python hashes and compares as we compare the item, if there is such a thing."""
    if type(item) in NUMBERS:
        return (int, item) if item == item else None
    return (type(item), item) if type(item) in _HASHED else None


def flatten(meter: Meter, items: list[Any], depth: int = 1) -> list[Any]:
    """Lists inside the list give way to their items, that many levels deep."""
    if depth < 0:
        raise Failed("flatten needs a depth of 0 or more")
    flat, level = items, 0
    while level < depth and any(isinstance(item, list) for item in flat):
        spend(meter, len(flat))
        flat = _opened(meter, flat)
        level += 1
    return flat


def _opened(meter: Meter, items: list[Any]) -> list[Any]:
    opened: list[Any] = []
    for item in items:
        if isinstance(item, list):
            spend(meter, len(item))
            opened.extend(item)
        else:
            opened.append(item)
    return opened
