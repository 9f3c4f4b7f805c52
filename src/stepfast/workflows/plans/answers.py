"""What checks of policies answer, and the words for what they were asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepfast.kernel.texts import shown
from stepfast.workflows.failures import clean

MAX_NAMED = 3


def refusal_in(answer: Any) -> str | None:
    """Why an answer is no clear yes; None where it is one."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("ok"), bool):
        return f"it must answer {{'ok': true}} or {{'ok': false}}, and says {shown(answer)}"
    return None if answer["ok"] else clean(str(answer.get("reason") or "it gives no reason"))


def named(names: Iterator[str]) -> str:
    """A few of several, for a text that must stay short."""
    several = list(names)
    more = f" and {len(several) - MAX_NAMED} more" if len(several) > MAX_NAMED else ""
    return ", ".join(several[:MAX_NAMED]) + more
