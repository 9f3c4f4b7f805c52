"""Transformations: uses of steps that make assets of assets, each a run of its own that is marked as one."""

from __future__ import annotations

from typing import NamedTuple

from stepfast.kernel.durations import Instant
from stepfast.kernel.event_data import number_in, object_in, text_in
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState
from stepfast.kernel.views import RunView

MARK = "transformation"
"""What the metadata of its runs has, and the kind of its executors."""


class Mark(NamedTuple):
    """Which transformation a run is the use of."""

    name: str
    version: int


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


def mark_of(run: RunView) -> Mark | None:
    """The transformation that a run is the use of, if it is; the metadata of other runs is their callers' own."""
    told = (object_in(run.metadata) or {}).get(MARK) if run.kind == "step" else None
    if not isinstance(told, dict):
        return None
    name, version = text_in(told, "name"), number_in(told, "version")
    return None if name is None or version is None else Mark(name, version)
