"""From one kind of value to another."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from typing import Any

from stepfast.workflows.expressions.budget import Meter, spend, spend_copy
from stepfast.workflows.expressions.kinds import INT_MAX, INT_MIN, KINDS, UINT_MAX, TypeValue, UInt, kind_name, plain
from stepfast.workflows.expressions.problems import Failed
from stepfast.workflows.expressions.spans import SECOND, Moment, Span, moment_of
from stepfast.workflows.expressions.times import (
    read_moment,
    read_span,
    write_moment,
    write_span,
)
from stepfast.workflows.expressions.values import check_int, check_uint

_WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_TRUE, _FALSE = {"1", "t", "true", "TRUE", "True"}, {"0", "f", "false", "FALSE", "False"}
_LONGEST_NUMBER = 1_000
_MAX_DEPTH = 100


def same(meter: Meter, value: Any) -> Any:
    return value


def int_of_int(meter: Meter, value: int) -> int:
    return check_int(value)


def int_of_uint(meter: Meter, value: UInt) -> int:
    return check_int(int(value))


def int_of_double(meter: Meter, value: float) -> int:
    # The ends are not whole doubles of their own; what rounds to them may lie beyond.
    if not INT_MIN < value < INT_MAX:
        raise Failed("the number does not fit 64 bits")
    return int(value)


def int_of_string(meter: Meter, value: str) -> int:
    return check_int(_whole(value))


def int_of_timestamp(meter: Meter, value: Moment) -> int:
    return value // SECOND


def uint_of_int(meter: Meter, value: int) -> UInt:
    return check_uint(value)


def uint_of_double(meter: Meter, value: float) -> UInt:
    if not 0 <= value < UINT_MAX:
        raise Failed("the number does not fit an unsigned number of 64 bits")
    return UInt(int(value))


def uint_of_string(meter: Meter, value: str) -> UInt:
    return check_uint(_whole(value))


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise Failed("the text is no whole number")
    return int(text)


def double_of_int(meter: Meter, value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Failed("the number is larger than a double can be") from None


def double_of_string(meter: Meter, value: str) -> float:
    if value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if len(value) > _LONGEST_NUMBER or not _DECIMAL.fullmatch(value):
        raise Failed("the text is no number")
    return float(value)


def bool_of_string(meter: Meter, value: str) -> bool:
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise Failed("the text is neither true nor false")


def bytes_of_string(meter: Meter, value: str) -> bytes:
    spend_copy(meter, len(value))
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise Failed("the text has a lone surrogate, which is no character") from None


def string_of_int(meter: Meter, value: int) -> str:
    return str(int(check_int(value)))


def string_of_uint(meter: Meter, value: UInt) -> str:
    return str(int(value))


def string_of_double(meter: Meter, value: float) -> str:
    """The shortest text that gives the same number again."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")


def string_of_bool(meter: Meter, value: bool) -> str:
    return "true" if value else "false"


def string_of_bytes(meter: Meter, value: bytes) -> str:
    spend_copy(meter, len(value))
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Failed("the bytes are no text in UTF-8") from None


def string_of_timestamp(meter: Meter, value: Moment) -> str:
    return write_moment(value)


def string_of_duration(meter: Meter, value: Span) -> str:
    return write_span(value)


def timestamp_of_string(meter: Meter, value: str) -> Moment:
    return read_moment(value)


def timestamp_of_int(meter: Meter, value: int) -> Moment:
    return moment_of(value * SECOND)


def duration_of_string(meter: Meter, value: str) -> Span:
    return read_span(value)


def type_of(meter: Meter, value: Any) -> TypeValue:
    return KINDS[type(plain(value))]


_JSON_ALREADY = frozenset({type(None), bool, int, str})


def as_json(meter: Meter, value: Any, depth: int = 0) -> Any:
    """A value as JSON has it: moments and spans are texts, bytes are texts in base 64."""
    if type(value) in _JSON_ALREADY:
        return value
    if depth > _MAX_DEPTH:
        raise Failed(f"the value has more than {_MAX_DEPTH} levels of lists and maps")
    spend(meter, 1)
    match value:
        case list() | tuple():
            spend_copy(meter, len(value))
            return [as_json(meter, item, depth + 1) for item in value]
        case Mapping():
            return {_json_key(key): as_json(meter, item, depth + 1) for key, item in value.items()}
        case _:
            return _scalar_as_json(meter, plain(value))


def _scalar_as_json(meter: Meter, value: Any) -> Any:
    match value:
        case float():
            return _finite(value)
        case Moment():
            return write_moment(value)
        case Span():
            return write_span(value)
        case UInt():
            return int(value)
        case bytes():
            spend_copy(meter, len(value))
            return base64.b64encode(value).decode()
        case TypeValue():
            raise Failed(f"the type {value} is no JSON value")
        case _:
            return value


def _finite(value: float) -> float:
    if math.isfinite(value):
        return value
    raise Failed("JSON has no number that is infinite or not a number")


def _json_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise Failed(f"a key of JSON must be a text, and this is of kind {kind_name(key)}")
