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
from stepfast.kernel.texts import guarded, storable
from stepfast.kernel.views import EventView

DELIVERY_S = 10.0
# So many runs are tried in vain before a sink counts as away, and so many where it has been away again and again.
PROBES = 3
WIDE_PROBES = 50
AT_ONCE = 20
MAX_ERROR = 500
LOST = "Another publisher has the sink."


class Failing(NamedTuple):
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

    `keep` is asked before all that may take long whether the sink is still ours: a page of it may outlast a lease.
    """

    def __init__(self, sink: Sink, keep: Callable[[], Awaitable[bool]] | None = None) -> None:
        self._sink = sink
        self._keep = keep
        self._is_open = False
        self._opening = asyncio.Lock()
        self._attempts = 0
        self._closed_for: Failing | None = None

    async def close(self) -> None:
        """Let go of the sink, which may hang or fail over it."""
        self._is_open = False
        await _failing_of(self._sink.close)

    async def offer(self, events: Sequence[EventView], is_long_away: bool = False) -> Offered:
        """Have the sink take events; after one that it does not take, none of the same run."""
        if not events:
            return Offered(0, [])
        if (failing := await self._opened()) is not None:
            return Offered(0, [Refusal(events[0], failing.text)], failing.is_away)
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
        if events and (failing := await self._opened()) is not None:
            return Offered(0, [Refusal(events[0], failing.text)], failing.is_away)
        for number, event in enumerate(events):
            failing = await self._delivered([event])
            if failing is not None:
                return Offered(number, [Refusal(event, failing.text)], failing.is_away)
        return Offered(len(events), [])

    async def _opened(self) -> Failing | None:
        """Why the sink cannot be opened, which is never the fault of what it is to be offered; None when it is open."""
        attempts = self._attempts
        # Of those that are delivered side by side one opens it again; the others wait for that, and go by its answer.
        async with self._opening:
            if self._is_open:
                return None
            if attempts == self._attempts or self._closed_for is None:
                self._closed_for = await self._open_anew()
                self._attempts += 1
                self._is_open = self._closed_for is None
            return self._closed_for

    async def _open_anew(self) -> Failing | None:
        if not await self._is_ours():
            return Failing(LOST, is_away=True)
        failing = await _failing_of(self._sink.open)
        return None if failing is None else failing._replace(is_away=True)

    async def _delivered(self, events: Sequence[EventView]) -> Failing | None:
        if not await self._is_ours():
            return Failing(LOST)
        failing = await _failing_of(partial(self._sink.deliver, [shown(event) for event in events]))
        if failing is not None:
            self._is_open = False
        return failing

    async def _is_ours(self) -> bool:
        return self._keep is None or await self._keep()


async def _failing_of(call: Callable[[], Awaitable[None]]) -> Failing | None:
    """Why other people's code or service failed, or took too long; None when it did neither."""
    try:
        async with asyncio.timeout(DELIVERY_S):
            await call()
    except TimeoutError as error:
        return Failing(told(error, guarded(str, error) or f"It did not answer within {DELIVERY_S:g} s."))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # It was not us who were cancelled: a client that lost its connection cancels what waits for an answer.
        return Failing(told(error, "It broke off by itself."))
    except Exception as error:  # noqa: BLE001 - other people's code and services
        return Failing(told(error), isinstance(error, SinkAway))
    return None


def told(error: BaseException, message: str | None = None) -> str:
    """An error as it is kept with a sink, with its code, or that of all sinks.

    Whatever it says can be stored: a sink whose trouble could not be would never get any further.
    """
    code = error.code if isinstance(error, StepfastError) else SinkFailed.code
    said = message or guarded(str, error)
    text = "It cannot say what is wrong." if said is None else said
    return storable(f"{code} {type(error).__name__}: {text}")[:MAX_ERROR]


def _by_run(events: Sequence[EventView]) -> list[list[EventView]]:
    chains: dict[RunId, list[EventView]] = {}
    for event in events:
        chains.setdefault(event.run_id, []).append(event)
    return list(chains.values())
