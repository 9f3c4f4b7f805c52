"""The JSON Schema of the language, made from its models; with an app's executors, of what they take too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stepfast.workflows.templates.described import Described
from stepfast.workflows.templates.forms import EXPRESSION
from stepfast.workflows.templates.models import TemplateForm

SHIPPED = Path(__file__).with_name("schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


def language_schema() -> Schema:
    """The JSON Schema of a template, whatever executors there are."""
    made = TemplateForm.model_json_schema(by_alias=True)
    schema: Schema = {"$schema": DIALECT, **_tidied(made)}
    return schema


def shipped_schema() -> Schema:
    """The same as it is shipped, without making it anew."""
    schema: Schema = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return schema


def schema_text(schema: Schema) -> str:
    """A schema as it is written to a file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def composed_schema(executors: Iterable[Described]) -> Schema:
    """The schema for those who have these executors: names, `with` and `config` of each are checked too."""
    schema = shipped_schema()
    known = sorted(executors, key=lambda each: each.name)
    definitions, step = schema["$defs"], schema["$defs"]["StepForm"]
    step["properties"]["use"] = {
        "description": step["properties"]["use"].get("description", ""),
        "anyOf": [{"const": each.name, "description": each.description} for each in known],
    }
    step["allOf"] = [_rule(each, definitions) for each in known]
    return schema


def _rule(executor: Described, definitions: Schema) -> Schema:
    """What holds for steps that use an executor."""
    parts = {"with": _arguments(_hoisted(executor.inputs, f"{executor.name}.with", definitions))}
    if executor.config is not None:
        parts["config"] = _optional(_hoisted(executor.config, f"{executor.name}.config", definitions))
    return {
        "if": {"properties": {"use": {"const": executor.name}}, "required": ["use"]},
        "then": {"properties": parts},
    }


def _arguments(schema: Schema) -> Schema:
    """Arguments by name, each of which an expression may give as well; or all of them by one expression."""
    properties = {name: {"anyOf": [part, EXPRESSION]} for name, part in schema.get("properties", {}).items()}
    # What a step reads is given to it without being named there.
    required = [name for name in schema.get("required", ()) if name != "assets"]
    given = {name: part for name, part in schema.items() if name != "required"} | {"properties": properties}
    return {"anyOf": [given | ({"required": required} if required else {}), EXPRESSION]}


def _optional(schema: Schema) -> Schema:
    """A config in a template need not be whole: the rest may come from the defaults or from the caller."""
    return {name: part for name, part in schema.items() if name != "required"}


def _hoisted(schema: Mapping[str, Any], prefix: str, definitions: Schema) -> Schema:
    """A schema whose definitions have moved to those of the whole, under names of its own."""
    for name, part in schema.get("$defs", {}).items():
        definitions[f"{prefix}.{name}"] = _referring(part, prefix)
    rest: Schema = _referring({name: part for name, part in schema.items() if name != "$defs"}, prefix)
    return rest


def _referring(part: Any, prefix: str) -> Any:
    if isinstance(part, list):
        return [_referring(each, prefix) for each in part]
    if not isinstance(part, dict):
        return part
    moved = {name: _referring(each, prefix) for name, each in part.items()}
    place = moved.get("$ref")
    if isinstance(place, str) and place.startswith("#/$defs/"):
        moved["$ref"] = f"#/$defs/{prefix}.{place.removeprefix('#/$defs/')}"
    return moved


def _tidied(part: Any) -> Any:
    """Without titles that only repeat names, and without null where a key is simply left out."""
    if isinstance(part, list):
        return [_tidied(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {name: _tidied(each) for name, each in part.items() if not _is_noise(part, name, each)}
    choices = kept.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        left = [each for each in choices if each != {"type": "null"}]
        kept.pop("anyOf")
        kept = {**kept, **left[0]} if len(left) == 1 else {**kept, "anyOf": left}
    return kept


def _is_noise(owner: Schema, name: str, part: Any) -> bool:
    if name == "title":
        # A key of the language may be called so too; that one is a schema, not a text.
        return isinstance(part, str) and "properties" not in owner
    return name == "default" and part is None and ("anyOf" in owner or "description" in owner)
