"""The small forms of the language: durations, joins, names, expressions; each with its JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, GetJsonSchemaHandler, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid
from stepfast.kernel.media_types import check_kind, check_media_type
from stepfast.kernel.texts import MAX_NAME, MAX_NAME_BYTES, is_name
from stepfast.workflows.plans.plan import JoinRule
from stepfast.workflows.templates.problems import told

MAX_ID = 100

_ID = re.compile(rf"[^\W\d][\w-]{{0,{MAX_ID - 1}}}")
_INPUT = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_]{{0,{MAX_ID - 1}}}")
_NAME = re.compile(rf"[^\s/#@]{{1,{MAX_NAME}}}")
_EXECUTOR = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*")
_TARGET = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)\s*%", re.ASCII)
_WHOLLY = re.compile(r"\$\{.*\}", re.DOTALL)

EXPRESSION_PATTERN = r"^\s*\$\{[\s\S]*\}\s*$"
SPAN_PATTERN = r"^\s*\d+(\.\d+)?(ms|s|m|h|d)\s*$"

INPUT_NAME: dict[str, Any] = {"type": "string", "maxLength": MAX_ID, "pattern": r"^[A-Za-z_][A-Za-z0-9_]*$"}
EXPRESSION: dict[str, Any] = {"type": "string", "pattern": EXPRESSION_PATTERN}
SPAN: dict[str, Any] = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": SPAN_PATTERN}]}


def refusal(message: str) -> PydanticCustomError:
    """A form that does not fit, in our own words; they are not taken for a pattern of pydantic's."""
    return PydanticCustomError("form", "{told}", {"told": message})


class Shorthand:
    """A short form beside the long one, for the JSON Schema; a validator makes the long one of it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [self._schema, handler(core)]}


class OneOrMany:
    """One of a list instead of the list, for the JSON Schema."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        several = handler(core)
        return {"anyOf": [several["items"], several]}


def is_expression(value: object) -> bool:
    """Whether a text is one expression, which can be a value of any type."""
    return isinstance(value, str) and _WHOLLY.fullmatch(value.strip()) is not None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise refusal(f"it is {told(value)}; it must be text")
    return value


def _matching(pattern: re.Pattern[str], allowed: str) -> Any:
    def check(value: Any) -> str:
        if not pattern.fullmatch(_text(value)):
            raise refusal(f"it is {told(value)}; {allowed}")
        return str(value)

    return check


def _name(value: Any) -> str:
    if not _NAME.fullmatch(_text(value)) or not is_name(value):
        sizes = f"1 to {MAX_NAME} printable characters of at most {MAX_NAME_BYTES} bytes"
        allowed = f"allowed are {sizes}, none of them a blank, '/', '#' or '@'"
        raise refusal(f"it is {told(value)}; {allowed}")
    return str(value)


def _span(value: Any) -> Any:
    try:
        span_ms(value, "it")
    except Invalid as error:
        raise refusal(str(error).rstrip(".").replace("seconds, a timedelta, or text", "seconds, or text")) from None
    return value


def read_kind(value: str) -> str:
    """A media type that is wanted, or all of a kind, as it is compared."""
    return _type_by(check_kind, value)


def _media_type(value: str) -> str:
    return _type_by(check_media_type, value)


def _type_by(check: Callable[[object], str], value: str) -> str:
    try:
        return check(value)
    except Invalid as error:
        raise refusal(str(error).rstrip(".").replace("The media type is", "it is")) from None


def _limit(value: Any) -> Any:
    if span_ms(_span(value)) == 0:
        raise refusal("it is 0, which nothing can keep; leave it out for no limit")
    return value


def _span_or_expression(value: Any) -> Any:
    return value if is_expression(value) else _span(value)


def _expression(value: Any) -> str:
    if not is_expression(value):
        raise refusal(f'it is {told(value)}; it must be an expression, as in "${{ inputs.risk > 0.4 }}"')
    return str(value)


def _condition(value: Any) -> Any:
    return value if isinstance(value, bool) else _expression(value)


def _items(value: Any) -> Any:
    return value if isinstance(value, list) else _expression(value)


