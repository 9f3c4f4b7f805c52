"""What the engine relies on in a sink."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from stepfast.conformance.running import in_a_loop
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import Sink
from stepfast.kernel.views import EventView

Arrived: TypeAlias = Callable[[], Awaitable[Iterable[tuple[str, int]]]]
"""What has come to a sink's place so far: run and number of each event, in the order of arrival."""

RUNS = [RunId(f"01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e{number:02x}") for number in range(20)]
PAGE = 500
PATIENCE_S = 30.0
TENANTS = ("a.b", "a b", "*", ">", "%", "a/b", "a\nb", "\u00e9", "\N{PILE OF POO}" * 250, "x" * 1_000)
TYPES = ("order.shipped", "x y", "*", ">", "x\r\ny", "\N{PILE OF POO}")
DATA = (None, "null", '{"n":1}', '"' + "x" * 100_000 + '"', '"\\u0000\\ud83d\\udca9"')


class SinkConformance:
    """Subclass it with the fixtures `sink` and `arrived`; for a sink that can be away, `sink_away` too.

    `sink` is a sink that is not open yet, `arrived` a function to be awaited that says what has come to its place, and
    `sink_away` a sink whose place is not there. All of them are new for each test.
    """

    @in_a_loop
    async def test_events_are_there_when_a_delivery_returns(self, sink: Sink, arrived: Arrived) -> None:
        async with opened(sink):
            await sink.deliver(page(RUNS[:3], 5))
            assert {*await arrived()} == {(run, seq) for run in RUNS[:3] for seq in range(1, 6)}

    @in_a_loop
    async def test_a_whole_page_is_taken_in_one_delivery(self, sink: Sink, arrived: Arrived) -> None:
        async with opened(sink):
            await sink.deliver(page(RUNS, PAGE // len(RUNS)))
            assert len({*await arrived()}) == PAGE

    @in_a_loop
    async def test_the_events_of_a_run_arrive_in_order(self, sink: Sink, arrived: Arrived) -> None:
        async with opened(sink):
            await sink.deliver(page(RUNS, 10))
            await sink.deliver(page(RUNS, 10, first=11))
            found = [*await arrived()]
        for run in RUNS:
            assert firsts(found, run) == [*range(1, 21)], run

    @in_a_loop
    async def test_a_delivery_that_is_repeated_takes_nothing_away(self, sink: Sink, arrived: Arrived) -> None:
        async with opened(sink):
            await sink.deliver(page(RUNS[:2], 5))
            await sink.deliver(page(RUNS[:2], 8))
            found = [*await arrived()]
        for run in RUNS[:2]:
            assert firsts(found, run) == [*range(1, 9)], run

    @in_a_loop
    async def test_deliveries_at_once_do_not_hinder_each_other(self, sink: Sink, arrived: Arrived) -> None:
        async with opened(sink):
            await asyncio.gather(*(sink.deliver(page([run], 10)) for run in RUNS))
            found = [*await arrived()]
        for run in RUNS:
            assert firsts(found, run) == [*range(1, 11)], run

    @in_a_loop
    async def test_a_delivery_of_nothing_is_none(self, sink: Sink, arrived: Arrived) -> None:
        async with opened(sink):
            await sink.deliver([])
            assert [*await arrived()] == []

    @in_a_loop
    async def test_opening_closing_and_opening_again_loses_nothing(self, sink: Sink, arrived: Arrived) -> None:
        async with opened(sink):
            await sink.open()
            await sink.deliver(page(RUNS[:1], 2))
        await sink.close()
        async with opened(sink):
            await sink.deliver(page(RUNS[:1], 2, first=3))
            assert firsts(await arrived(), RUNS[0]) == [1, 2, 3, 4]

    @in_a_loop
    async def test_a_delivery_that_was_broken_off_leaves_a_sink_that_works(self, sink: Sink, arrived: Arrived) -> None:
        async with opened(sink):
            broken_off = asyncio.create_task(deliver(sink, page(RUNS, 5)))
            await asyncio.sleep(0)
            broken_off.cancel()
            await asyncio.wait([broken_off])
            await sink.open()
            await sink.deliver(page(RUNS, 5))
            found = [*await arrived()]
        for run in RUNS:
            assert firsts(found, run) == [1, 2, 3, 4, 5], run

    @in_a_loop
    async def test_events_of_any_tenant_type_and_content_arrive(self, sink: Sink, arrived: Arrived) -> None:
        odd = [event(RUNS[0], seq, tenant=tenant) for seq, tenant in enumerate(TENANTS, 1)]
        odd += [event(RUNS[1], seq, type_=type_) for seq, type_ in enumerate(TYPES, 1)]
        odd += [event(RUNS[2], seq, data=data) for seq, data in enumerate(DATA, 1)]
        async with opened(sink):
            await sink.deliver([each for each in odd if sink.wants(each)])
            assert {*await arrived()} == {(each.run_id, each.seq) for each in odd if sink.wants(each)}

    def test_whether_an_event_is_wanted_is_always_the_same(self, sink: Sink) -> None:
        for each in page(RUNS[:2], 3):
            assert sink.wants(each) is sink.wants(each)

    def test_it_has_a_name(self, sink: Sink) -> None:
        assert isinstance(sink.name, str)
        assert sink.name

    @in_a_loop
    async def test_a_place_that_is_not_there_is_an_error_and_soon(self, request: object) -> None:
        sink = away(request)
        if sink is None:
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await is_refused(sink, page(RUNS[:1], 1)), "It says that events are safe that are nowhere."
        finally:
            await sink.close()


async def is_refused(sink: Sink, events: Sequence[EventView]) -> bool:
    try:
        await sink.open()
        await sink.deliver(events)
    except Exception:  # noqa: BLE001 - a sink may say no in its own words
        return True
    return False


def away(request: object) -> Sink | None:
    """The sink of the fixture `sink_away`, where there is one."""
    lookup = getattr(request, "getfixturevalue", None)
    instance = getattr(request, "instance", None)
    if lookup is None or not hasattr(instance, "sink_away"):
        return None
    found: Sink = lookup("sink_away")
    return found


@asynccontextmanager
async def opened(sink: Sink) -> AsyncIterator[None]:
    await sink.open()
    try:
        yield
    finally:
        await sink.close()


async def deliver(sink: Sink, events: Sequence[EventView]) -> None:
    await sink.deliver(events)


def page(runs: Sequence[RunId], count: int, first: int = 1) -> list[EventView]:
    """So many events of each run, mixed."""
    return [event(run, seq) for seq in range(first, first + count) for run in runs]


def event(
    run: RunId, seq: int, *, type_: str = "recorded", tenant: str = "acme", data: str | None = '{"n":1}'
) -> EventView:
    position = seq * len(RUNS) + RUNS.index(run)
    return EventView(position, seq, run, tenant, 1, type_, Instant(1_750_000_000_000), "ship", 1, 1, "ann", data)


def firsts(found: Iterable[tuple[str, int]], run: RunId) -> list[int]:
    """The events of a run in the order in which they came for the first time."""
    return [*dict.fromkeys(seq for run_id, seq in found if run_id == run)]
