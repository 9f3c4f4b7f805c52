"""From a JSON Schema to a type; what it does not say for certain is not known, and so never an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepfast.workflows.expressions.types import (
    BOOL,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    ListType,
    MapType,
    RecordType,
    Type,
    join,
)

_MAX_DEPTH = 50

# A number of JSON is an int or a double, as it was written.
_SIMPLE: dict[str, Type] = {
    "null": NULL,
    "boolean": BOOL,
    "integer": INT,
    "number": join((INT, DOUBLE)),
    "string": STRING,
}


def type_of_schema(schema: Any, *, closed: bool = False) -> Type:
    """The type of all values that fit a schema.

    `closed`: an object whose schema does not speak of other keys has none, as is true of what our own codecs write.
    """
    return _Reader(schema, closed).read(schema, ())


class _Reader:
    """One document; the references that are being followed stop one that leads back to itself."""

    def __init__(self, document: Any, closed: bool) -> None:
        self.document = document
        self.closed = closed

    def read(self, schema: Any, followed: tuple[str, ...], depth: int = 0) -> Type:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return DYN
        if "$ref" in schema:
            return self.follow(schema["$ref"], followed, depth)
        if "const" in schema:
            return type_of_value(schema["const"])
        if isinstance(schema.get("enum"), list):
            return join(map(type_of_value, schema["enum"]))
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                return join([self.read(each, followed, depth + 1) for each in schema[word]])
        if isinstance(schema.get("allOf"), list):
            only = schema["allOf"]
            return self.read(only[0], followed, depth + 1) if len(only) == 1 else DYN
        return self.of_names(schema, followed, depth)

    def follow(self, reference: Any, followed: tuple[str, ...], depth: int) -> Type:
        if not isinstance(reference, str) or not reference.startswith("#") or reference in followed:
            return DYN
        found = self.document
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        return self.read(found, (*followed, reference), depth + 1)

    def of_names(self, schema: Mapping[str, Any], followed: tuple[str, ...], depth: int) -> Type:
        names = schema.get("type")
        if isinstance(names, str):
            return self.of_name(names, schema, followed, depth)
        if isinstance(names, list) and names:
            return join([self.of_name(name, schema, followed, depth) for name in names])
        return DYN

    def of_name(self, name: Any, schema: Mapping[str, Any], followed: tuple[str, ...], depth: int) -> Type:
        if name == "array":
            return ListType(self.item(schema, followed, depth))
        if name == "object":
            return self.object(schema, followed, depth)
        return _SIMPLE.get(name, DYN) if isinstance(name, str) else DYN

    def item(self, schema: Mapping[str, Any], followed: tuple[str, ...], depth: int) -> Type:
        places = schema.get("prefixItems")
        rest = self.read(schema.get("items"), followed, depth + 1)
        if not isinstance(places, list):
            return rest
        first = [self.read(each, followed, depth + 1) for each in places]
        return join(first if schema.get("items") is False else [*first, rest])

    def object(self, schema: Mapping[str, Any], followed: tuple[str, ...], depth: int) -> Type:
        others = schema.get("additionalProperties", not self.closed)
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            is_uniform = "patternProperties" not in schema and isinstance(others, Mapping)
            return MapType(self.read(others, followed, depth + 1) if is_uniform else DYN)
        return RecordType(
            fields={str(key): self.read(each, followed, depth + 1) for key, each in properties.items()},
            required=frozenset(filter(_is_text, _listed(schema.get("required")))),
            open=others is not False or "patternProperties" in schema,
        )


def type_of_value(value: Any) -> Type:
    """The type of a JSON value that is known already."""
    match value:
        case None:
            return NULL
        case bool():
            return BOOL
        case int():
            return INT
        case float():
            return DOUBLE
        case str():
            return STRING
        case list():
            return ListType(join(map(type_of_value, value)))
        case dict():
            fields = {str(key): type_of_value(each) for key, each in value.items()}
            return RecordType(fields, frozenset(fields))
        case _:
            return DYN


def _listed(names: Any) -> Iterable[Any]:
    return names if isinstance(names, list) else ()


def _is_text(name: Any) -> bool:
    return isinstance(name, str)
