"""Futures of a run's loop: like its tasks, they are found in sets by their place in the run, not by that in memory."""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import Any, Protocol


class Placing(Protocol):
    """A loop that numbers its futures."""

    def next_future(self) -> int:
        """The place of one more future."""


class Placed:
    """A future that has a place from when it is first asked for it: most are put into no set."""

    get_loop: Any
    _place: int | None = None

    def __hash__(self) -> int:
        if self._place is None:
            loop: Placing = self.get_loop()
            self._place = loop.next_future()
        return self._place


class PlacedFuture(Placed, asyncio.Future[Any]):
    """A future that the loop of a run has made, as `asyncio.shield` asks for one."""


# A name of Python's own affairs: where it is gone, what `gather` gives back has no place, and all else goes on.
_GATHERING: Any = vars(asyncio.tasks).get("_GatheringFuture", asyncio.Future)
_PLACED_GATHERING = type("_GatheringFuture", (Placed, _GATHERING), {})
_MAKING = getattr(_GATHERING.__init__, "__code__", None)


def place_gathering(maker: FrameType) -> None:
    """What `asyncio.gather` gives back is made without the loop, which only hears of it by a question while it is."""
    if maker.f_code is _MAKING:
        maker.f_locals["self"].__class__ = _PLACED_GATHERING
