"""Walks over lists and keys; every item is paid for by what its body weighs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from stepfast.workflows.expressions.budget import Meter, spend
from stepfast.workflows.expressions.kinds import kind_name, plain
from stepfast.workflows.expressions.problems import Failed

Test = Callable[[Any], bool]
Body = Callable[[Any], Any]


def _items(meter: Meter, weight: int, operand: Any) -> list[Any]:
    items = operand if type(operand) is list else _walkable(operand)
    spend(meter, len(items) * weight + 1)
    return items


def _walkable(operand: Any) -> list[Any]:
    value = plain(operand)
    if isinstance(value, list | dict):
        return list(value)
    raise Failed(f"a list or a map is needed here, and this is a value of kind {kind_name(value)}")


def all_of(meter: Meter, weight: int, operand: Any, test: Test) -> bool:
    return all(map(test, _items(meter, weight, operand)))


def any_of(meter: Meter, weight: int, operand: Any, test: Test) -> bool:
    return any(map(test, _items(meter, weight, operand)))


def one_of(meter: Meter, weight: int, operand: Any, test: Test) -> bool:
    return sum(map(test, _items(meter, weight, operand))) == 1


def kept(meter: Meter, weight: int, operand: Any, test: Test) -> list[Any]:
    return list(filter(test, _items(meter, weight, operand)))


def mapped(meter: Meter, weight: int, operand: Any, body: Body) -> list[Any]:
    return list(map(body, _items(meter, weight, operand)))


def kept_and_mapped(meter: Meter, weight: int, operand: Any, test: Test, body: Body) -> list[Any]:
    return list(map(body, filter(test, _items(meter, weight, operand))))


def settled(tests: Sequence[Callable[[], bool]], decisive: bool) -> bool:
    """`&&` (false decides) and `||` (true decides): what fails is of no account once another decides."""
    failure: Failed | None = None
    for test in tests:
        try:
            if test() is decisive:
                return decisive
        except Failed as failed:
            failure = failure or failed
    if failure is not None:
        raise failure
    return not decisive


def settled_over(meter: Meter, weight: int, operand: Any, test: Test, decisive: bool) -> bool:
    """The same over items: `all` is `&&` of them, `exists` is `||`."""
    items = _items(meter, weight, operand)
    return settled([partial(test, item) for item in items], decisive)
