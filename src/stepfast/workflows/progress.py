"""How far something has got, as the history tells it."""

from __future__ import annotations

import json

from stepfast.kernel.errors import Invalid
from stepfast.kernel.numbers import MAX_NUMBER
from stepfast.kernel.texts import check_optional_text, shown


def progress_data(done: float, total: float | None, note: str | None) -> str:
    """What the event of a progress holds."""
    said = {"done": _amount("done", done), "total": None if total is None else _amount("total", total)}
    return json.dumps({**said, "note": check_optional_text("The note of a progress", note or None)})


def _amount(what: str, number: object) -> int | float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= MAX_NUMBER:
        raise Invalid(f"The {what} of a progress is {shown(number)}; use a number.")
    return number
