"""What an error was made from and carries, as JSON that restores it; of what is too long for that, head and tail."""

from __future__ import annotations

import base64
import json
from typing import Any

from stepfast.kernel.texts import clean
from stepfast.workflows.culprits import is_native

MAX_PACKED = 16_000
# How long a text may be where all together is too long, from the first that will do.
CUTS = (8_000, 2_000, 500)

BYTES = "__stepfast_bytes__"
TUPLE = "__stepfast_tuple__"


def pack(value: object) -> str | None:
    """The value as JSON, long texts shortened if need be; None for what does not come back equal."""
    whole = text_of(value)
    if whole is None or len(whole) <= MAX_PACKED:
        return whole
    cut = (text_of(shortened_within(value, limit)) for limit in CUTS)
    return next((text for text in cut if text and len(text) <= MAX_PACKED), None)


def unpack(text: str) -> Any:
    return json.loads(text, object_hook=from_mark)


def text_of(value: object) -> str | None:
    if not is_native(marked := to_mark(value)):
        return None
    text = json.dumps(marked, ensure_ascii=False)
    # No store holds a lone surrogate, but an escape stands for it.
    text = text if clean(text) == text else json.dumps(marked)
    return text if unpack(text) == value else None


def to_mark(value: object) -> object:
    """The value with a form of JSON for each part that JSON does not have."""
    if type(value) is bytes:
        return {BYTES: base64.b64encode(value).decode()}
    if type(value) is tuple:
        return {TUPLE: [to_mark(each) for each in value]}
    if type(value) is list:
        return [to_mark(each) for each in value]
    return {name: to_mark(each) for name, each in value.items()} if type(value) is dict else value


def from_mark(data: dict[str, Any]) -> Any:
    if data.keys() == {BYTES}:
        return base64.b64decode(data[BYTES])
    return tuple(data[TUPLE]) if data.keys() == {TUPLE} else data


def shortened_within(value: object, limit: int) -> object:
    """The value with each text in it shortened; of bytes only the head is kept."""
    if isinstance(value, str):
        return shortened(value, limit)
    if isinstance(value, bytes):
        return value[:limit]
    if isinstance(value, (list, tuple)):
        return type(value)([shortened_within(each, limit) for each in value])
    return {name: shortened_within(each, limit) for name, each in value.items()} if isinstance(value, dict) else value


def shortened(text: str, limit: int) -> str:
    """The head and tail of a long text: the one says what was called, the other what went wrong."""
    if len(text) > limit:
        half = limit // 2 - 30
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    return clean(text)
