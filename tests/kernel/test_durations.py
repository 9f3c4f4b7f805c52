"""How people write spans."""

from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.durations import MAX_SPAN_MS, check_instant, span_ms, told_span
from stepfast.kernel.errors import Invalid


@pytest.mark.parametrize(
    ("written", "span"),
    [
        ("200ms", 200),
        ("90s", 90_000),
        ("5m", 300_000),
        ("24h", 86_400_000),
        ("3d", 259_200_000),
        (" 1.5s ", 1_500),
        (2, 2_000),
        (0.25, 250),
        (0, 0),
        (timedelta(minutes=1), 60_000),
    ],
)
def test_a_span_is_read_in_every_form(written, span):
    assert span_ms(written) == span


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "5",
        "5 minutes",
        "-1s",
        "1e3s",
        "٣s",
        -1,
        -0.001,
        float("nan"),
        float("inf"),
        "99999999d",
        True,
        None,
        [],
        10**30,
    ],
)
def test_a_bad_span_is_refused_with_its_name(bad):
    with pytest.raises(Invalid, match="the delay"):
        span_ms(bad, "the delay")


@given(st.integers(min_value=0, max_value=MAX_SPAN_MS))
def test_every_span_of_milliseconds_comes_back_whole(span):
    assert span_ms(f"{span}ms") == pytest.approx(span, rel=1e-15)


class Nowhere(tzinfo):
    """A time zone that does not say how far it is from any other."""

    def utcoffset(self, dt: datetime | None) -> None: ...

    def dst(self, dt: datetime | None) -> None: ...

    def tzname(self, dt: datetime | None) -> None: ...


def test_a_moment_is_that_of_a_datetime():
    assert check_instant("time", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1_000


@pytest.mark.parametrize("zone", [None, Nowhere()])
def test_a_moment_of_no_time_zone_is_refused(zone):
    with pytest.raises(Invalid, match="of no time zone"):
        check_instant("time", datetime(2026, 1, 1, tzinfo=zone))


@pytest.mark.parametrize(
    ("duration", "told"), [(9.0, "9.0 s"), (5, "5 s"), ("200ms", "200ms"), (timedelta(minutes=1), "60.0 s")]
)
def test_a_span_is_told_with_its_unit(duration, told):
    assert told_span(duration) == told
