"""Moments and spans: integers of milliseconds, and the ways people write a span."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NewType

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown

Instant = NewType("Instant", int)

Duration = int | float | str | timedelta

# A hundred years: long enough for any deadline, short enough for every 64-bit sum of moments.
MAX_SPAN_MS = 100 * 366 * 24 * 3_600_000

_EPOCH = datetime.fromtimestamp(0, UTC)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)


def check_instant(what: str, time: object) -> Instant:
    """The moment that a datetime says; `what` names the thing in the error when it is none."""
    if not isinstance(time, datetime):
        raise Invalid(f"{what} is {shown(time)}; give a datetime.")
    if time.utcoffset() is None:
        raise Invalid(f"{what} is {shown(time)}, which is of no time zone; say which, for example tzinfo=UTC.")
    return Instant((time - _EPOCH) // timedelta(milliseconds=1))


def span_ms(duration: Duration, what: str = "duration") -> int:
    """A span in milliseconds; `what` names the thing in the error when it does not fit."""
    span = _raw_span_ms(duration, what)
    if not 0 <= span <= MAX_SPAN_MS:
        raise Invalid(f"{what} is {shown(duration)}; it must lie between 0 and 100 years.")
    return round(span)


def in_seconds(text: str) -> str:
    """A span as people write it where all is text: a bare number is seconds."""
    if not text.replace(".", "", 1).isdecimal():
        return text
    # Few write it so, and every command would load it.
    from decimal import Decimal

    return f"{Decimal(text):f}s"


def told_span(duration: Duration) -> str:
    """A span as it was given, for messages: a bare number has its unit."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return seconds if isinstance(seconds, str) else f"{seconds} s"


def written_span(span_ms: int) -> str:
    """A span as people write it, in the largest unit that holds it whole."""
    unit = next(unit for unit in reversed(_UNIT_MS) if span_ms % _UNIT_MS[unit] == 0 and (span_ms or unit == "s"))
    return f"{span_ms // _UNIT_MS[unit]}{unit}"


def clock_parts(span_ms: int) -> tuple[int, int, int, int]:
    """A span as days, hours, minutes and seconds, for those who put it into words."""
    minutes, seconds = divmod(span_ms // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, seconds


def _raw_span_ms(duration: object, what: str) -> float:
    if isinstance(duration, bool):
        raise _unreadable(duration, what)
    if isinstance(duration, timedelta):
        return duration.total_seconds() * 1_000
    if isinstance(duration, int | float):
        if duration != duration:
            raise _unreadable(duration, what)
        return duration * 1_000
    match = _TEXT.fullmatch(duration.strip()) if isinstance(duration, str) else None
    if match is None:
        raise _unreadable(duration, what)
    return float(match[1]) * _UNIT_MS[match[2]]


def _unreadable(duration: object, what: str) -> Invalid:
    return Invalid(
        f'{what} is {shown(duration)}; write seconds, a timedelta, or text like "200ms", "90s", "5m", "24h", "3d".'
    )
