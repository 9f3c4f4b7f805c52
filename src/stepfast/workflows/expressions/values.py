"""What the operators do with values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from stepfast.kernel.texts import shown
from stepfast.workflows.expressions.budget import COPIED_AT_ONCE, Meter, spend, spend_copy
from stepfast.workflows.expressions.kinds import (
    INT_MAX,
    INT_MIN,
    KINDS,
    NUMBERS,
    SCALARS,
    UINT_MAX,
    UInt,
    kind_name,
    no_overload,
    plain,
)
from stepfast.workflows.expressions.problems import Failed, did_you_mean
from stepfast.workflows.expressions.spans import Moment, Span, moment_of, span_of

_ORDERED = frozenset({bool, int, UInt, float, str, bytes, Moment, Span})
_COPIED = frozenset({str, bytes, list})
_MOST_KEYS_SHOWN = 8


def check_int(value: int) -> int:
    """Refuse what does not fit a signed number of 64 bits."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise Failed("the number does not fit 64 bits")


def check_uint(value: int) -> UInt:
    """Refuse what does not fit an unsigned number of 64 bits."""
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise Failed("the number does not fit an unsigned number of 64 bits")


def add(meter: Meter, left: Any, right: Any) -> Any:
    """`left + right`."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return check_int(check_int(left) + check_int(right))
        if kind is float:
            return left + right
        if kind in _COPIED:
            spend_copy(meter, len(left) + len(right))
            return left + right
        if kind is UInt:
            return check_uint(int(left) + int(right))
        if kind is Span:
            return span_of(int(left) + int(right))
    elif (kind is Moment and type(right) is Span) or (kind is Span and type(right) is Moment):
        return moment_of(int(left) + int(right))
    return add(meter, *_plain_pair("+", left, right))


def subtract(meter: Meter, left: Any, right: Any) -> Any:
    """`left - right`."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return check_int(check_int(left) - check_int(right))
        if kind is float:
            return left - right
        if kind is UInt:
            return check_uint(int(left) - int(right))
        if kind in (Span, Moment):
            return span_of(int(left) - int(right))
    elif kind is Moment and type(right) is Span:
        return moment_of(int(left) - int(right))
    return subtract(meter, *_plain_pair("-", left, right))


def multiply(meter: Meter, left: Any, right: Any) -> Any:
    """`left * right`."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return check_int(check_int(left) * check_int(right))
        if kind is float:
            return left * right
        if kind is UInt:
            return check_uint(int(left) * int(right))
    return multiply(meter, *_plain_pair("*", left, right))


def divide(meter: Meter, left: Any, right: Any) -> Any:
    """`left / right`; whole numbers are cut off toward zero."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return check_int(_quotient(check_int(left), check_int(right)))
        if kind is float:
            return _divided(left, right)
        if kind is UInt:
            return check_uint(_quotient(int(left), int(right)))
    return divide(meter, *_plain_pair("/", left, right))


