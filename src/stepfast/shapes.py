"""Whether a value has the shape that a JSON Schema asks for."""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from typing import Any

from stepfast.kernel.texts import shown

# What is longer is looked at beside the event loop.
QUICK_TEXT = 10_000
# The one that says most is taken of these: a long list can be wrong in each of its items.
MAX_ERRORS = 100
MAX_MESSAGE = 300


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
        errors = kind(schema, registry=registry).iter_errors(json.loads(text))
        misfit = best_match(islice(errors, MAX_ERRORS))
    except SchemaError as error:
        return f"the schema of this review is no JSON Schema ({shown(error.message)}). Have its workflow put right."
    except Unresolvable as error:
        return (
            f"the schema of this review refers to {shown(error.ref)}, which is not in it. Have its workflow put right."
        )
    except RecursionError:
        return "it is nested too deeply. Send less."
    return None if misfit is None else f"{misfit.json_path}: {_in_short(misfit.message)}."


def _in_short(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."
