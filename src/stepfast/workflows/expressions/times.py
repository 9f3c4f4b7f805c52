"""Timestamps and durations: how they are written, and what can be asked of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stepfast.workflows.expressions.budget import Meter
from stepfast.workflows.expressions.problems import Failed
from stepfast.workflows.expressions.spans import EPOCH, SECOND, Moment, Span, moment_of, span_of

_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_SPAN = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:h|ms|m|s|us|µs|ns))+)", re.ASCII)
_SPAN_PART = re.compile(r"(\d*)(?:\.(\d*))?(h|ms|m|s|us|µs|ns)", re.ASCII)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_UNIT_NS = {"h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1}
_LONGEST_TEXT = 100


def read_moment(text: str) -> Moment:
    """A timestamp from its text in the form of RFC 3339; what is less than a nanosecond is cut off."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise Failed("the text is no timestamp; write it like 2030-01-31T12:00:00Z")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    zone = _fixed(match[8], match[9], match[10])
    try:
        local = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError:
        raise Failed("there is no such moment; years go from 1 to 9999") from None
    return moment_of((local - EPOCH) // timedelta(seconds=1) * SECOND + int((match[7] or "0").ljust(9, "0")))


def write_moment(moment: Moment) -> str:
    """RFC 3339, in UTC, with as many digits as there are."""
    whole = _local(moment, None).replace(tzinfo=None).isoformat()
    return f"{whole}{_fraction(moment % SECOND)}Z"


def read_span(text: str) -> Span:
    """A duration from a text like `1h30m`, `-1.5s` or `200ms`."""
    if text in ("0", "+0", "-0"):
        return Span(0)
    match = _SPAN.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise Failed("the text is no duration; write it like 1h30m, 90s or 200ms")
    nanos = sum(_nanos(*part.groups()) for part in _SPAN_PART.finditer(match[2]))
    return span_of(-nanos if match[1] == "-" else nanos)


def _nanos(whole: str, fraction: str | None, unit: str) -> int:
    digits = fraction or ""
    return int((whole or "0") + digits) * _UNIT_NS[unit] // int(10 ** len(digits))


def write_span(span: Span) -> str:
    """Seconds, with as many digits as there are."""
    seconds, rest = divmod(abs(span), SECOND)
    return f"{'-' if span < 0 else ''}{seconds}{_fraction(rest)}s"


def _fraction(nanos: int) -> str:
    return f".{nanos:09}".rstrip("0") if nanos else ""


def _local(moment: Moment, zone: str | None) -> datetime:
    """The second in which the moment lies."""
    try:
        return (EPOCH + timedelta(seconds=moment // SECOND)).astimezone(UTC if zone is None else _zone(zone))
    except OverflowError:
        raise Failed("the timestamp is out of range there; years go from 1 to 9999") from None


def _zone(name: str) -> tzinfo:
    fixed = _OFFSET.fullmatch(name)
    if fixed:
        return _fixed(fixed[1], fixed[2], fixed[3])
    try:
        return ZoneInfo(name[:_LONGEST_TEXT])
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Failed("there is no such time zone; write it like Europe/Paris or +02:00") from None


def _fixed(sign: str | None, hours: str | None, minutes: str | None) -> tzinfo:
    if hours is None or minutes is None:
        return UTC
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    if offset >= timedelta(days=1) or int(minutes) > 59:
        raise Failed("there is no such offset from UTC; write it like +02:00")
    return timezone(-offset if sign == "-" else offset)


def full_year(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).year


def month(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).month - 1


def date(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).day


def day_of_month(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).day - 1


def day_of_week(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).isoweekday() % 7


def day_of_year(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).timetuple().tm_yday - 1


def hours(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).hour


def minutes(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).minute


def seconds(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    return _local(moment, zone).second


def milliseconds(meter: Meter, moment: Moment, zone: str | None = None) -> int:
    # The same everywhere, but a zone that there is not must be told.
    _local(moment, zone)
    return moment % SECOND // 10**6


def hours_of_span(meter: Meter, span: Span) -> int:
    return _whole(span, 3_600 * SECOND)


def minutes_of_span(meter: Meter, span: Span) -> int:
    return _whole(span, 60 * SECOND)


def seconds_of_span(meter: Meter, span: Span) -> int:
    return _whole(span, SECOND)


def milliseconds_of_span(meter: Meter, span: Span) -> int:
    """Those beyond the last whole second, as the specification has it."""
    rest = abs(span) % SECOND
    return _whole(-rest if span < 0 else rest, 10**6)


def _whole(nanos: int, unit: int) -> int:
    count = abs(nanos) // unit
    return -count if nanos < 0 else count
