"""What checks of policies answer, and the words for what they were asked about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from stepfast.kernel.texts import clean, guarded, shown
from stepfast.workflows.failures import NO_MESSAGE

MAX_NAMED = 3


def refusal_in(answer: Any) -> str | None:
    """Why an answer is no clear yes; None where it is one."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("ok"), bool):
        return f"it must answer {{'ok': true}} or {{'ok': false}}, and says {shown(answer)}"
    return None if answer["ok"] else clean(str(answer.get("reason") or "it gives no reason"))


def unchecked(error: Exception) -> str:
    """The reason where there is no answer."""
    said = guarded(str, error)
    return clean(f"it could not be checked: {type(error).__name__}: {NO_MESSAGE if said is None else said}")


def done_with(what: Literal["read", "write"], assets: Sequence[Mapping[str, Any]]) -> str:
    """What a step is about to do with assets."""
    if what == "read":
        return f"reads {_named(asset['uri'] for asset in assets)}"
    return f"writes {_named(repr(asset['id']) for asset in assets)}"


def _named(names: Iterable[str]) -> str:
    """A few of several, for a text that must stay short."""
    several = list(names)
    more = f" and {len(several) - MAX_NAMED} more" if len(several) > MAX_NAMED else ""
    return ", ".join(several[:MAX_NAMED]) + more
