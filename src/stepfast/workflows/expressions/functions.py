"""The one table of functions and operators: what they take, what they give, and what does it.

The checker, the compiler and the reference page read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from stepfast.workflows.expressions import conversions, lists, texts, times
from stepfast.workflows.expressions.budget import Meter
from stepfast.workflows.expressions.kinds import KINDS, TypeValue, UInt, no_overload, plain
from stepfast.workflows.expressions.spans import Moment, Span
from stepfast.workflows.expressions.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    NUMBER,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    B,
    ListType,
    MapType,
    SimpleType,
    Type,
)

Work = Callable[..., Any]


@dataclass(frozen=True)
class Overload:
    """One way to call a function; `work` gets the meter and then the values."""

    parameters: tuple[Type, ...]
    result: Type
    work: Work


@dataclass(frozen=True)
class Function:
    """A function with all its overloads, called as `f(x)`, as `x.f()`, or both ways."""

    name: str
    about: str
    overloads: tuple[Overload, ...]
    receiver: bool = True
    free: bool = False
    extension: bool = False

    @property
    def counts(self) -> frozenset[int]:
        """How many arguments it can be given, its receiver among them."""
        return frozenset(len(overload.parameters) for overload in self.overloads)

    @property
    def is_test(self) -> bool:
        """Whether it can give nothing but true or false."""
        return all(overload.result == BOOL for overload in self.overloads)


@dataclass(frozen=True)
class Operator:
    """An operator's types; what it does is in `values`."""

    sign: str
    overloads: tuple[tuple[tuple[Type, ...], Type], ...]


def _conversion(name: str, about: str, result: Type, **works: Work) -> Function:
    overloads = tuple(Overload((_BY_NAME[source],), result, work) for source, work in works.items())
    return Function(name, about, overloads, receiver=False, free=True)


def _of_moment(name: str, about: str, work: Work, of_span: Work | None = None) -> Function:
    overloads = [Overload((TIMESTAMP,), INT, work), Overload((TIMESTAMP, STRING), INT, work)]
    if of_span is not None:
        overloads.append(Overload((DURATION,), INT, of_span))
    return Function(name, about, tuple(overloads))


def _of_text(name: str, about: str, work: Work, *forms: tuple[Type, ...], result: Type = STRING) -> Function:
    overloads = tuple(Overload((STRING, *rest), result, work) for rest in forms or ((),))
    return Function(name, about, overloads, extension=True)


def _of_list(name: str, about: str, work: Work, *forms: tuple[Type, ...], result: Type = A, item: Type = A) -> Function:
    overloads = tuple(Overload((ListType(item), *rest), result, work) for rest in forms or ((),))
    return Function(name, about, overloads, extension=True)


_BY_NAME = {str(each): each for each in (DYN, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION, TYPE)}

