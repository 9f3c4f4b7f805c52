"""The lives of a run, and the runs that it has started, as they are stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId, WorkerId
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
    """What opened it: `retry`, `rerun`, `rerun_from`, `rollback`, `skip`, `continue_as`; None for the first."""
    actor: str | None
    reason: str | None
    opened_at: Instant
    state: RunState | None
    """None: it has not ended."""
    value: str | None
    error: str | None
    ended_at: Instant | None


# What opens a life that has nothing to do with the one before it.
ANEW = ("continue_as", "rerun")


def epoch_of(lives: Iterable[GenerationView]) -> int:
    """The newest life of a run that began anew; those behind it go on with what it has made."""
    return max((life.generation for life in lives if life.cause in ANEW), default=1)


class ChildView(NamedTuple):
    """A run that has not ended and that a wait of its parent stands for, in short."""

    run_id: RunId
    workflow: str
    code: str
    queue: str
    state: RunState
    worker_id: WorkerId | None
    waits_for_code: bool


class LifeRows(Protocol):
    """What a store tells of the lives of a run, and of the runs that it has started."""

    async def generations(self, run_id: RunId) -> list[GenerationView]:
        """Every life of a run, in order."""
        ...

    async def children(self, run_id: RunId, after: RunId | None = None, limit: int = 1_000) -> list[RunView]:
        """The runs that a run has started itself, oldest first; `after` is the one that the page before ended with."""
        ...

    async def open_children(self, run_id: RunId, wait_id: int, limit: int = 100) -> list[ChildView]:
        """Those that have not ended of the newest runs that a wait stands for; `limit` is how many are looked at."""
        ...

    async def answered(
        self, tenant: str | None, command: str, key: str, *, before: RunId | None = None, limit: int = 1_000
    ) -> list[RunId]:
        """The runs that a command for many was carried out on under this key, newest first, those behind a run.

        Each has a key of its own, by its id.
        """
        ...

    async def transformations(self, run_id: RunId, limit: int = 1_000) -> list[RunView]:
        """Those of its children that are transformations, oldest first."""
        ...
