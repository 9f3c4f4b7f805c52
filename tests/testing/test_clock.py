"""The virtual clock."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import Invalid
from stepfast.testing import VirtualClock
from tests.support.turns import until_idle


async def test_sleepers_wake_in_the_order_of_their_moments_and_not_before():
    clock, woken = VirtualClock(), []

    async def nap(span_ms: int) -> None:
        await clock.sleep(span_ms)
        woken.append(span_ms)

    naps = [asyncio.create_task(nap(span_ms)) for span_ms in (3_000, 1_000, 2_000)]
    await until_idle()
    assert clock.spans_ahead_ms() == [1_000, 2_000, 3_000]
    clock.advance("2s")
    assert clock.is_stirring
    await asyncio.gather(*naps[1:])
    assert (woken, clock.is_stirring) == ([1_000, 2_000], False)
    naps[0].cancel()
    await asyncio.gather(*naps, return_exceptions=True)
    assert clock.spans_ahead_ms() == []


def test_time_moves_by_a_duration_or_by_the_parts_of_one():
    clock = VirtualClock()
    begun = clock.now()
    clock.advance("90s")
    clock.advance(minutes=1, seconds=0.5)
    assert clock.now() - begun == 150_500


def test_time_does_not_move_back():
    with pytest.raises(Invalid, match="must lie between 0 and 100 years"):
        VirtualClock().advance(minutes=-1)


async def test_a_sleeper_that_is_cancelled_as_it_wakes_stirs_no_longer():
    clock = VirtualClock()
    nap = asyncio.create_task(clock.sleep(1_000))
    await until_idle()
    clock.advance(1)
    nap.cancel()
    await asyncio.gather(nap, return_exceptions=True)
    assert not clock.is_stirring
