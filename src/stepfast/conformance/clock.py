"""What the engine relies on in a clock."""

from __future__ import annotations

import asyncio
import threading

from stepfast.conformance.running import in_a_loop
from stepfast.kernel.durations import Instant
from stepfast.kernel.ports import Clock

SOON_MS = 20
AHEAD_MS = 3_600_000
# How far two moments may lie apart that were asked for one after the other, on a busy machine too.
NEAR_MS = 60_000


class ClockConformance:
    """Subclass it with a fixture `clock`, a new one for each test.

    A clock that moves only when it is told to overrides `advance`; one that does not go by the store's clock sets
    `follows` to False.
    """

    follows = True

    def advance(self, clock: Clock, span_ms: int) -> None:
        """Let a span pass; real time does so by itself."""

    def test_moments_are_whole_milliseconds_and_go_forward(self, clock: Clock) -> None:
        moments = [clock.now() for _ in range(1_000)]
        assert all(isinstance(moment, int) for moment in moments)
        assert moments == sorted(moments)
        assert moments[0] > Instant(1_000_000_000_000), "seconds since 1970 rather than milliseconds?"

    @in_a_loop
    async def test_a_sleeper_wakes_when_the_span_has_passed_and_not_before(self, clock: Clock) -> None:
        before = clock.now()
        sleeper = asyncio.ensure_future(clock.sleep(SOON_MS))
        await asyncio.sleep(0)
        assert not sleeper.done()
        self.advance(clock, SOON_MS)
        await sleeper
        assert clock.now() >= before + SOON_MS - 1

    @in_a_loop
    async def test_sleepers_wake_in_the_order_of_their_moments(self, clock: Clock) -> None:
        woken: list[int] = []

        async def sleep(span_ms: int) -> None:
            await clock.sleep(span_ms)
            woken.append(span_ms)

        sleepers = [asyncio.ensure_future(sleep(span_ms)) for span_ms in (3 * SOON_MS, SOON_MS, 2 * SOON_MS)]
        await asyncio.sleep(0)
        self.advance(clock, 3 * SOON_MS)
        await asyncio.gather(*sleepers)
        assert woken == [SOON_MS, 2 * SOON_MS, 3 * SOON_MS]

    @in_a_loop
    async def test_sleeping_for_nothing_lets_the_others_go_on(self, clock: Clock) -> None:
        others = asyncio.ensure_future(asyncio.sleep(0))
        for span_ms in (0, -SOON_MS):
            await clock.sleep(span_ms)
        assert others.done()

    @in_a_loop
    async def test_a_sleeper_that_is_cancelled_wakes_no_other(self, clock: Clock) -> None:
        cancelled, other = (asyncio.ensure_future(clock.sleep(SOON_MS)) for _ in range(2))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert cancelled.cancelled()
        assert not other.done()
        self.advance(clock, SOON_MS)
        await other

    def test_the_store_s_moment_is_taken_over_from_any_thread(self, clock: Clock) -> None:
        told = Instant(clock.local() + AHEAD_MS)
        thread = threading.Thread(target=clock.follow, args=(told, clock.local()))
        thread.start()
        thread.join()
        expected = told if self.follows else clock.local()
        assert abs(clock.now() - expected) < NEAR_MS

    def test_the_machine_s_own_moment_is_not_changed_by_the_store(self, clock: Clock) -> None:
        before = clock.local()
        clock.follow(Instant(before + AHEAD_MS), before)
        assert abs(clock.local() - before) < NEAR_MS
