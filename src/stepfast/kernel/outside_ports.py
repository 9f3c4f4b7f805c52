"""What a store does for outside work that nobody waits for any more."""

from __future__ import annotations

from typing import Protocol

from stepfast.kernel.ids import RunId
from stepfast.kernel.outside import LeftOutside


class OutsideRows(Protocol):
    """The rows that the ends of runs leave behind."""

    async def left_outside(self, limit: int = 100) -> list[LeftOutside]:
        """Outside work of runs that have ended, which is to be stopped."""
        ...

    async def forget_outside(self, run_id: RunId, wait_id: int) -> None:
        """What stops it is stored."""
        ...
