"""What can be asked of texts, and made of them."""

from __future__ import annotations

from typing import Any

from stepfast.workflows.expressions.budget import Meter, spend, spend_copy
from stepfast.workflows.expressions.kinds import kind_name
from stepfast.workflows.expressions.matching import metered_pattern
from stepfast.workflows.expressions.problems import Failed

_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER = {ord(letter): letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}


def starts_with(meter: Meter, text: str, prefix: str) -> bool:
    spend_copy(meter, len(prefix))
    return text.startswith(prefix)


def ends_with(meter: Meter, text: str, suffix: str) -> bool:
    spend_copy(meter, len(suffix))
    return text.endswith(suffix)


def contains_text(meter: Meter, text: str, part: str) -> bool:
    spend_copy(meter, len(text) + len(part))
    return part in text


def matches(meter: Meter, text: str, pattern: str) -> bool:
    return metered_pattern(pattern, meter).is_in(text, meter)


def lower_ascii(meter: Meter, text: str) -> str:
    spend_copy(meter, len(text))
    return text.translate(_LOWER)


def upper_ascii(meter: Meter, text: str) -> str:
    spend_copy(meter, len(text))
    return text.translate(_UPPER)


def trim(meter: Meter, text: str) -> str:
    spend_copy(meter, len(text))
    return text.strip()


def split(meter: Meter, text: str, separator: str, limit: int = -1) -> list[str]:
    """At most `limit` parts, the last with all that is left; less than none means all."""
    spend(meter, len(text))
    if limit == 0:
        return []
    if separator:
        return text.split(separator, min(limit, len(text) + 1) - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def join_texts(meter: Meter, parts: list[Any], separator: str = "") -> str:
    for part in parts:
        if not isinstance(part, str):
            raise Failed(f"join needs texts, and one of the items is of kind {kind_name(part)}")
    spend_copy(meter, sum(map(len, parts)) + len(parts) * (len(separator) + 1))
    return separator.join(parts)


def replace(meter: Meter, text: str, old: str, new: str, limit: int = -1) -> str:
    """The first `limit` places; less than none means all."""
    spend_copy(meter, len(text) + len(old))
    places = text.count(old) if limit < 0 else min(limit, text.count(old))
    # Paid for before it is made: a text between all characters of a long one may be huge.
    spend_copy(meter, len(text) + places * len(new))
    return text.replace(old, new, places)


def substring(meter: Meter, text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise Failed(f"there is no part from {_shown(start)} to {_shown(stop)} of a text of {len(text):,} characters")
    spend_copy(meter, stop - start)
    return text[start:stop]


def _shown(number: int) -> str:
    return str(number) if abs(number) < 10**18 else "a huge number"


def char_at(meter: Meter, text: str, index: int) -> str:
    """The character there; nothing just behind the last one."""
    if not 0 <= index <= len(text):
        raise Failed(f"there is no character {_shown(index)} in a text of {len(text):,} characters")
    return text[index : index + 1]


def index_of(meter: Meter, text: str, part: str, start: int = 0) -> int:
    """Where the part first stands at or after `start`, or -1."""
    _check_start(text, start)
    spend_copy(meter, len(text) + len(part))
    return text.find(part, start)


def last_index_of(meter: Meter, text: str, part: str, start: int | None = None) -> int:
    """Where the part last stands at or before `start`, or -1."""
    last = len(text) if start is None else start
    _check_start(text, last)
    spend_copy(meter, len(text) + len(part))
    return text.rfind(part, 0, last + len(part))


def _check_start(text: str, start: int) -> None:
    if not 0 <= start <= len(text):
        raise Failed(f"a text of {len(text):,} characters cannot be searched from {_shown(start)}")


def size_of(meter: Meter, value: Any) -> int:
    return len(value)
