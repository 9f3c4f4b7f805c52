"""Offering events to a sink: all at once, and when that fails, run by run, to tell a sink that is away from an event
that it cannot take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

from stepfast.kernel.ids import RunId
from stepfast.kernel.origins import shown
from stepfast.kernel.sinks import Refusal, Sink
from stepfast.kernel.views import EventView

DELIVERY_S = 10.0
# So many runs are tried in vain before a sink counts as away.
PROBES = 3
AT_ONCE = 20
MAX_ERROR = 500


class Offered(NamedTuple):
    """What a sink took, and of each run the event at which it stopped."""

    taken: int
    refused: list[Refusal]
    is_away: bool = False
    """Nothing at all was taken."""


class Offering:
    """One sink and what it is offered; it is opened first, and again after it has not taken something."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._is_open = False

    async def close(self) -> None:
        """Let go of the sink."""
        self._is_open = False
        await self._sink.close()

    async def offer(self, events: Sequence[EventView]) -> Offered:
        """Have the sink take events; after one that it does not take, none of the same run."""
        if not events:
            return Offered(0, [])
        error = await self.refusal(events)
        if error is None:
            return Offered(len(events), [])
        chains = _by_run(events)
        tried = [await self.offer_in_order(chain) for chain in chains[:PROBES]]
        if not any(each.taken for each in tried):
            return Offered(0, [tried[0].refused[0]], is_away=True)
        rest, turns = chains[PROBES:], asyncio.Semaphore(AT_ONCE)

        async def in_turn(chain: Sequence[EventView]) -> Offered:
            async with turns:
                return await self._deliver_in_order(chain)

        tried += await asyncio.gather(*map(in_turn, rest))
        return Offered(sum(each.taken for each in tried), [refused for each in tried for refused in each.refused])

    async def offer_in_order(self, events: Sequence[EventView]) -> Offered:
        """Have the sink take events of one run, one after the other."""
        if events and (error := await self._opened()) is not None:
            return Offered(0, [Refusal(events[0], error)])
        return await self._deliver_in_order(events)

    async def refusal(self, events: Sequence[EventView]) -> str | None:
        """Why the sink did not take events; None when it did."""
        error = await self._opened()
        return await self._delivered(events) if error is None else error

    async def _deliver_in_order(self, events: Sequence[EventView]) -> Offered:
        for number, event in enumerate(events):
            error = await self._delivered([event])
            if error is not None:
                return Offered(number, [Refusal(event, error)])
        return Offered(len(events), [])

    async def _opened(self) -> str | None:
        if self._is_open:
            return None
        error = await _error_of(self._sink.open())
        self._is_open = error is None
        return error

    async def _delivered(self, events: Sequence[EventView]) -> str | None:
        error = await _error_of(self._sink.deliver([shown(event) for event in events]))
        if error is not None:
            self._is_open = False
        return error


async def _error_of(call: Awaitable[None]) -> str | None:
    """Why other people's code or service failed, or took too long; None when it did neither."""
    try:
        async with asyncio.timeout(DELIVERY_S):
            await call
    except TimeoutError as error:
        return str(error) or f"It did not answer within {DELIVERY_S:g} s."
    except Exception as error:  # noqa: BLE001 - other people's code and services
        return f"{type(error).__name__}: {error}"[:MAX_ERROR]
    return None


def _by_run(events: Sequence[EventView]) -> list[list[EventView]]:
    chains: dict[RunId, list[EventView]] = {}
    for event in events:
        chains.setdefault(event.run_id, []).append(event)
    return list(chains.values())
