"""Transformations: uses of steps that make assets of assets, each a run of its own that is marked as one."""

from __future__ import annotations

from typing import NamedTuple

from stepfast.kernel.durations import Instant
from stepfast.kernel.event_data import object_in
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState
from stepfast.kernel.views import RunView

MARK = "transformation"


class TransformationView(NamedTuple):
    """One use of a transformation: a run of its own, and what came of it."""

    run_id: RunId
    name: str
    version: int
    state: RunState
    parent_id: RunId | None
    """The run that has used it."""
    inputs: tuple[str, ...]
    """The addresses of the versions that it was given."""
    outputs: tuple[str, ...]
    """The addresses of the assets that were made of it; none until it counts."""
    confidence: float | None
    """How sure it was of the least sure of its outputs; None until it has made them."""
    review_required: bool
    queued_at: Instant
    ended_at: Instant | None

    @property
    def duration_ms(self) -> int | None:
        """From when it was asked for to its end."""
        return None if self.ended_at is None else self.ended_at - self.queued_at


def is_transformation(run: RunView) -> bool:
    """Whether a run is the use of a transformation; the metadata of other runs is their callers' own."""
    mark = (object_in(run.metadata) or {}).get(MARK) if run.kind == "step" else None
    return isinstance(mark, dict) and isinstance(mark.get("name"), str) and isinstance(mark.get("version"), int)
