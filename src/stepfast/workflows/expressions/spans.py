"""Sums of moments and spans that stay in range."""

from __future__ import annotations

from datetime import datetime, timedelta

from stepfast.workflows.expressions.problems import Failed

# What a duration of protocol buffers can hold: about 10,000 years.
MAX_SPAN = timedelta(seconds=315_576_000_000)


def check_range(span: timedelta) -> timedelta:
    """Refuse what is longer than a duration can be."""
    if -MAX_SPAN <= span <= MAX_SPAN:
        return span
    raise Failed("the duration is out of range")


def check_span(left: timedelta, right: timedelta, sign: int) -> timedelta:
    """The sum, or with -1 the difference, of two spans."""
    return check_range(left + sign * right)


def check_moment(moment: datetime, span: timedelta, sign: int) -> datetime:
    """A moment that much later, or with -1 earlier."""
    try:
        return moment + sign * span
    except OverflowError:
        raise Failed("the timestamp is out of range; years go from 1 to 9999") from None
