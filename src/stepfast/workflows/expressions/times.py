"""Timestamps and durations: how they are written, and what can be asked of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stepfast.workflows.expressions.budget import Meter
from stepfast.workflows.expressions.problems import Failed
from stepfast.workflows.expressions.spans import check_range

_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_SPAN = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:h|ms|m|s|us|µs|ns))+)", re.ASCII)
_SPAN_PART = re.compile(r"(\d*)(?:\.(\d*))?(h|ms|m|s|us|µs|ns)", re.ASCII)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_UNIT_NS = {"h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_TEXT = 100


def read_moment(text: str) -> datetime:
    """A timestamp from its text in the form of RFC 3339; Python keeps microseconds of it."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise Failed("the text is no timestamp; write it like 2030-01-31T12:00:00Z")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    micros = int((match[7] or "0").ljust(6, "0")[:6])
    try:
        local = datetime(year, month, day, hour, minute, second, micros, tzinfo=_fixed(match[8], match[9], match[10]))
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Failed("there is no such moment; years go from 1 to 9999") from None


def moment_of_seconds(seconds: int) -> datetime:
    """A timestamp from seconds since 1970."""
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise Failed("the timestamp is out of range; years go from 1 to 9999") from None


def seconds_of_moment(moment: datetime) -> int:
    """Seconds since 1970, cut off to whole ones."""
    return (_aware(moment) - _EPOCH) // timedelta(seconds=1)


def write_moment(moment: datetime) -> str:
    """RFC 3339, in UTC, with as many digits as there are."""
    text = _aware(moment).astimezone(UTC).replace(tzinfo=None)
    whole = text.replace(microsecond=0).isoformat()
    fraction = f".{text.microsecond:06}".rstrip("0") if text.microsecond else ""
    return f"{whole}{fraction}Z"


def read_span(text: str) -> timedelta:
    """A duration from a text like `1h30m`, `-1.5s` or `200ms`."""
    if text == "0":
        return timedelta(0)
    match = _SPAN.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise Failed("the text is no duration; write it like 1h30m, 90s or 200ms")
    nanos = sum(_nanos(*part.groups()) for part in _SPAN_PART.finditer(match[2]))
    try:
        span = timedelta(microseconds=nanos // 1_000)
    except OverflowError:
        raise Failed("the duration is out of range") from None
    return check_range(-span if match[1] == "-" else span)


def _nanos(whole: str, fraction: str | None, unit: str) -> int:
    digits = fraction or ""
    return int((whole or "0") + digits) * _UNIT_NS[unit] // int(10 ** len(digits))


def write_span(span: timedelta) -> str:
    """Seconds, with as many digits as there are."""
    micros = span // timedelta(microseconds=1)
    sign, (seconds, rest) = "-" if micros < 0 else "", divmod(abs(micros), 1_000_000)
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return f"{sign}{seconds}{fraction}s"


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise Failed("the timestamp has no time zone")
    return moment


def _local(moment: datetime, zone: str | None) -> datetime:
    try:
        return _aware(moment).astimezone(UTC if zone is None else _zone(zone))
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


def full_year(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).year


def month(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).month - 1


def date(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).day


def day_of_month(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).day - 1


def day_of_week(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).isoweekday() % 7


def day_of_year(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).timetuple().tm_yday - 1


def hours(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).hour


def minutes(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).minute


def seconds(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).second


def milliseconds(meter: Meter, moment: datetime, zone: str | None = None) -> int:
    return _local(moment, zone).microsecond // 1_000


def hours_of_span(meter: Meter, span: timedelta) -> int:
    return _whole(span, timedelta(hours=1))


def minutes_of_span(meter: Meter, span: timedelta) -> int:
    return _whole(span, timedelta(minutes=1))


def seconds_of_span(meter: Meter, span: timedelta) -> int:
    return _whole(span, timedelta(seconds=1))


def milliseconds_of_span(meter: Meter, span: timedelta) -> int:
    """Those beyond the last whole second, as the specification has it."""
    rest = abs(span) % timedelta(seconds=1)
    return _whole(-rest if span < timedelta(0) else rest, timedelta(milliseconds=1))


def _whole(span: timedelta, unit: timedelta) -> int:
    count = abs(span) // unit
    return -count if span < timedelta(0) else count
