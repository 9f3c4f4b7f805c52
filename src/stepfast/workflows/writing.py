"""The schema by which pydantic writes values: one that loses nothing silently."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from pathlib import PurePath
from typing import Any

from stepfast.workflows.culprits import is_native

# By default pydantic writes null for NaN, and the loss could not be seen.
WRITER_CONFIG: dict[str, Any] = {"ser_json_inf_nan": "constants"}
NESTED = re.compile("(.*_)?schema|choices|steps|fields|definitions|serialization")
# What comes back as it went whenever it can be written, so that nobody has to compare it.
EXACT = frozenset(("any", "none", "bool", "int", "str", "bytes", "date", "uuid", "enum", "literal"))
EXACT |= {"list", "tuple", "set", "frozenset", "dict", "nullable", "default", "definitions", "definition-ref"}
EXACT |= {"model", "model-fields", "model-field", "typed-dict", "typed-dict-field"}
# These too in a model, which has made of each what its hint says: 1.0 of 1.
EXACT_IN_MODELS = frozenset(("float", "decimal", "datetime", "timedelta"))
EXACT_KEYS = frozenset(("str", "int", "uuid", "date", "any"))
# Ways to change a value while it is made, which then happen again when it is read.
CHANGING = ("serialization", "strip_whitespace", "to_lower", "to_upper", "custom_init", "post_init", "extras_schema")
EXCLUDING = ("serialization_exclude", "serialization_exclude_if")
KNOWN_CONFIG = frozenset(("title", "ser_json_bytes", "val_json_bytes", "ser_json_inf_nan", "extra_fields_behavior"))
# Whole numbers of more bits may be larger than any float.
MAX_FLOAT_BITS = 1023
WRITTEN_TUPLES: ContextVar[set[int] | None] = ContextVar("the ids of what was written as a tuple", default=None)


def checked(value: Any) -> Any:
    """Writes a part hinted as Any; pydantic keeps only an error's message, so that carries which part it was."""
    if not is_native(value):
        raise ValueError(f"foreign part {id(value)}")
    return value


def ordered(value: Any, write: Callable[[Any], Any]) -> Any:
    """Writes equal sets as equal text, whatever order they iterate in."""
    from pydantic_core import to_json

    return sorted(write(value), key=to_json)


def noting(value: Any, write: Callable[[Any], Any]) -> Any:
    """Writes a tuple, and notes that it was one."""
    written = write(value)
    if (noted := WRITTEN_TUPLES.get()) is not None:
        noted.add(id(value))
    return written


def path_text(path: Any) -> str:
    """Writes a path, and not a text that would be read as one."""
    from pydantic_core import PydanticSerializationUnexpectedValue

    if not isinstance(path, PurePath):
        raise PydanticSerializationUnexpectedValue(f"Expected `path` - misfit part {id(path)}")
    return str(path)


def whole_as_float(value: Any) -> float:
    """Writes a whole number as the float that it comes back as."""
    from pydantic_core import PydanticSerializationUnexpectedValue

    if type(value) is not int or value.bit_length() > MAX_FLOAT_BITS:
        raise PydanticSerializationUnexpectedValue("Expected `float` - for a whole number")
    return float(value)


WHOLE_AS_FLOAT: dict[str, Any] = {
    "type": "any",
    "serialization": {"type": "function-plain", "function": whole_as_float},
}


def has_whole_numbers(union: dict[str, Any]) -> bool:
    """Whether a whole number that a union holds may stand for what it is, and not for a float."""
    choices = [choice[0] if isinstance(choice, tuple) else choice for choice in union["choices"]]
    return any(choice["type"] == "any" or names_whole_numbers(choice) for choice in choices)


def names_whole_numbers(node: Any) -> bool:
    """Whether a schema has a part for whole numbers."""
    if isinstance(node, (list, tuple)):
        return any(map(names_whole_numbers, node))
    if not isinstance(node, dict):
        return False
    if node.get("type") == "int" or any(type(each) is int for each in node.get("expected", ())):
        return True
    is_schema = isinstance(node.get("type"), str)
    return any(names_whole_numbers(part) for key, part in node.items() if not is_schema or NESTED.fullmatch(key))


def is_of_paths(node: dict[str, Any]) -> bool:
    """Whether it is pydantic's schema of a path."""
    kind = node["strict_schema"].get("python_schema", {}).get("cls")
    return isinstance(kind, type) and issubclass(kind, PurePath)


