"""TypedDicts by their fields, in the form that pydantic wants."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NotRequired, Required


def typed_dict(name: str, fields: dict[str, Any]) -> Any:
    """A TypedDict made here; like all others it becomes pydantic's with the hint that it is part of."""
    return typing.cast(Any, typing.TypedDict)(name, fields)


def modern(hint: Any) -> Any:
    """The hint with each `typing.TypedDict` made one of typing_extensions, which pydantic wants before Python 3.12."""
    return hint if sys.version_info >= (3, 12) else _modern(hint, {})


def without_presence(hint: Any) -> Any:
    """What a field holds, whether or not it must be there."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (Required, NotRequired) else hint


def _modern(hint: Any, made: dict[Any, Any]) -> Any:
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        return made[hint] if hint in made else _modern_dict(hint, made)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is None or origin in (typing.Literal, Callable):
        return hint
    new = tuple(_modern(each, made) for each in arguments)
    if new == arguments:
        return hint
    return (typing.Union if origin is types.UnionType else origin)[new if len(new) > 1 else new[0]]


def _modern_dict(owner: Any, made: dict[Any, Any]) -> Any:
    from typing_extensions import TypedDict

    # It is there before its fields are: one of them may be made of it.
    made[owner] = new = typing.cast(Any, TypedDict)(owner.__name__, {})
    for name, hint in typing.get_type_hints(owner, include_extras=True).items():
        # Where annotations are texts, only the field's own hint knows whether it must be there.
        known: Any = Required if name in owner.__required_keys__ else NotRequired
        origin: Any = typing.get_origin(hint)
        presence = origin if origin in (Required, NotRequired) else known
        new.__annotations__[name] = presence[_modern(without_presence(hint), made)]
    return new
