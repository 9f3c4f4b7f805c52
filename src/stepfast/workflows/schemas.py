"""JSON Schemas that templates hold: whether they are such, and whether values fit them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from stepfast.kernel.texts import shown

MAX_ERRORS = 100
MAX_MESSAGE = 300

Path = tuple[str | int, ...]
Fault = tuple[Path, str]


def faults_of_schema(schema: Any) -> list[Fault]:
    """Where something is no JSON Schema, with the path inside it."""
    # Slow to import, and needed only by templates with schemas.
    from jsonschema.validators import Draft202012Validator, validator_for

    if not isinstance(schema, dict | bool):
        return [((), f"it is {shown(schema)}; it must be a map")]
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        meta = validator_for(kind.META_SCHEMA)(kind.META_SCHEMA)
        found = [_fault(error) for error in islice(meta.iter_errors(schema), MAX_ERRORS)]
        return found or [*_lost_references(schema)]
    except Exception as error:  # noqa: BLE001 - what names its own schema by something that is no name
        return [((), f"{type(error).__name__}: {shown(str(error))}")]


def misfits(schema: Any, value: Any) -> list[Fault]:
    """Where a value does not fit a schema, with the path inside it."""
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    try:
        # With a registry of its own nothing is fetched from anywhere.
        registry: Any = Registry()
        validator = validator_for(schema, default=Draft202012Validator)(schema, registry=registry)
        return [_fault(error) for error in islice(validator.iter_errors(value), MAX_ERRORS)]
    except Exception as error:  # noqa: BLE001 - a reference that leads nowhere, a pattern that is none, endless depth
        return [((), f"it cannot be held against its schema ({type(error).__name__}: {shown(str(error))})")]


def _fault(error: Any) -> Fault:
    message = error.message if len(error.message) <= MAX_MESSAGE else f"{error.message[:MAX_MESSAGE]}..."
    return tuple(error.absolute_path), message


def _lost_references(schema: Any) -> Iterator[Fault]:
    """References that lead out of the schema, or to nothing in it."""
    pending: list[tuple[Path, Any]] = [((), schema)]
    while pending:
        path, part = pending.pop()
        if isinstance(part, dict):
            place = part.get("$ref")
            if isinstance(place, str) and not _leads_somewhere(schema, place):
                yield (*path, "$ref"), f"{shown(place)} leads to nothing in it"
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
