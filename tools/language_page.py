"""The reference page of the template language, from its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepfast.workflows.templates.forms import EXPRESSION_PATTERN, SPAN_PATTERN
from stepfast.workflows.templates.models import VERBS, WITH_EACH, WITH_VERBS

TITLES = {
    "StepForm": "Steps",
    "Input": "Inputs",
    "Defaults": "Defaults",
    "RetryForm": "Retries",
    "PolicyForm": "Policies",
    "RunForm": "run",
    "ReviewForm": "review",
    "ReceiveForm": "receive",
    "EmitForm": "emit",
    "FailForm": "fail",
    "CaseForm": "switch",
    "WhileForm": "while",
    "Gates": "gate",
    "GateForm": "A gate",
    "CatchForm": "catch",
    "Using": "undo",
    "ReadForm": "reads",
    "WriteForm": "writes",
}
PATTERNS = {EXPRESSION_PATTERN: "expression", SPAN_PATTERN: "duration"}

Schema = dict[str, Any]


def language_sections(schema: Schema) -> Iterator[str]:
    """The parts of the page: the whole, then every map of the language."""
    definitions = schema["$defs"]
    if missing := definitions.keys() - TITLES.keys():
        raise SystemExit(f"{', '.join(missing)} has no title; add one to TITLES in tools/language_page.py.")
    yield "## The whole"
    yield _table(schema)
    for name, title in TITLES.items():
        part = definitions[name]
        yield f"## {title}"
        yield str(part["description"])
        if name == "StepForm":
            yield _rules()
        yield _table(part)


def _rules() -> str:
    verbs = ", ".join(f"`{verb}`" for verb in VERBS)
    beside = "; ".join(f"{_several(keys)} with {_several(verbs)}" for verbs, keys in _grouped().items())
    return (
        f"A step has one verb: {verbs}. `each` and `while` wrap a verb. Some keys go with some verbs only: {beside}; "
        f"{_several(WITH_EACH)} with `each`; `join` and `on_extra` with `each` and `parallel`."
    )


def _grouped() -> dict[tuple[str, ...], tuple[str, ...]]:
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key, verbs in WITH_VERBS.items():
        found[verbs] = (*found.get(verbs, ()), key)
    return found


def _several(names: tuple[str, ...]) -> str:
    told = [f"`{name}`" for name in names]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _table(part: Schema) -> str:
    needed = part.get("required", ())
    lines = ["| key | value | meaning |", "|---|---|---|"]
    for key, schema in part["properties"].items():
        name = f"**`{key}`**" if key in needed else f"`{key}`"
        cells = (name, _kind(schema), f"{schema['description']}{_default(schema)}")
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines)


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return f" By default {_word(default)}." if isinstance(default, str | int) and default not in ("", False) else ""


def _word(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else str(value)


SIMPLE = {"integer": "whole number", "number": "number", "boolean": "true or false"}


def _kind(schema: Schema) -> str:
    """What a key may hold, in a few words."""
    if "$ref" in schema:
        return _reference(schema["$ref"])
    if "anyOf" in schema:
        return _alternatives(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return _alternatives(_word(each) for each in schema["enum"])
    if "const" in schema:
        return "false" if schema["const"] is False else _word(schema["const"])
    return _kind_of_type(schema)


def _kind_of_type(schema: Schema) -> str:
    match schema.get("type"):
        case "array":
            return f"list of {_plural(schema['items'])}" if schema.get("items") else "list"
        case "object":
            return _map(schema)
        case "string":
            return PATTERNS.get(schema.get("pattern", ""), "text")
        case other:
            return SIMPLE.get(str(other), "anything")


def _alternatives(kinds: Iterator[str]) -> str:
    found = list(dict.fromkeys(kinds))
    # A duration is written as a number of seconds, too.
    if "duration" in found:
        found = [kind for kind in found if kind != "number"]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"


def _map(schema: Schema) -> str:
    if properties := schema.get("properties"):
        return "`{" + ", ".join(f"{name}: ..." for name in properties) + "}`"
    inner = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
    return f"map of names to {_plural(inner)}" if isinstance(inner, dict) and inner else "map"


def _plural(schema: Schema) -> str:
    kind = _kind(schema)
    return {"text": "texts", "anything": "anything", "map": "maps"}.get(kind, kind)


def _reference(place: str) -> str:
    title = TITLES[place.rpartition("/")[2]]
    return f"[{title}](#{title.lower().replace(' ', '-')})"
