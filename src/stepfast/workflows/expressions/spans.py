"""Moments and spans of time to the nanosecond, and sums of them that stay in range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from stepfast.workflows.expressions.problems import Failed

SECOND = 10**9
MIN_MOMENT, MAX_MOMENT = -62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1
"""The years 1 to 9999."""
MAX_SPAN = 2**63 - 1
"""What 64 bits hold: about 292 years."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Moment(int):
    """A timestamp: nanoseconds since 1970."""

    __slots__ = ()


class Span(int):
    """A duration: nanoseconds."""

    __slots__ = ()


def moment_of(nanos: int) -> Moment:
    """The moment so long after 1970."""
    if MIN_MOMENT <= nanos <= MAX_MOMENT:
        return Moment(nanos)
    raise Failed("the timestamp is out of range; years go from 1 to 9999")


def span_of(nanos: int) -> Span:
    """The span of so many nanoseconds."""
    if -MAX_SPAN - 1 <= nanos <= MAX_SPAN:
        return Span(nanos)
    raise Failed("the duration is out of range; it may have 292 years")


def moment_of_python(moment: datetime) -> Moment:
    """A timestamp that came as one of Python's."""
    if moment.utcoffset() is None:
        raise Failed("the timestamp has no time zone")
    return moment_of(_nanos(moment - EPOCH))


def span_of_python(span: timedelta) -> Span:
    """A duration that came as one of Python's."""
    return span_of(_nanos(span))


def _nanos(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1_000
