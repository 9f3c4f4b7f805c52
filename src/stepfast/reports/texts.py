"""Data from runs as texts that a report can hold: nothing in them is unseen, and none of them is without an end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from stepfast.kernel.blobs import is_reference, parse_reference
from stepfast.kernel.durations import clock_parts
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId

# What is shown of a value, of a text within a sentence, and of a name.
LONGEST_VALUE = 2_000
LONGEST_TEXT = 300
LONGEST_NAME = 120
# A longer text is not taken apart to be laid out: of it only the beginning is shown in any case.
LONGEST_PARSED = 65_536
# What is wider is laid out over several lines.
WIDTH = 88
# Where dates end that people can write.
LAST_MOMENT = 253_402_300_799_000


def visible(text: str, keep_lines: bool = False) -> str:
    """A text in which nothing hides: what cannot be seen, or turns what stands beside it around, is an escape."""
    return "".join(
        character
        if character.isprintable() or (keep_lines and character == "\n")
        else character.encode("unicode_escape").decode()
        for character in text
    )


def short(text: object, longest: int = LONGEST_TEXT) -> str:
    """A text within a sentence: on one line, and of a long one the beginning with its length."""
    given = str(text)
    if len(given) <= longest:
        return visible(given)
    return f"{visible(given[:longest])}… ({len(given):,} characters)"


def name(text: object) -> str:
    """A name or an id: the same, shorter."""
    return short(text, LONGEST_NAME)


class Shown(NamedTuple):
    """What is shown of a value, and what is to be said of the rest."""

    text: str
    note: str


def shown_value(text: str, longest: int = LONGEST_VALUE) -> Shown:
    """A stored value laid out for people; of a long one the beginning, its length and the digest of all of it."""
    if is_reference(text):
        return _elsewhere(text)
    laid_out = _laid_out(text)
    if len(laid_out) <= longest:
        return Shown(visible(laid_out, keep_lines=True), "")
    note = f"Cut: {len(text):,} characters in all, SHA-256 {digest_of(text)}."
    return Shown(visible(laid_out[:longest], keep_lines=True) + "…", note)


def _elsewhere(text: str) -> Shown:
    """A value that is kept apart and was too large to be read along."""
    try:
        reference = parse_reference(text, RunId(""))
    except StepfastError:
        return Shown(visible(text[:LONGEST_TEXT]), "This refers to a value that is kept apart, and cannot be read.")
    return Shown("…", f"Kept apart: {reference.size:,} bytes, SHA-256 {reference.digest}.")


def digest_of(text: str) -> str:
    """The SHA-256 of a text, whatever is in it."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _laid_out(text: str) -> str:
    if len(text) > LONGEST_PARSED:
        return text
    try:
        return "\n".join(_lines(json.loads(text), "", ""))
    except (ValueError, RecursionError):
        return text


def _lines(value: Any, indent: str, end: str) -> Iterator[str]:
    """A value over as few lines as can be read: what fits on one stands on one."""
    flat = json.dumps(value, ensure_ascii=False)
    # What is nested deeper than anybody reads stands on one line, too.
    if not isinstance(value, dict | list) or not value or len(flat) <= WIDTH - len(indent) or len(indent) > WIDTH // 2:
        yield f"{indent}{flat}{end}"
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield f"{indent}{opening}"
    deeper, last = f"{indent}  ", len(value) - 1
    for number, each in enumerate(value):
        comma = "" if number == last else ","
        if isinstance(value, dict):
            first, *rest = _lines(value[each], deeper, comma)
            yield f"{deeper}{json.dumps(each, ensure_ascii=False)}: {first.removeprefix(deeper)}"
            yield from rest
        else:
            yield from _lines(each, deeper, comma)
    yield f"{indent}{closing}{end}"


def told_by(data: str | None) -> dict[str, Any]:
    """What the data of an event says; nothing where it cannot be read."""
    try:
        told = json.loads(data or "{}")
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def is_damaged(data: str | None) -> bool:
    """Whether the data of an event is not what the engine writes."""
    try:
        json.loads(data or "{}")
    except (ValueError, RecursionError):
        return True
    return False


class Times:
    """Moments and spans as a reader of one place reads them."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        self._zone = zone

    def moment(self, at: int | None) -> str:
        """A moment to the thousandth of a second, with its zone."""
        if at is None:
            return "never"
        if not 0 <= at <= LAST_MOMENT:
            return f"{at} ms"
        when = datetime.fromtimestamp(at / 1_000, UTC).astimezone(self._zone)
        return f"{when:%Y-%m-%d %H:%M:%S}.{at % 1_000:03} {self._zone_of(when)}"

    def _zone_of(self, when: datetime) -> str:
        return "UTC" if self._zone is UTC else f"{when:%Z (UTC%z)}"


def span(span_ms: int) -> str:
    """A span in words: 12 ms, 3.4 s, 5 min 10 s, 2 h 5 min, 3 d 4 h."""
    ms = max(span_ms, 0)
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    days, hours, minutes, seconds = clock_parts(ms)
    if days:
        return f"{days:,} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def listed(names: list[str]) -> str:
    """Names as a sentence has them: a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
