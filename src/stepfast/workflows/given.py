"""Values that are given without a hint, as those of signals and events are: their own types stand for it."""

from __future__ import annotations

import inspect
from typing import Any

from stepfast.kernel.errors import InvalidDefinition
from stepfast.workflows.codec import ValueCodec


def text_given(value: Any, what: str) -> str:
    """A value as JSON by its own type; one that has no form there is refused with the path to the culprit."""
    kind = type(value)
    try:
        return ValueCodec(Any if value is None else kind, what).encode(value)
    except InvalidDefinition:
        # Only a class with fields of its own is a definition that somebody can mend.
        if inspect.get_annotations(kind):
            raise
    return ValueCodec(Any, what).encode(value)