class Writer:
    """Turns a schema of pydantic into one that loses nothing silently, and notes where values may drift."""

    def __init__(self, notes_tuples: bool = False) -> None:
        self.classes: set[type] = set()
        self.has_union = self.has_tuple = False
        self.is_exact = True
        """Whether all that can be written comes back as it went; but for what TypedDicts do not name."""
        self.typed_dicts = 0
        self.is_partial = False
        """Whether a class has an equality of its own, which may leave parts of it out."""
        self.hides = False
        """Whether something is kept out of the text, and so belongs into no message either."""
        self._notes_tuples = notes_tuples
        self._models = 0
        self._unions_of_floats = 0

    def tailor(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return type(node)(map(self.tailor, node)) if isinstance(node, (list, tuple)) else node
        if not isinstance(node.get("type"), str):
            return {name: self.tailor(part) for name, part in node.items()}
        # Before anything is added to it.
        self.is_exact = self.is_exact and is_exact(node, self._models > 0)
        self._models += (is_model := node["type"] == "model")
        self._unions_of_floats += (is_of_floats := node["type"] == "union" and not has_whole_numbers(node))
        tailored = {key: self.tailor(part) if NESTED.fullmatch(key) else part for key, part in node.items()}
        self._unions_of_floats -= is_of_floats
        self._models -= is_model
        if self._unions_of_floats and node["type"] == "float":
            # Below a union pydantic takes a whole number for no float.
            return {"type": "union", "choices": [tailored, WHOLE_AS_FLOAT]}
        return self.guard(tailored)

    def guard(self, node: dict[str, Any]) -> dict[str, Any]:
        if "config" in node:
            node["config"] = node["config"] | WRITER_CONFIG
        self.hides = self.hides or hides(node)
        match node["type"]:
            case "union":
                self.has_union = True
            case "model" | "dataclass":
                self.classes.add(node["cls"])
                self.is_partial = self.is_partial or not has_whole_equality(node["cls"])
            # The keys of such a dict would become strings, so it may hold only what JSON has.
            case "any" | "dict" if node.get("keys_schema", node)["type"] in ("any", "dict"):
                node.setdefault("serialization", {"type": "function-plain", "function": checked})
            case "set" | "frozenset":
                node.setdefault("serialization", {"type": "function-wrap", "function": ordered})
            case "lax-or-strict" if is_of_paths(node):
                node["serialization"] = {"type": "function-plain", "function": path_text}
            case "typed-dict":
                self.typed_dicts += 1
            case "tuple":
                self.has_tuple = True
                if self._notes_tuples:
                    node.setdefault("serialization", {"type": "function-wrap", "function": noting})
        return node


def is_exact(node: dict[str, Any], is_in_model: bool) -> bool:
    """Whether what a schema writes comes back as it went, as far as the node itself goes."""
    kind, config = node["type"], node.get("config") or {}
    if not (kind in EXACT or (is_in_model and kind in EXACT_IN_MODELS)) or any(map(node.get, (*CHANGING, *EXCLUDING))):
        return False
    if is_null(node):
        return False
    if node.get("keys_schema", {"type": "any"})["type"] not in EXACT_KEYS or node.get("extra_behavior") == "allow":
        return False
    if config.get("ser_json_bytes") != config.get("val_json_bytes") or config.get("extra_fields_behavior") == "allow":
        return False
    return config.keys() <= KNOWN_CONFIG


def is_null(node: dict[str, Any]) -> bool:
    """Whether it may write null for what is not None, which beside None would be read as that."""
    if node["type"] == "model":
        return bool(node.get("root_model"))
    members = node.get("members") if node["type"] == "enum" else node.get("expected", ())
    return any(isinstance(member, Enum) and member.value is None for member in members or ())


def hides(node: dict[str, Any]) -> bool:
    """Whether a field is excluded, or a serializer of the user's decides what is written."""
    if any(map(node.get, EXCLUDING)):
        return True
    function = node.get("function")
    return callable(function) and not str(getattr(function, "__module__", "")).startswith("pydantic")


def has_whole_equality(kind: type) -> bool:
    """Whether instances are equal only if all their fields are: pydantic's equality, or one that `dataclass` made."""
    own: Any = kind.__eq__
    if str(getattr(own, "__module__", "")).startswith("pydantic."):
        return True
    is_made = getattr(getattr(own, "__code__", None), "co_filename", "") == "<string>"
    fields: dict[str, Any] = getattr(kind, "__dataclass_fields__", {})
    return is_made and all(field.compare or not field.init for field in fields.values())