def remainder(meter: Meter, left: Any, right: Any) -> Any:
    """`left % right`, with the sign of the left."""
    kind = type(left)
    if kind is type(right) and kind in (int, UInt):
        if kind is UInt:
            return UInt(int(left) - int(right) * _quotient(int(left), int(right)))
        # The lowest number by -1 is refused as in a division, though the remainder would fit.
        return left - right * check_int(_quotient(check_int(left), check_int(right)))
    return remainder(meter, *_plain_pair("%", left, right))


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise Failed("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divided(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def negate(value: Any) -> Any:
    """`-value`."""
    if type(value) is int:
        return check_int(-check_int(value))
    if type(value) is float:
        return -value
    return negate(_plain_one("-", value))


def invert(value: Any) -> bool:
    """`!value`."""
    if value is True:
        return False
    if value is False:
        return True
    raise no_overload("!", value)


def truth(value: Any) -> bool:
    """The value where only true and false will do."""
    if value is True or value is False:
        return bool(value)
    raise Failed(f"true or false is needed here, and this is a value of kind {kind_name(value)}")


def _plain_pair(operation: str, left: Any, right: Any) -> tuple[Any, Any]:
    if type(left) in KINDS and type(right) in KINDS:
        raise no_overload(operation, left, right)
    return plain(left), plain(right)


def _plain_one(operation: str, value: Any) -> Any:
    if type(value) in KINDS:
        raise no_overload(operation, value)
    return plain(value)


def less(meter: Meter, left: Any, right: Any) -> bool:
    """`left < right`."""
    left, right = _comparable(meter, "<", left, right)
    return bool(left < right)


def less_or_equal(meter: Meter, left: Any, right: Any) -> bool:
    """`left <= right`."""
    left, right = _comparable(meter, "<=", left, right)
    return bool(left <= right)


def greater(meter: Meter, left: Any, right: Any) -> bool:
    """`left > right`."""
    left, right = _comparable(meter, ">", left, right)
    return bool(left > right)


def greater_or_equal(meter: Meter, left: Any, right: Any) -> bool:
    """`left >= right`."""
    left, right = _comparable(meter, ">=", left, right)
    return bool(left >= right)


def _comparable(meter: Meter, operation: str, left: Any, right: Any) -> tuple[Any, Any]:
    kind, other = type(left), type(right)
    if kind is other and kind in _ORDERED:
        if kind in _COPIED:
            spend_copy(meter, min(len(left), len(right)))
        return left, right
    if kind in NUMBERS and other in NUMBERS:
        return left, right
    return _comparable(meter, operation, *_plain_pair(operation, left, right))


def equals(meter: Meter, left: Any, right: Any) -> bool:
    """`left == right`; values of different kinds differ, save that numbers are compared by what they amount to."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if type(one) not in KINDS or type(other) not in KINDS:
            one, other = plain(one), plain(other)
        kind = type(one)
        spend(meter, len(one) // COPIED_AT_ONCE + 1 if kind in _COPIED else 1)
        if kind is type(other) and kind not in SCALARS:
            if not _unfold(one, other, pairs):
                return False
        elif not _same_scalar(one, other):
            return False
    return True


def _same_scalar(one: Any, other: Any) -> bool:
    if type(one) is type(other) or (type(one) in NUMBERS and type(other) in NUMBERS):
        return bool(one == other)
    return False


def _unfold(one: Any, other: Any, pairs: list[tuple[Any, Any]]) -> bool:
    """Whether two lists or maps have the same outline; their parts are added to what is to be compared."""
    if len(one) != len(other):
        return False
    if isinstance(one, list):
        pairs.extend(zip(one, other, strict=True))
        return True
    for key, value in one.items():
        found = find_key(other, key)
        if found is None:
            return False
        pairs.append((value, found[0]))
    return True


def differs(meter: Meter, left: Any, right: Any) -> bool:
    """`left != right`."""
    return not equals(meter, left, right)


def contains(meter: Meter, item: Any, container: Any) -> bool:
    """`item in container`."""
    if type(container) is list:
        if type(item) is str:
            spend_copy(meter, len(container) * (len(item) // COPIED_AT_ONCE + 1))
            return item in container
        return any(equals(meter, item, each) for each in container)
    if isinstance(container, Mapping):
        return find_key(container, item) is not None
    return contains(meter, item, _plain_pair("in", item, container)[1])


def find_key(container: Mapping[Any, Any], key: Any) -> tuple[Any] | None:
    """The value of a key, or nothing; Python takes true for the key 1, which we do not."""
    if type(key) is not str:
        return _find_other_key(container, key)
    try:
        return (container[key],)
    except KeyError:
        return None


def _find_other_key(container: Mapping[Any, Any], key: Any) -> tuple[Any] | None:
    key = plain(key)
    if type(key) not in (bool, int, UInt, float, str) or key not in container:
        return None
    for each, value in container.items():
        if _same_scalar(plain(each), key):
            return (value,)
    return None


def index(container: Any, key: Any) -> Any:
    """`container[key]`."""
    if type(container) is list:
        return container[_position(container, key)]
    if isinstance(container, Mapping):
        found = find_key(container, key)
        if found is None:
            raise no_such_key(container, key)
        return found[0]
    return index(_plain_pair("[]", container, key)[0], key)


def _position(items: Sequence[Any], key: Any) -> int:
    key = plain(key)
    if type(key) not in NUMBERS:
        raise Failed(f"a list is indexed by a number, and this is a value of kind {kind_name(key)}")
    if key != key or key in (math.inf, -math.inf) or int(key) != key:
        raise Failed("a list is indexed by a whole number")
    if not 0 <= key < len(items):
        raise Failed(f"no such index: {int(check_int(int(key)))}; the list has {len(items):,} items")
    return int(key)


def select(container: Any, field: str) -> Any:
    """`container.field`."""
    if not isinstance(container, Mapping):
        raise Failed(f"no such key: {shown(field)}; a value of kind {kind_name(container)} has no keys")
    try:
        return container[field]
    except KeyError:
        raise no_such_key(container, field) from None


def variable(scope: Mapping[str, Any], name: str) -> Any:
    """A free name."""
    try:
        return scope[name]
    except KeyError:
        raise Failed(partial(_missing_name, scope, name)) from None


def has_field(container: Any, field: str) -> bool:
    """`has(container.field)`."""
    if not isinstance(container, Mapping):
        raise Failed(f"a value of kind {kind_name(container)} has no keys that has() could look for")
    return field in container


def no_such_key(container: Mapping[Any, Any], key: Any) -> Failed:
    """The key is not there; says what is."""
    return Failed(partial(_missing_key, container, key))


def _missing_key(container: Mapping[Any, Any], key: Any) -> str:
    if not isinstance(key, str):
        return f"no such key: {key_text(key)}"
    hint = did_you_mean(key, map(str, container))
    return f"no such key: {shown(key)}; {hint or _known_keys(container)}"


def _known_keys(container: Mapping[Any, Any]) -> str:
    if not container:
        return "the map is empty"
    keys = ", ".join(shown(key) for key in islice(container, _MOST_KEYS_SHOWN))
    return f"the keys are {keys}{', ...' if len(container) > _MOST_KEYS_SHOWN else ''}"


def _missing_name(scope: Mapping[str, Any], name: str) -> str:
    return f"nothing is called '{name}' here. {did_you_mean(name, map(str, scope))}".rstrip()


def key_text(key: Any) -> str:
    """A key that is no text, for a message."""
    return str(plain(key)) if type(plain(key)) in (bool, float) else f"a value of kind {kind_name(key)}"


def make_map(keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
    """`{key: value}`; no key twice."""
    made: dict[Any, Any] = {}
    for key, value in zip(map(plain, keys), values, strict=True):
        if type(key) not in (bool, int, UInt, str):
            raise Failed(f"a key must be a text, a whole number or a boolean, and this is of kind {kind_name(key)}")
        if key in made:
            raise Failed("the map has the same key twice; true and 1 count as one, and so do false and 0")
        made[key] = value
    return made
