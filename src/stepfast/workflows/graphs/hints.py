"""What type hints say of the parts of a value, and values that came as JSON in the form their hints ask for."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from stepfast.workflows.codec import ValueCodec
from stepfast.workflows.culprits import is_native

Key = str | int

# What JSON has itself is the same before and after.
AS_IN_JSON = (Any, object, str, bool, int, float, None, type(None), dict, list)


SCALARS = (str, bool, int, float)
LISTS = (list, tuple, set, frozenset)


class NoSuchPart(Exception):
    """A hint knows its parts, and this is none of them; `names` are those there are."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names


def part_of(hint: Any, key: Key) -> Any:
    """The hint of a part of a value: of a field, of the value of a key, of an item; Any where the hint says nothing."""
    hint = _bare(hint)
    fields = _fields(hint)
    if fields is not None:
        if key not in fields:
            raise NoSuchPart(list(fields))
        return fields[str(key)]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
        return arguments[1]
    if isinstance(key, str) and (hint in SCALARS or origin in LISTS):
        raise NoSuchPart([])
    return item_of(hint) if isinstance(key, int) else Any


def item_of(hint: Any) -> Any:
    """The hint of what a list holds."""
    origin, arguments = typing.get_origin(_bare(hint)), typing.get_args(_bare(hint))
    is_list = isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset)
    return arguments[0] if is_list and (len(arguments) == 1 or arguments[1:] == (...,)) else Any


def may_be_list(hint: Any) -> bool:
    """Whether values of a hint can be lists, as far as it says."""
    bare = _bare(hint)
    kind = typing.get_origin(bare) or bare
    if not isinstance(kind, type) or kind in (Any, object):
        return True
    return issubclass(kind, list | tuple) or issubclass(list, kind)


def may_fit(given: Any, wanted: Any) -> bool:
    """Whether a value of one hint can be one of the other; only what is plainly something else is not."""
    given, wanted = _bare(given), _bare(wanted)
    if not all(isinstance(each, type) and each not in (Any, object) for each in (given, wanted)):
        return True
    # What has the form of JSON is read by the hint that wants it.
    if issubclass(given, str | dict | list) or typing.is_typeddict(given) or typing.is_typeddict(wanted):
        return True
    return issubclass(given, wanted) or issubclass(wanted, given) or (given in SCALARS and wanted in (float, Decimal))


def _bare(hint: Any) -> Any:
    """Without what is said beside it, and without None, of which nobody reads a part."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return _bare(arguments[0])
    if origin in (typing.Union, types.UnionType):
        others = [each for each in arguments if each is not type(None)]
        return _bare(others[0]) if len(others) == 1 else Any
    return hint


def _fields(hint: Any) -> dict[str, Any] | None:
    if not isinstance(hint, type):
        return None
    if hasattr(hint, "model_fields"):
        extra = getattr(hint, "model_config", {}).get("extra")
        return None if extra == "allow" else {name: field.annotation for name, field in hint.model_fields.items()}
    if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
        names = typing.get_type_hints(hint)
        own = [field.name for field in dataclasses.fields(hint)] if dataclasses.is_dataclass(hint) else list(names)
        return {name: names.get(name, Any) for name in own}
    return None


def restored(value: Any, hint: Any) -> Any:
    """A value by its hint: as it is, or read from JSON, where a person or a message brought it in that form."""
    if value is None or is_as_in_json(hint) or not is_native(value):
        return value
    return _codec(hint).decode(PLAIN.encode(value))


def is_as_in_json(hint: Any) -> bool:
    """Whether values of a hint are in JSON what they are in Python."""
    if any(hint is plain for plain in AS_IN_JSON):
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    return origin in (list, dict, typing.Union, types.UnionType) and all(map(is_as_in_json, arguments))


PLAIN = ValueCodec(Any, "a value")


def _codec(hint: Any) -> ValueCodec:
    try:
        return _cached_codec(hint)
    except TypeError:
        return ValueCodec(hint, "a value")


@functools.lru_cache(maxsize=1_024)
def _cached_codec(hint: Any) -> ValueCodec:
    return ValueCodec(hint, "a value")
