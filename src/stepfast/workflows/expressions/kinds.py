"""The kinds of values that expressions know, and the Python classes that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from stepfast.workflows.expressions.problems import Failed
from stepfast.workflows.expressions.spans import Moment, Span, moment_of_python, span_of_python

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
UINT_MAX = 2**64 - 1


class UInt(int):
    """An unsigned number of 64 bits; JSON writes it as any other number."""

    __slots__ = ()


class TypeValue:
    """What `type(x)` gives: a value that is only ever compared."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


KINDS: dict[type, TypeValue] = {
    type(None): TypeValue("null_type"),
    bool: TypeValue("bool"),
    int: TypeValue("int"),
    UInt: TypeValue("uint"),
    float: TypeValue("double"),
    str: TypeValue("string"),
    bytes: TypeValue("bytes"),
    list: TypeValue("list"),
    dict: TypeValue("map"),
    Moment: TypeValue("google.protobuf.Timestamp"),
    Span: TypeValue("google.protobuf.Duration"),
    TypeValue: TypeValue("type"),
}

DENOTATIONS: dict[str, TypeValue] = {kind.name: kind for kind in KINDS.values()}
"""Types by the names that expressions have for them; these names are no variables."""

NUMBERS = frozenset({int, UInt, float})

# Single values that Python compares as we do, within one class.
SCALARS = frozenset({type(None), bool, int, UInt, float, str, bytes, Moment, Span, TypeValue})

_SHORT_NAMES = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration", "null_type": "null"}


def kind_name(value: object) -> str:
    """The kind of a value, as people say it."""
    name = KINDS[type(plain(value))].name
    return _SHORT_NAMES.get(name, name)


def plain(value: Any) -> Any:
    """The value as one of the classes above: enums, tuples and other mappings count as what they are made of."""
    if type(value) in KINDS:
        return value
    match value:
        case datetime():
            return moment_of_python(value)
        case timedelta():
            return span_of_python(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case str():
            return str.__str__(value)
        case bytes() | bytearray():
            return bytes(value)
        case list() | tuple():
            return list(value)
        case Mapping():
            return dict(value)
        case _:
            raise Failed(f"a value of the Python class {type(value).__name__} is nothing that expressions know")


def no_overload(operation: str, *values: object) -> Failed:
    """The operation is not there for values of these kinds."""
    kinds = ", ".join(kind_name(value) for value in values)
    hint = _overload_hint(operation, values)
    return Failed(f"{operation} does not take ({kinds}){hint}")


def _overload_hint(operation: str, values: tuple[object, ...]) -> str:
    classes = {type(value) for value in values}
    if operation in ARITHMETIC and len(classes) > 1 and classes <= NUMBERS:
        return "; convert one of them with int(), uint() or double()"
    if operation == "+" and str in classes and len(values) == 2:
        return "; convert the other with string()"
    return ""


ARITHMETIC = frozenset("+-*/%")
