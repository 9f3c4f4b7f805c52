"""What events carry along, and reading it: what is not as it was written is left out, and never raises."""

from __future__ import annotations

import json
from typing import Any

from stepfast.kernel.decisions import NewRun, Wait
from stepfast.kernel.origins import CAUSE, CORRELATION

RECORDED = json.dumps({"recorded": True})
"""Of a step that begins: that is a record too, which stays when its worker is lost."""


def due_in(wait: Wait) -> dict[str, int]:
    """How long a wait lasts at most."""
    return {} if wait.due_in_ms is None else {"due_in_ms": wait.due_in_ms}


def object_in(data: str | None) -> dict[str, Any] | None:
    """What an event carries along, by name; None when that cannot be read."""
    if data is None:
        return {}
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def text_in(told: dict[str, Any], name: str) -> str | None:
    value = told.get(name)
    return value if isinstance(value, str) else None


def number_in(told: dict[str, Any], name: str) -> int | None:
    value = told.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def texts_in(told: dict[str, Any], name: str) -> list[str]:
    values = told.get(name)
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def queued_data(run: NewRun) -> str:
    """What the first event of a run holds."""
    told = {"workflow": run.workflow, "version": run.version}
    return json.dumps(told if run.correlation_id is None else {**told, CORRELATION: run.correlation_id})


def signal_data(name: str, n: int, reason: str | None, cause: str | None) -> str:
    """What the event of a signal holds: its name, its number in the run's inbox, why and with which key it was sent."""
    told = {"reason": reason, CAUSE: cause}
    return json.dumps({"name": name, "n": n} | {key: text for key, text in told.items() if text is not None})
