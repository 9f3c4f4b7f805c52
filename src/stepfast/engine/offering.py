"""Offering events to a sink: all at once, and when that fails, run by run, to tell a sink that is away from an event
that it cannot take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from stepfast.kernel.errors import SinkAway, SinkFailed, StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.origins import shown
from stepfast.kernel.sinks import Refusal, Sink
from stepfast.kernel.texts import storable
from stepfast.kernel.views import EventView

DELIVERY_S = 10.0
# So many runs are tried in vain before a sink counts as away, and so many where it has been away again and again.
PROBES = 3
WIDE_PROBES = 50
AT_ONCE = 20
MAX_ERROR = 500
LOST = "Another publisher has the sink."


class Trouble(NamedTuple):
    """Why something was not done; `is_away` where that has nothing to do with what was offered."""

    text: str
    is_away: bool = False


class Offered(NamedTuple):
    """What a sink took, and of each run the event at which it stopped."""

    taken: int
    refused: list[Refusal]
    is_away: bool = False
    """Nothing at all can be taken now."""
    may_be_poison: bool = False
    """It may be the one event that was refused, and not the sink: no other run could be tried."""
    is_apart: bool = False
    """All at once was too much: it was offered run by run."""


class Offering:
    """One sink and what it is offered; it is opened first, and again after it has not taken something.

    `keep` is asked before each delivery whether the sink is still ours; a page of slow deliveries may outlast a lease.
    """

    def __init__(self, sink: Sink, keep: Callable[[], Awaitable[bool]] | None = None) -> None:
        self._sink = sink
        self._keep = keep
        self._is_open = False
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Let go of the sink, which may hang or fail over it."""
        self._is_open = False
        await _trouble_of(self._sink.close)

    async def offer(self, events: Sequence[EventView], is_long_away: bool = False) -> Offered:
        """Have the sink take events; after one that it does not take, none of the same run."""
        if not events:
            return Offered(0, [])
        if (trouble := await self._opened()) is not None:
            return Offered(0, [Refusal(events[0], trouble.text)], is_away=True)
        if await self._delivered(events) is None:
            return Offered(len(events), [])
        chains = _by_run(events)
        tried, rest = [await self.offer_in_order(chain) for chain in chains[:PROBES]], chains[PROBES:]
        if is_long_away and not any(each.taken for each in tried):
            # Events that it cannot take may stand before those that it can.
            apart = max(len(rest) // WIDE_PROBES, 1)
            tried += await self._offer_side_by_side(rest[::apart])
            rest = [chain for number, chain in enumerate(rest) if number % apart]
        if not any(each.taken for each in tried):
            may_be_poison = len(chains) == 1 and not tried[0].is_away
            return Offered(0, [tried[0].refused[0]], is_away=True, may_be_poison=may_be_poison)
        tried += await self._offer_side_by_side(rest)
        refused = [refusal for each in tried for refusal in each.refused]
        return Offered(sum(each.taken for each in tried), refused, is_apart=True)

    async def _offer_side_by_side(self, chains: Sequence[Sequence[EventView]]) -> list[Offered]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def in_turn(chain: Sequence[EventView]) -> Offered:
            async with turns:
                return await self.offer_in_order(chain)

        return await asyncio.gather(*map(in_turn, chains))

    async def offer_in_order(self, events: Sequence[EventView]) -> Offered:
        """Have the sink take events of one run, one after the other."""
        if events and (trouble := await self._opened()) is not None:
            return Offered(0, [Refusal(events[0], trouble.text)], is_away=True)
        return await self._deliver_in_order(events)

    async def trouble_with(self, events: Sequence[EventView]) -> Trouble | None:
        """Why the sink did not take events; None when it did."""
        if (trouble := await self._opened()) is not None:
            return trouble._replace(is_away=True)
        return await self._delivered(events)

    async def _deliver_in_order(self, events: Sequence[EventView]) -> Offered:
        for number, event in enumerate(events):
            trouble = await self._delivered([event])
            if trouble is not None:
                return Offered(number, [Refusal(event, trouble.text)], trouble.is_away)
        return Offered(len(events), [])

    async def _opened(self) -> Trouble | None:
        # Of those that are delivered side by side one opens it again, and the others wait for that.
        async with self._opening:
            if self._is_open:
                return None
            trouble = await _trouble_of(self._sink.open)
            self._is_open = trouble is None
            return trouble

    async def _delivered(self, events: Sequence[EventView]) -> Trouble | None:
        if self._keep is not None and not await self._keep():
            return Trouble(LOST)
        trouble = await _trouble_of(partial(self._sink.deliver, [shown(event) for event in events]))
        if trouble is not None:
            self._is_open = False
        return trouble


async def _trouble_of(call: Callable[[], Awaitable[None]]) -> Trouble | None:
    """Why other people's code or service failed, or took too long; None when it did neither."""
    try:
        async with asyncio.timeout(DELIVERY_S):
            await call()
    except TimeoutError as error:
        return Trouble(told(error, _said(error) or f"It did not answer within {DELIVERY_S:g} s."))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # It was not us who were cancelled: a client that lost its connection cancels what waits for an answer.
        return Trouble(told(error, "It broke off by itself."))
    except Exception as error:  # noqa: BLE001 - other people's code and services
        return Trouble(told(error), isinstance(error, SinkAway))
    return None


def told(error: BaseException, message: str | None = None) -> str:
    """An error as it is kept with a sink, with its code, or that of all sinks.

    Whatever it says can be stored: a sink whose trouble could not be would never get any further.
    """
    code = error.code if isinstance(error, StepfastError) else SinkFailed.code
    return storable(f"{code} {type(error).__name__}: {message or _said(error)}"[:MAX_ERROR])


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - how an error shows itself is up to its class, and may fail
        return "It cannot say what is wrong."


def _by_run(events: Sequence[EventView]) -> list[list[EventView]]:
    chains: dict[RunId, list[EventView]] = {}
    for event in events:
        chains.setdefault(event.run_id, []).append(event)
    return list(chains.values())
