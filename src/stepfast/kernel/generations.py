"""The lives of a run, and the runs that it has started, as they are stored."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState
from stepfast.kernel.views import RunView


class GenerationView(NamedTuple):
    """A life of a run: what it was opened with, by whom and why, and how it ended, if it did."""

    generation: int
    version: int
    code: str
    definition: str | None
    input: str
    cause: str | None
    """What opened it: `retry`, `rerun`, `rollback`, `skip`, `continue_as`; None for the first."""
    actor: str | None
    reason: str | None
    opened_at: Instant
    state: RunState | None
    """None: it has not ended."""
    value: str | None
    error: str | None
    ended_at: Instant | None


class LifeRows(Protocol):
    """What a store tells of the lives of a run, and of the runs that it has started."""

    async def generations(self, run_id: RunId) -> list[GenerationView]:
        """Every life of a run, in order."""
        ...

    async def children(self, run_id: RunId, after: RunId | None = None, limit: int = 1_000) -> list[RunView]:
        """The runs that a run has started itself, oldest first; `after` is the one that the page before ended with."""
        ...

    async def transformations(self, run_id: RunId, limit: int = 1_000) -> list[RunView]:
        """Those of its children that are transformations, oldest first."""
        ...