_TABLE = (
    Function(
        "size",
        "how many characters, bytes, items or keys",
        tuple(Overload((each,), INT, texts.size_of) for each in (STRING, BYTES, ListType(A), MapType(B, A))),
        free=True,
    ),
    Function("startsWith", "whether a text begins so", (Overload((STRING, STRING), BOOL, texts.starts_with),)),
    Function("endsWith", "whether a text ends so", (Overload((STRING, STRING), BOOL, texts.ends_with),)),
    Function("contains", "whether a text has that part", (Overload((STRING, STRING), BOOL, texts.contains_text),)),
    Function(
        "matches",
        "whether a regular expression of RE2 matches any part of a text",
        (Overload((STRING, STRING), BOOL, texts.matches),),
        free=True,
    ),
    _conversion(
        "int", "a whole number; cut off toward zero; of a timestamp, seconds since 1970", INT,
        int=conversions.int_of_int, uint=conversions.int_of_uint, double=conversions.int_of_double,
        string=conversions.int_of_string, timestamp=conversions.int_of_timestamp,
    ),
    _conversion(
        "uint", "a whole number without a sign", UINT,
        uint=conversions.same, int=conversions.uint_of_int, double=conversions.uint_of_double,
        string=conversions.uint_of_string,
    ),
    _conversion(
        "double", "a floating-point number", DOUBLE,
        double=conversions.same, int=conversions.double_of_int, uint=conversions.double_of_int,
        string=conversions.double_of_string,
    ),
    _conversion(
        "string", "a text", STRING,
        string=conversions.same, bool=conversions.string_of_bool, int=conversions.string_of_int,
        uint=conversions.string_of_uint, double=conversions.string_of_double, bytes=conversions.string_of_bytes,
        timestamp=conversions.string_of_timestamp, duration=conversions.string_of_duration,
    ),
    _conversion(
        "bytes", "the bytes of a text, in UTF-8", BYTES, bytes=conversions.same, string=conversions.bytes_of_string
    ),
    _conversion("bool", "true or false", BOOL, bool=conversions.same, string=conversions.bool_of_string),
    _conversion(
        "timestamp", "a moment, from a text like `2030-01-31T12:00:00Z` or from seconds since 1970", TIMESTAMP,
        timestamp=conversions.same, string=conversions.timestamp_of_string, int=conversions.timestamp_of_int,
    ),
    _conversion(
        "duration", "a span of time, from a text like `1h30m`, `90s` or `200ms`", DURATION,
        duration=conversions.same, string=conversions.duration_of_string,
    ),
    _conversion("type", "the type of a value, to be compared with `int`, `string`, ...", TYPE, dyn=conversions.type_of),
    _conversion("dyn", "the value itself, of which nothing is taken for granted", DYN, dyn=conversions.same),
    _of_moment("getFullYear", "the year", times.full_year),
    _of_moment("getMonth", "the month, from 0", times.month),
    _of_moment("getDate", "the day of the month, from 1", times.date),
    _of_moment("getDayOfMonth", "the day of the month, from 0", times.day_of_month),
    _of_moment("getDayOfWeek", "the day of the week; 0 is Sunday", times.day_of_week),
    _of_moment("getDayOfYear", "the day of the year, from 0", times.day_of_year),
    _of_moment("getHours", "the hour; of a duration, all its whole hours", times.hours, times.hours_of_span),
    _of_moment("getMinutes", "the minute; of a duration, all its whole minutes", times.minutes, times.minutes_of_span),
    _of_moment("getSeconds", "the second; of a duration, all its whole seconds", times.seconds, times.seconds_of_span),
    _of_moment(
        "getMilliseconds", "the milliseconds beyond the last whole second", times.milliseconds,
        times.milliseconds_of_span,
    ),
    _of_text("lowerAscii", "with small letters for A to Z", texts.lower_ascii),
    _of_text("upperAscii", "with capital letters for a to z", texts.upper_ascii),
    _of_text("trim", "without white space at both ends", texts.trim),
    _of_text(
        "split", "the parts between a separator, at most so many", texts.split, (STRING,), (STRING, INT),
        result=ListType(STRING),
    ),
    _of_text(
        "replace", "with one text in the place of another, at most so often", texts.replace, (STRING, STRING),
        (STRING, STRING, INT),
    ),
    _of_text("substring", "from one position up to another, from 0", texts.substring, (INT,), (INT, INT)),
    _of_text("charAt", "the character at a position, from 0", texts.char_at, (INT,)),
    _of_text("indexOf", "where a part first stands, or -1", texts.index_of, (STRING,), (STRING, INT), result=INT),
    _of_text(
        "lastIndexOf", "where a part last stands, or -1", texts.last_index_of, (STRING,), (STRING, INT), result=INT
    ),
    _of_list(
        "join", "the texts of a list as one, with a separator", texts.join_texts, (), (STRING,), result=STRING,
        item=STRING,
    ),
    _of_list("sum", "the sum of numbers or durations; 0 of none", lists.sum_of, result=DYN),
    _of_list("min", "the least item", lists.least),
    _of_list("max", "the greatest item", lists.greatest),
    _of_list("sort", "from the least to the greatest item", lists.sort, result=ListType(A)),
    _of_list("distinct", "without items that equal an earlier one", lists.distinct, result=ListType(A)),
    _of_list(
        "flatten", "with the items of lists in their place, so many levels deep", lists.flatten, (), (INT,),
        result=ListType(DYN),
    ),
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {function.name: function for function in _TABLE}


def _same(*types: Type) -> tuple[tuple[tuple[Type, ...], Type], ...]:
    return tuple(((each, each), each) for each in types)


_ORDER = tuple(((each, each), BOOL) for each in (NUMBER, STRING, BYTES, BOOL, TIMESTAMP, DURATION))

_OPERATORS = (
    Operator(
        "+",
        (
            *_same(INT, UINT, DOUBLE, STRING, BYTES, DURATION),
            ((ListType(A), ListType(A)), ListType(A)),
            ((TIMESTAMP, DURATION), TIMESTAMP),
            ((DURATION, TIMESTAMP), TIMESTAMP),
        ),
    ),
    Operator(
        "-",
        (
            *_same(INT, UINT, DOUBLE, DURATION),
            ((TIMESTAMP, TIMESTAMP), DURATION),
            ((TIMESTAMP, DURATION), TIMESTAMP),
            ((INT,), INT),
            ((DOUBLE,), DOUBLE),
        ),
    ),
    Operator("*", _same(INT, UINT, DOUBLE)),
    Operator("/", _same(INT, UINT, DOUBLE)),
    Operator("%", _same(INT, UINT)),
    Operator("!", (((BOOL,), BOOL),)),
    Operator("==", (((DYN, DYN), BOOL),)),
    Operator("!=", (((DYN, DYN), BOOL),)),
    *(Operator(sign, _ORDER) for sign in ("<", "<=", ">", ">=")),
    Operator("in", (((DYN, ListType(A)), BOOL), ((DYN, MapType(B, A)), BOOL))),
)

OPERATORS: dict[str, Operator] = {operator.sign: operator for operator in _OPERATORS}

_CLASSES: dict[str, type] = {
    "null": type(None),
    "bool": bool,
    "int": int,
    "uint": UInt,
    "double": float,
    "string": str,
    "bytes": bytes,
    "timestamp": Moment,
    "duration": Span,
    "type": TypeValue,
}


def _classes(wanted: Type) -> Iterable[type]:
    match wanted:
        case ListType():
            return (list,)
        case MapType():
            return (dict,)
        case SimpleType(name) if name in _CLASSES:
            return (_CLASSES[name],)
        case _:
            return tuple(KINDS)


def dispatcher(function: Function) -> Work:
    """The function as one callable that finds the overload for the classes of its values."""
    works = {
        classes: overload.work
        for overload in function.overloads
        for classes in product(*map(_classes, overload.parameters))
    }

    def call(meter: Meter, *values: Any) -> Any:
        work = works.get(tuple([type(value) for value in values]))
        if work is not None:
            return work(meter, *values)
        if all(type(value) in KINDS for value in values):
            raise no_overload(function.name, *values)
        return call(meter, *map(plain, values))

    return call


DISPATCHERS: dict[str, Work] = {function.name: dispatcher(function) for function in _TABLE}
