"""Whether a value has the shape that a JSON Schema asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address
from itertools import islice
from typing import Any
from uuid import UUID

from stepfast.kernel.texts import shown

# What is longer is looked at beside the event loop.
QUICK_TEXT = 10_000
# The one that says most is taken of these: a long list can be wrong in each of its items.
MAX_ERRORS = 100
MAX_MESSAGE = 300

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


async def misfit_of(schema: str | None, text: str) -> str | None:
    """Why a value, as JSON, does not fit a schema, with the path to the culprit; None: it fits."""
    if schema is None:
        return None
    if len(text) <= QUICK_TEXT:
        return _misfit(schema, text)
    return await asyncio.to_thread(_misfit, schema, text)


def _misfit(schema_text: str, text: str) -> str | None:
    # Slow to import, and needed only where a person corrects something.
    from jsonschema.exceptions import SchemaError, best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    schema = json.loads(schema_text)
    try:
        kind = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(schema)
        # With a registry of its own nothing is fetched from anywhere.
        registry: Any = Registry()
        errors = kind(schema, registry=registry, format_checker=_format_checker()).iter_errors(json.loads(text))
        misfit = best_match(islice(errors, MAX_ERRORS))
    except SchemaError as error:
        return f"the schema of this review is no JSON Schema ({shown(error.message)}). Have its workflow put right."
    except Unresolvable as error:
        return (
            f"the schema of this review refers to {shown(error.ref)}, which is not in it. Have its workflow put right."
        )
    except RecursionError:
        return "it is nested too deeply. Send less."
    except Exception as error:  # noqa: BLE001 - a schema that is none where it refers to, a number beyond all floats
        why = f"{type(error).__name__}: {shown(str(error))}"
        return (
            f"it cannot be held against the schema of this review ({why}). Send something plainer, or have that mended."
        )
    return None if misfit is None else f"{misfit.json_path}: {_in_short(misfit.message)}."


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


def _in_short(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."
