"""Whether a value has the shape that a JSON Schema asks for."""

from __future__ import annotations

import asyncio
import json
from itertools import islice

from stepfast.kernel.texts import shown

# What is longer is looked at beside the event loop.
QUICK_TEXT = 10_000


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
    from referencing.exceptions import Unresolvable

    from stepfast.workflows.schemas import MAX_ERRORS, in_short, validator_of

    schema = json.loads(schema_text)
    try:
        validator = validator_of(schema, with_formats=True)
        validator.check_schema(schema)
        # The one that says most is taken of these: a long list can be wrong in each of its items.
        misfit = best_match(islice(validator.iter_errors(json.loads(text)), MAX_ERRORS))
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
    return None if misfit is None else f"{misfit.json_path}: {in_short(misfit.message)}."
