"""The part of a value that cannot be stored: finding it, and saying what to do about it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from asyncio import Future
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, NamedTuple

# What the JSON parser of pydantic and the integer parser of Python read back.
MAX_DEPTH = 200
MAX_DIGITS = 4300

SURROGATE = re.compile("[\ud800-\udfff]")

ATOMS = frozenset((str, int, bool, type(None)))

# What pydantic has against values that it has written by the same hint: a key, a member of an enum, bytes.
UNREAD = frozenset(("literal_error", "enum", "none_required"))
# What pydantic expects for hints that say something else.
EXPECTED = {
    "generator": "Annotate it with list or Sequence: what is an Iterable may be a generator, which cannot be stored",
    "frozenset": "Annotate it with set for a set: collections.abc.Set is taken for frozenset",
}

Judge = Callable[[object], tuple[str, str] | None]


class Culprit(NamedTuple):
    """The part of a value that cannot be stored, why, and what to do about it."""

    path: str
    value: object
    fault: str
    remedy: str
    is_shown: bool = True

    def told(self, subject: str) -> str:
        place = f"at {self.path if len(self.path) <= 160 else f'{self.path[:80]}...'} is" if self.path else "it is"
        shown = f"{brief(self.value) if self.is_shown else 'a value'} ({type(self.value).__qualname__})"
        return f"{subject} cannot be stored: {place} {shown}, which {self.fault}. {self.remedy}."


def brief(value: object) -> str:
    """A plain value's repr in at most 80 characters; of anything larger only its size, as it may hold secrets."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, PurePath):
        value = str(value)
    if isinstance(value, (str, bytes)):
        shown = repr(value[:80])
        return shown if len(value) <= 80 >= len(shown) else f"{shown[:77]}..."
    if type(value) in ATOMS or isinstance(value, (float, Decimal)):
        return repr(value)[:80]
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return f"a value of {len(value)} {'part' if len(value) == 1 else 'parts'}"
    return "an object"


def step_to(key: object) -> str:
    """The step of a path that leads to what a mapping has under a key."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{brief(key)}]"


def children(value: object) -> Iterator[tuple[str, object]]:
    """The parts of a value, each with the step of the path that leads to it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            step = step_to(key)
            yield f"{step} (the key)", key
            yield step, item
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", item) for name, item in zip(value._fields, value, strict=False))
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif dataclasses.is_dataclass(value):
        yield from ((f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value))
    elif hasattr(type(value), "__pydantic_core_schema__"):
        parts = vars(value) | (getattr(value, "__pydantic_extra__", None) or {})
        yield from ((f".{name}", item) for name, item in parts.items())


def find(value: object, judge: Judge, path: str = "", above: tuple[int, ...] = ()) -> Culprit | None:
    """The first part that the judge finds fault with, that contains itself, or that lies too deep."""
    if fault := judge(value):
        return Culprit(path, value, *fault)
    if id(value) in above:
        return Culprit(path, value, "contains itself", "Refer to it by a name or number instead")
    for step, child in children(value):
        if len(above) >= MAX_DEPTH:
            return Culprit(path, value, f"lies more than {MAX_DEPTH} levels deep", "Use a flatter form instead")
        if found := find(child, judge, path + step, (*above, id(value))):
            return found
    return None


def locate(value: object, is_meant: Callable[[object], bool]) -> Culprit | None:
    """Where the first part lies that is meant; the fault is for the caller to name."""
    return find(value, lambda part: ("", "") if is_meant(part) else None)


def unwritable(value: object) -> tuple[str, str] | None:
    """What has no form in JSON under any hint."""
    if isinstance(value, (Coroutine, Future)):
        return "nobody has awaited", "An `await` is missing before the call"
    if is_infinite_or_nan(value):
        return "JSON has no form for", "Use None or a string instead"
    if isinstance(value, (str, PurePath)) and not (text := str(value)).isascii() and SURROGATE.search(text):
        return "holds a lone surrogate that UTF-8 has no form for", "Clean the text, or use bytes instead"
    if isinstance(value, int) and value.bit_length() > MAX_DIGITS * math.log2(10):
        return f"has more than {MAX_DIGITS} digits and could not be read back", "Use a string instead"
    if hasattr(type(value), "get_secret_value"):
        return "pydantic masks, so that it would come back as asterisks", "Use a reference to the secret instead"
    return None


