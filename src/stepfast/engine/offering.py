"""Offering events to a sink: all at once, and when that fails, run by run, to tell a sink that is away from an event
that it cannot take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from stepfast.kernel.ids import RunId
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


async def offer(sink: Sink, events: Sequence[EventView]) -> Offered:
    """Have a sink take events; after one that it does not take, none of the same run."""
    if not events:
        return Offered(0, [])
    error = await refusal(sink, events)
    if error is None:
        return Offered(len(events), [])
    chains = _by_run(events)
    tried = [await _offer_chain(sink, chain) for chain in chains[:PROBES]]
    if not any(each.taken for each in tried):
        return Offered(0, [tried[0].refused[0]], is_away=True)
    rest, turns = chains[PROBES:], asyncio.Semaphore(AT_ONCE)

    async def in_turn(chain: Sequence[EventView]) -> Offered:
        async with turns:
            return await _offer_chain(sink, chain)

    tried += await asyncio.gather(*map(in_turn, rest))
    return Offered(sum(each.taken for each in tried), [refused for each in tried for refused in each.refused])


async def offer_in_order(sink: Sink, events: Sequence[EventView]) -> Offered:
    """Have a sink take events of one run, one after the other."""
    return await _offer_chain(sink, events)


async def _offer_chain(sink: Sink, events: Sequence[EventView]) -> Offered:
    for number, event in enumerate(events):
        error = await refusal(sink, [event])
        if error is not None:
            return Offered(number, [Refusal(event, error)])
    return Offered(len(events), [])


async def refusal(sink: Sink, events: Sequence[EventView]) -> str | None:
    """Why a sink did not take events; None when it did."""
    try:
        async with asyncio.timeout(DELIVERY_S):
            await sink.deliver(events)
    except TimeoutError:
        return f"It did not answer within {DELIVERY_S:g} s."
    except Exception as error:  # noqa: BLE001 - other people's code and services
        return f"{type(error).__name__}: {error}"[:MAX_ERROR]
    return None


def _by_run(events: Sequence[EventView]) -> list[list[EventView]]:
    chains: dict[RunId, list[EventView]] = {}
    for event in events:
        chains.setdefault(event.run_id, []).append(event)
    return list(chains.values())
