"""What is read from a store, as the JSON that commands print."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from stepfast.kernel import texts
from stepfast.kernel.views import EventView, RunView, StepView

_JSON_TEXTS = frozenset({"input", "value", "error", "metadata", "data"})


def object_of(view: NamedTuple) -> dict[str, Any]:
    """A view by its fields; texts that hold JSON become what they hold."""
    fields = view._asdict()
    return {name: parsed(value) if name in _JSON_TEXTS else value for name, value in fields.items()}


def run_object(view: RunView, steps: Iterable[StepView] | None = None) -> dict[str, Any]:
    """A run, with its steps if they were asked for."""
    progress = None if view.progress is None else view.progress._asdict()
    listed = {} if steps is None else {"steps": [step_object(step) for step in steps]}
    return object_of(view) | {"progress": progress} | listed


def step_object(view: StepView) -> dict[str, Any]:
    """A record, its call by the address that events use."""
    return {"seq": view.seq, "step": view.call.address, **object_of(view), "call": view.call._asdict()}


def event_object(view: EventView) -> dict[str, Any]:
    """An event of a run's history."""
    return object_of(view)


def page_object(items: Iterable[dict[str, Any]], next_cursor: str | None) -> dict[str, Any]:
    """A page of a list, and the cursor of the next one if there is more."""
    return {"items": list(items), "next_cursor": next_cursor}


def parsed(text: str | None) -> Any:
    """What a JSON text holds; what is no JSON, put there by other means, is shown as it is."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def error_line(text: str | None) -> str | None:
    """A stored error in one line: its type and message."""
    error = parsed(text)
    if not isinstance(error, dict):
        return None if error is None else str(error)
    return error_line_of(error)


def error_line_of(error: dict[str, Any]) -> str:
    """The same of an error that was read."""
    return texts.error_line(str(error.get("type", "")), str(error.get("message", "")))
