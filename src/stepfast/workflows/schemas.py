"""JSON Schemas: whether something is one, and whether values fit it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address
from itertools import islice
from typing import Any
from uuid import UUID

from stepfast.kernel.texts import shown
from stepfast.workflows.expressions.budget import BUDGET
from stepfast.workflows.expressions.matching import Pattern, pattern_of
from stepfast.workflows.expressions.problems import Failed

MAX_ERRORS = 100
MAX_MESSAGE = 300

Path = tuple[str | int, ...]
Fault = tuple[Path, str]

# Formats of texts that a workflow's types are read from: what its code could not read is refused to whoever wrote it.
_FORMATS = {
    "date": date,
    "date-time": datetime,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
    "ipv4": IPv4Address,
    "ipv6": IPv6Address,
}


def faults_of_form(schema: Any) -> list[Fault]:
    """Where something does not have the form of a JSON Schema, with the path inside it."""
    # Slow to import, and needed only by those who bring a schema of their own.
    from jsonschema.validators import Draft202012Validator, validator_for

    if not isinstance(schema, dict | bool):
        return [((), f"it is {shown(schema)}; it must be a map")]
    try:
        kind = validator_for(schema, default=Draft202012Validator)
        meta = validator_for(kind.META_SCHEMA)(kind.META_SCHEMA)
        return [_fault(error) for error in islice(meta.iter_errors(schema), MAX_ERRORS)]
    except Exception as error:  # noqa: BLE001 - what names its own schema by something that is no name
        return [((), f"{type(error).__name__}: {shown(str(error))}")]


def faults_of_schema(schema: Any) -> list[Fault]:
    """The same, and references that lead nowhere, and patterns that could take for ever."""
    return faults_of_form(schema) or [*_lost_references(schema), *_hard_patterns(schema)]


def misfits(schema: Any, value: Any) -> list[Fault]:
    """Where a value does not fit a schema, with the path inside it."""
    try:
        return [_fault(error) for error in islice(validator_of(schema).iter_errors(value), MAX_ERRORS)]
    except Exception as error:  # noqa: BLE001 - a reference that leads nowhere, a pattern that is none, endless depth
        return [((), f"it cannot be held against its schema ({type(error).__name__}: {shown(str(error))})")]


def validator_of(schema: Any, *, with_formats: bool = False) -> Any:
    """A validator of jsonschema's that fetches nothing, and whose patterns take linear time."""
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    kind = _linear(validator_for(schema, default=Draft202012Validator))
    return kind(schema, registry=Registry(), format_checker=_format_checker() if with_formats else None)


def in_short(message: str) -> str:
    """A message of jsonschema's, which may hold all of a value."""
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."


def _fault(error: Any) -> Fault:
    return tuple(error.absolute_path), in_short(error.message)


@cache
def _linear(kind: Any) -> Any:
    from jsonschema.validators import extend

    keywords = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": partial(_additional_properties, kind.VALIDATORS.get("additionalProperties")),
    }
    return extend(kind, {name: each for name, each in keywords.items() if name in kind.VALIDATORS})


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if isinstance(value, str) and not _is_in(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    for pattern, part in patterns.items():
        for name in value:
            if _is_in(pattern, name):
                yield from validator.descend(value[name], part, path=name, schema_path=pattern)


def _additional_properties(work: Any, validator: Any, rest: Any, value: Any, schema: Any) -> Iterator[Any]:
    """As jsonschema has it, once the keys are left out that a pattern is found in."""
    patterns = schema.get("patternProperties", {})
    if patterns and isinstance(value, dict):
        value = {name: each for name, each in value.items() if not any(_is_in(pattern, name) for pattern in patterns)}
        schema = {"properties": schema.get("properties", {})}
    yield from work(validator, rest, value, schema)


def _is_in(pattern: str, text: str) -> bool:
    """Whether a pattern is found; those that only Python can read come from types, whose authors we trust."""
    read = _read_pattern(pattern)
    return read.is_in(text, [10 * BUDGET]) if read is not None else re.search(pattern, text) is not None


def _read_pattern(pattern: str) -> Pattern | None:
    try:
        return pattern_of(pattern)
    except Failed:
        return None


@cache
def _format_checker() -> Any:
    from jsonschema import FormatChecker
    from pydantic import TypeAdapter, ValidationError

    checker = FormatChecker(formats=())
    for name, kind in _FORMATS.items():
        read: Callable[[object], object] = TypeAdapter(kind).validate_python
        checker.checks(name, raises=ValidationError)(partial(_is_read_by, read))
    return checker


def _is_read_by(read: Callable[[object], object], value: object) -> bool:
    if isinstance(value, str):
        read(value)
    return True


def _lost_references(schema: Any) -> Iterator[Fault]:
    """References that lead out of the schema, or to nothing in it."""
    for path, part in _maps(schema):
        place = part.get("$ref")
        if isinstance(place, str) and not _leads_somewhere(schema, place):
            yield (*path, "$ref"), f"{shown(place)} leads to nothing in it"


def _hard_patterns(schema: Any) -> Iterator[Fault]:
    """Patterns that are not of RE2, and so could be made to take longer than anybody can wait."""
    has_patterns = any("patternProperties" in part for _, part in _maps(schema))
    for path, part in _maps(schema):
        properties = part.get("patternProperties")
        names = [*properties] if isinstance(properties, dict) else []
        found = [((*path, "patternProperties", name), name) for name in names]
        for place, pattern in [*found, ((*path, "pattern"), part.get("pattern"))]:
            try:
                pattern_of(pattern if isinstance(pattern, str) else "")
            except Failed as failure:
                yield place, str(failure)
        # Of these jsonschema tries the patterns itself, and not as we do.
        if "unevaluatedProperties" in part and has_patterns:
            yield (*path, "unevaluatedProperties"), "it cannot go with `patternProperties`; use `additionalProperties`"


def _maps(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    pending: list[tuple[Path, Any]] = [((), schema)]
    while pending:
        path, part = pending.pop()
        if isinstance(part, dict):
            yield path, part
            pending += [((*path, name), each) for name, each in part.items()]
        elif isinstance(part, list):
            pending += [((*path, number), each) for number, each in enumerate(part)]


def _leads_somewhere(schema: Any, place: str) -> bool:
    if not place.startswith("#"):
        return False
    found = schema
    for part in place[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return False
    return True