def read_join(value: Any) -> JoinRule:
    """A join as people write it: `all`, `any`, `settled`, `{first: 3}` or `3`, `{quorum: 90%}` or `90%`."""
    match value:
        case "all" | "any" | "settled":
            return JoinRule(value)
        case {"first": number} if len(value) == 1:
            return _first(number)
        case {"quorum": share} if len(value) == 1:
            return _quorum(share)
        case bool():
            pass
        case int():
            return _first(value)
        case str() if _PERCENT.fullmatch(value.strip()):
            return _quorum(value)
    raise refusal(f"it is {told(value)}; allowed are all, any, settled, {{first: 3}} and {{quorum: 90%}}")


def _first(number: Any) -> JoinRule:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise refusal(f"first is {told(number)}; it must be a whole number from 1")
    return JoinRule("first", number)


def _quorum(share: Any) -> JoinRule:
    found = _PERCENT.fullmatch(share.strip()) if isinstance(share, str) else None
    percent = float(found[1]) if found else 0
    if not 0 < percent <= 100:
        raise refusal(f"quorum is {told(share)}; it must be a share from 1% to 100%, as in 90%")
    return JoinRule("quorum", percent)


_NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_NAME, "pattern": r"^[^\s/#@]+$"}
_ID_SCHEMA = {"type": "string", "maxLength": MAX_ID, "pattern": r"^[A-Za-z_\u0080-\uFFFF][-\w\u0080-\uFFFF]*$"}

StepId = Annotated[
    str,
    PlainValidator(_matching(_ID, f"an id is up to {MAX_ID} letters, digits, '_' and '-', and no digit first")),
    WithJsonSchema(_ID_SCHEMA),
]
InputName = Annotated[
    str,
    PlainValidator(
        _matching(_INPUT, f"the name of an input is up to {MAX_ID} letters, digits and '_', no digit first")
    ),
    WithJsonSchema(INPUT_NAME),
]
Name = Annotated[str, PlainValidator(_name), WithJsonSchema(_NAME_SCHEMA)]
ExecutorName = Annotated[
    str,
    PlainValidator(_matching(_EXECUTOR, "an executor is named like domain.name")),
    WithJsonSchema({"type": "string", "pattern": r"^[^\s/#@]+$"}),
]
Target = Annotated[
    str,
    PlainValidator(_matching(_TARGET, "a function is named like module:function")),
    WithJsonSchema({"type": "string", "pattern": r"^[\w.]+:[\w.]+$"}),
]
MediaKind = Annotated[str, AfterValidator(read_kind)]
MediaType = Annotated[str, AfterValidator(_media_type)]
Span = Annotated[Any, PlainValidator(_span), WithJsonSchema(SPAN)]
Limit = Annotated[Any, PlainValidator(_limit), WithJsonSchema(SPAN)]
SpanOrExpression = Annotated[
    Any, PlainValidator(_span_or_expression), WithJsonSchema({"anyOf": [*SPAN["anyOf"], EXPRESSION]})
]
Condition = Annotated[Any, PlainValidator(_condition), WithJsonSchema({"anyOf": [{"type": "boolean"}, EXPRESSION]})]
Items = Annotated[Any, PlainValidator(_items), WithJsonSchema({"anyOf": [{"type": "array"}, EXPRESSION]})]
Key = Annotated[str, PlainValidator(_expression), WithJsonSchema(EXPRESSION)]
JoinForm = Annotated[
    JoinRule,
    PlainValidator(read_join),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["all", "any", "settled"]},
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^\s*\d{1,3}(\.\d{1,3})?\s*%\s*$"},
                {
                    "type": "object",
                    "properties": {"first": {"type": "integer", "minimum": 1}},
                    "required": ["first"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"quorum": {"type": "string"}},
                    "required": ["quorum"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def short_for(key: str, kinds: tuple[type, ...], schema: dict[str, Any]) -> tuple[BeforeValidator, Shorthand]:
    """A value that stands for a map with that one key."""

    def lengthen(value: Any) -> Any:
        return {key: value} if isinstance(value, kinds) and not isinstance(value, bool) else value

    return BeforeValidator(lengthen), Shorthand(schema)