def is_infinite_or_nan(value: object) -> bool:
    # As a float a large Decimal would be infinite, and a signalling NaN raises.
    if isinstance(value, Decimal):
        return not value.is_finite()
    return isinstance(value, float) and not math.isfinite(value)


def foreign(value: object) -> tuple[str, str] | None:
    """What JSON itself does not have, and so needs a hint."""
    if type(value) is dict and not all(type(key) is str for key in value):
        return "has keys that are not strings", "Annotate the return type or parameter, as in dict[int, str]"
    known = type(value) in ATOMS or type(value) in (float, list, tuple, dict)
    return unwritable(value) or (None if known else ("JSON alone cannot restore", remedy_of(value)))


def remedy_of(value: object) -> str:
    """What to do about a value that JSON does not have: a hint helps only if there is one for it."""
    kind = type(value)
    if isinstance(value, type) or kind is object or not has_hint(kind):
        return "Such a value cannot be stored: use a dataclass or model, or a name to find it by"
    return f"Annotate the return type or parameter with its type, {kind.__name__}"


def has_hint(kind: type) -> bool:
    """Whether values of a class could be stored by a hint that names it."""
    from pydantic import TypeAdapter

    try:
        TypeAdapter(kind)
    except Exception:  # noqa: BLE001 - other people's classes
        return False
    return True


def undecodable(value: object) -> tuple[str, str] | None:
    """Bytes that a model with pydantic's default config cannot write."""
    if not isinstance(value, bytes) or value.decode("utf-8", "ignore").encode() == value:
        return None
    return "is not UTF-8", "Set ser_json_bytes='base64', val_json_bytes='base64' in its model's model_config"


def unreadable(value: object) -> tuple[str, str] | None:
    """What is written in a form that no hint reads back."""
    if isinstance(value, Enum) and not (value.value is None or isinstance(value.value, (str, int, float))):
        value_kind = type(value.value).__name__
        return f"has a {value_kind} as its value, which JSON gives back as something else", (
            "Give the members of that enum texts or numbers as their values"
        )
    if isinstance(value, Mapping) and any(isinstance(key, (tuple, frozenset)) for key in value):
        return "has keys with parts of their own, and a key in JSON is one text", "Use a list of pairs instead"
    return None


def follow(value: object, location: Sequence[int | str]) -> tuple[str, object]:
    """The path and part at a location of pydantic's, which also names branches of unions: those are left out."""
    path = ""
    for name, after in itertools.zip_longest(location, location[1:]):
        parts = dict(children(value))
        ending = " (the key)" if after == "[key]" else ""
        for step in {f".{name}{ending}", f"[{name!r}]{ending}"} & parts.keys():
            path, value = path + step, parts[step]
    return path, value


def misfit(path: str, value: object, reason: str) -> Culprit:
    """A part that is not what its hint says."""
    remedies = (told for expected, told in EXPECTED.items() if reason.startswith(f"expected {expected}"))
    remedy = next(remedies, "Use what the hint says, or change the hint")
    return Culprit(path, value, f"does not fit its hint: {reason}", remedy)


def is_unread(error: Exception) -> bool:
    """Whether pydantic may have written a value and not know it again, for all that its error tells."""
    from pydantic import ValidationError

    return isinstance(error, ValidationError) and error.errors(include_url=False)[0]["type"] in UNREAD


def unread(path: str, value: object) -> Culprit:
    """A part that is what its hint says and was written by it, but which the hint does not read back."""
    literal = "Use the enum itself, or bytes, as the hint: in a Literal only texts, whole numbers and booleans are read"
    keys = "Use str, int, an IntEnum or a StrEnum as the hint of its keys, or a list of pairs"
    remedy = keys if isinstance(value, Mapping) else literal
    return Culprit(path, value, "fits its hint, but cannot be read back by it from JSON", remedy)


def is_native(value: Any, room: int = MAX_DEPTH) -> bool:
    """Whether JSON itself has the value: no hint is needed to restore it."""
    kind = type(value)
    if kind is dict and room:
        # Written out, for it is asked of nearly every value.
        for key, item in value.items():
            if type(key) is not str or (type(item) not in ATOMS and not is_native(item, room - 1)):
                return False
        return True
    if (kind is list or kind is tuple) and room:
        return all(type(item) in ATOMS or is_native(item, room - 1) for item in value)
    return kind in ATOMS or (kind is float and math.isfinite(value))
