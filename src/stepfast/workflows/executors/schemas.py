"""What an executor takes and gives, as JSON Schema, and whether a config fits."""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

from stepfast.kernel.errors import Invalid
from stepfast.workflows.codec import ValueCodec, field_hint, form_of, hints_of, in_short
from stepfast.workflows.culprits import is_native
from stepfast.workflows.outside import result_hint
from stepfast.workflows.typed_dicts import modern, typed_dict

CONFIG = "config"

Schema = dict[str, Any]


def inputs_schema(function: Callable[..., Any]) -> Schema:
    """The parameters of a function without its config, as the properties of one object."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != CONFIG]
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    hints = hints_of(function)
    fields = {each.name: field_hint(each, hints.get(each.name, Any)) for each in named}
    schema = _object_schema(fields)
    for each in named:
        if each.default is not each.empty and is_native(each.default):
            schema["properties"][each.name].setdefault("default", each.default)
    takes_more = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return schema | {"additionalProperties": takes_more}


def output_schema(function: Callable[..., Any]) -> Schema | None:
    """What a function returns; None where no hint says it."""
    hint = result_hint(hints_of(function).get("return", Any))
    return None if hint in (Any, object) else schema_of_hint(hint)


def schema_of_hint(hint: Any) -> Schema:
    """A hint as JSON Schema; what none can describe is anything."""
    # Slow to import, and needed only where somebody looks at schemas.
    from pydantic import PydanticUserError, TypeAdapter

    try:
        schema: Schema = TypeAdapter(modern(hint)).json_schema(by_alias=False)
    except (PydanticUserError, NameError, TypeError):
        return {}
    return schema


def _object_schema(fields: dict[str, Any]) -> Schema:
    schema = schema_of_hint(typed_dict("Inputs", fields))
    if not schema:
        # One parameter that no schema can describe must not cost the others theirs.
        bare = {name: typing.get_args(hint)[0] if _may_be_absent(hint) else hint for name, hint in fields.items()}
        needed = [name for name, hint in fields.items() if not _may_be_absent(hint)]
        schema = {"type": "object", "properties": {name: schema_of_hint(hint) for name, hint in bare.items()}}
        schema |= {"required": needed} if needed else {}
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _may_be_absent(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.NotRequired


def config_problems(hint: Any, schema: Schema, given: dict[str, Any], owner: str) -> Iterator[str]:
    """Where a config does not fit its hint, each as `field: message`."""
    from pydantic import ValidationError

    yield from _unknown_fields(schema, given)
    try:
        form_of(hint, f"the config of {owner}").read(ValueCodec(Any, f"the config of {owner}").encode(given))
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            yield f"{'.'.join(map(str, fault['loc'])) or CONFIG}: {fault['msg']}"
    except Invalid as error:
        yield f"{CONFIG}: {error}"
    except Exception as error:  # noqa: BLE001 - validators of models are other people's code and may raise anything
        yield f"{CONFIG}: {in_short(error)}"


def _unknown_fields(schema: Schema, given: dict[str, Any]) -> Iterator[str]:
    """Fields that nothing reads: a slip would otherwise go unnoticed until somebody wonders why it has no effect."""
    shape = _resolved(schema)
    known = shape.get("properties")
    if known is None or shape.get("additionalProperties"):
        return
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Known are: {', '.join(known) or 'none'}."
            yield f"{name}: there is no such field. {hint}"


def _resolved(schema: Schema) -> Schema:
    """The schema itself where it only refers to one of its definitions, or to one and null."""
    named = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(named) == 1:
        return _resolved({"$defs": schema.get("$defs", {}), **named[0]})
    place = schema.get("$ref", "").rpartition("/")[2]
    found: Schema = schema.get("$defs", {}).get(place, schema)
    return found
