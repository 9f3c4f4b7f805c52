"""What every store reads of a run's lives and children, by the statements that all share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stepfast.kernel.generations import ChildView, GenerationView
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState
from stepfast.kernel.transformations import MARK
from stepfast.kernel.views import RunView
from stepfast.stores import rows

Row = Sequence[Any]
T = TypeVar("T")

# The metadata of runs of this kind is the engine's own.
TRANSFORMATIONS = {"kind": "step", "metadata": f'%"{MARK}":%'}


def generation_of(row: Row) -> GenerationView:
    """A row of `list_generations`."""
    view = GenerationView(*row)
    return view if view.state is None else view._replace(state=RunState(view.state))


def child_of(row: Row) -> ChildView:
    """A row of `list_open_children`."""
    run_id, workflow, code, queue, state, worker_id, waits_for_code = row
    holder = None if worker_id is None else WorkerId(str(worker_id))
    return ChildView(RunId(str(run_id)), workflow, code, queue, RunState(state), holder, bool(waits_for_code))


class Lives:
    """A run's generations, and the runs that it has started."""

    @abstractmethod
    async def _ask(self, name: str, parameters: dict[str, Any], view: Callable[[Row], T]) -> list[T]:
        """The rows of a shared statement, each as its view."""

    async def generations(self, run_id: RunId) -> list[GenerationView]:
        """Every life of a run, in order."""
        return await self._ask("list_generations", {"run_id": run_id}, generation_of)

    async def children(self, run_id: RunId, after: RunId | None = None, limit: int = 1_000) -> list[RunView]:
        """The runs that a run has started itself, oldest first."""
        return await self._children(run_id, limit, after=after)

    async def open_children(self, run_id: RunId, wait_id: int, limit: int = 100) -> list[ChildView]:
        """Those that have not ended of the newest runs that a wait stands for."""
        return await self._ask("list_open_children", {"run_id": run_id, "wait_id": wait_id, "limit": limit}, child_of)

    async def answered(
        self, tenant: str | None, command: str, key: str, *, before: RunId | None = None, limit: int = 1_000
    ) -> list[RunId]:
        """The runs that a command for many was carried out on under this key, newest first, those behind a run."""
        asked = {"tenant": tenant, "command": command, "key": key, "before": before, "limit": limit}
        return await self._ask("list_answered", asked, lambda row: RunId(str(row[0])))

    async def transformations(self, run_id: RunId, limit: int = 1_000) -> list[RunView]:
        """Those of its children that are transformations, oldest first."""
        return await self._children(run_id, limit, **TRANSFORMATIONS)

    async def _children(self, run_id: RunId, limit: int, **where: str | None) -> list[RunView]:
        given = {"run_id": run_id, "after": None, "kind": None, "metadata": None, "limit": limit, **where}
        return await self._ask("list_children", given, rows.run_view)
