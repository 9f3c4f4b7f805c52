"""Changes as columns, and the call that writes them: a statement names only the parts that its changes have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from stepfast.kernel.commands import Change, Changed, LockedRun, Request
from stepfast.kernel.decisions import Decision, Fence, Message
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.rules import owed_event
from stepfast.stores.postgres.columns import Column, Columns, call_with
from stepfast.stores.postgres.saving import PART_COLUMNS, SUPERSEDED_COLUMNS, parts_of


class SeenRun(NamedTuple):
    """A run under its lock: what the kernel judges by, and what its rows are written by."""

    run: LockedRun
    token: int
    worker_id: WorkerId | None
    queue: str
    last_event: int
    untold: Sequence[Message] = ()
    """Commands whose events its holder owes."""


class Writing(NamedTuple):
    """A change of a run, and who asked for it."""

    seen: SeenRun
    request: Request
    change: Change

    @property
    def token(self) -> int:
        """The run's token afterwards: it rises when the run ends, and when it is opened again."""
        is_raised = self.change.outcome is not None or self.change.reopen is not None
        return self.seen.token + is_raised

    @property
    def generation(self) -> int:
        """The run's generation afterwards."""
        return self.seen.run.generation + (self.change.reopen is not None)

    @property
    def told(self) -> Sequence[Message]:
        """What is told before the change's own events; if it has none, the holder of the run goes on telling."""
        return self.seen.untold if self.change.events else ()

    def answer(self, now: Instant) -> Changed:
        """What the change did."""
        run, joins = self.seen.run, self.seen.run.joins
        place = (self.seen.queue, now, self.seen.worker_id, joins and joins.parent_id)
        told = () if self.request.dry_run else self.change.events
        return Changed(run.run_id, self.change.state, self.generation, *place, told=told)


def change_call(writings: Sequence[Writing], now: Instant) -> tuple[str, list[object]]:
    """The statement that writes changes as of a moment, and its arguments."""
    history = parts_of([_decision(writing) for writing in writings])
    own = {name: columns for name, turn in _PARTS.items() if (columns := turn(writings))}
    columns = [*(PART_COLUMNS[name] for name in history), *(_COLUMNS[name] for name in own)]
    parts = chain.from_iterable([*history.values(), *own.values()])
    arguments, values = call_with(tuple(chain.from_iterable(columns)), list(parts))
    return f"select stepfast.change({arguments}, moment => ${len(values) + 1}::bigint)", [*values, now]


def _decision(writing: Writing) -> Decision:
    """What a change has in common with what a holder decides."""
    run, change = writing.seen.run, writing.change
    return Decision(
        Fence(run.run_id, writing.token, None),
        run.tenant,
        writing.generation,
        events=(*map(owed_event, writing.told), *change.events),
        outcome=change.outcome,
        dead_letter=change.dead_letter,
        records=change.records,
        closed=change.closed,
        taken=[message.n for message in writing.told],
        # Records are numbered on by the statement, which alone knows how many there are.
        first_seq=1,
        first_event=writing.seen.last_event + 1,
    )


def _holds(writings: Sequence[Writing]) -> list[Column]:
    rows = [
        (of, change.hold, change.ready)
        for of, (_, _, change) in enumerate(writings, start=1)
        if change.hold is not None
    ]
    return list(zip(*rows, strict=True))


def _generations(writings: Sequence[Writing]) -> list[Column]:
    rows = [
        (of, then.version, then.code, then.definition, then.input, then.cause, request.actor, request.reason)
        for of, (_, request, change) in enumerate(writings, start=1)
        if (then := change.reopen)
    ]
    return list(zip(*rows, strict=True))


def _superseded(writings: Sequence[Writing]) -> list[Column]:
    rows = [
        (of, *call)
        for of, (_, _, change) in enumerate(writings, start=1)
        for call in (change.reopen.superseded if change.reopen else change.superseded)
    ]
    return list(zip(*rows, strict=True))


def _resolutions(writings: Sequence[Writing]) -> list[Column]:
    rows = [
        (of, change.resolution, request.actor)
        for of, (_, request, change) in enumerate(writings, start=1)
        if change.resolution
    ]
    return list(zip(*rows, strict=True))


_PARTS: dict[str, Callable[[Sequence[Writing]], list[Column]]] = {
    "holds": _holds,
    "generations": _generations,
    "superseded": _superseded,
    "resolutions": _resolutions,
}

_COLUMNS: dict[str, Columns] = {
    "holds": (("h_of", "integer[]"), ("h_hold", "boolean[]"), ("h_ready", "boolean[]")),
    "generations": (
        ("g_of", "integer[]"),
        ("g_version", "integer[]"),
        ("g_code", "text[]"),
        ("g_definition", "text[]"),
        ("g_input", "text[]"),
        ("g_cause", "text[]"),
        ("g_actor", "text[]"),
        ("g_reason", "text[]"),
    ),
    "superseded": SUPERSEDED_COLUMNS,
    "resolutions": (("z_of", "integer[]"), ("z_resolution", "text[]"), ("z_actor", "text[]")),
}
