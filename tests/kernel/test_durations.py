"""How people write spans."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.durations import MAX_SPAN_MS, span_ms
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
