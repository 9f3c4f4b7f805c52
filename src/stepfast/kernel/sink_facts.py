"""What a sink may ask about runs whose events it is given: an event alone does not tell what a run is of."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from stepfast.kernel.assets import LineageView
from stepfast.kernel.ids import RunId
from stepfast.kernel.views import RunView


class RunFacts(Protocol):
    """Runs and their lineage as the store has them now."""

    async def run(self, tenant: str, run_id: RunId) -> RunView | None:
        """A run; None where it is gone."""
        ...

    async def lineage(self, tenant: str, run_id: RunId, generation: int, limit: int) -> list[LineageView]:
        """What the steps of one generation of a run have read and written."""
        ...


@runtime_checkable
class Informed(Protocol):
    """A sink that asks about runs."""

    def inform(self, facts: RunFacts) -> None:
        """Whom to ask from here on."""
        ...
