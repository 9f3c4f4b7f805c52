"""Commands as data: what people and upkeep ask of a run, what they see of it, and what is to be written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, NamedTuple

from stepfast.kernel.annotations import Annotate
from stepfast.kernel.decisions import CallId, DeadLetter, Joins, Outcome, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import DeadRun
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.items import ItemChange, ItemCommand, LockedItem
from stepfast.kernel.outside import LockedCall, NewMessage, OutsideCommand
from stepfast.kernel.plan_control import Ties
from stepfast.kernel.reviews import Decide, LockedReview, ReviewChange, ReviewCommand
from stepfast.kernel.states import RunState, StepState, TaskState


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the run now."""

    name: ClassVar[str] = "cancel"
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Let no further step begin until the run is resumed."""

    name: ClassVar[str] = "pause"
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused run go on."""

    name: ClassVar[str] = "resume"
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class RetryRun:
    """Open a new generation of a failed run without the failure that ended it, or from one failed step on."""

    step: str | None = None
    version: int | None = None
    definition: str | None = None
    """The digest of that version's definition."""
    lacks: str | None = None
    """Why nothing could ever go on with that version, as far as that is known."""
    ties: Ties | None = None
    """Of a plan: how its steps hang together, to be looked up for a step that is named."""
    name: ClassVar[str] = "retry"
    needs_steps: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Rerun:
    """Open a new generation of an ended run that keeps what came before a step; without one, it keeps nothing.

    Of a plan it keeps all that does not rest on the step.
    """

    from_step: str | None = None
    version: int | None = None
    definition: str | None = None
    """The digest of that version's definition."""
    lacks: str | None = None
    """As in a retry."""
    ties: Ties | None = None
    """As in a retry."""
    name: ClassVar[str] = "rerun"
    needs_steps: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Skip:
    """Let a step of a plan count as done, by hand, with an output; what rests on it is done with that."""

    step: str
    value: str
    """The output as stored JSON."""
    ties: Ties | None = None
    """As in a rerun."""
    misfit: str | None = None
    """Why the steps behind it could not read that, as far as that is known."""
    name: ClassVar[str] = "skip"
    needs_steps: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Rollback:
    """Take a run back to where a step had ended, or a record had been made, and hold it there."""

    step: str | None = None
    seq: int = 0
    """Without a step: the number of the last record that stays."""
    event: int | None = None
    """The number of the event that was asked for; `seq` is what it means."""
    state: str | None = None
    """The state that was asked for; `event` is when the run was last in it, None if it never was."""
    life: int | None = None
    """The newest generation of the run when that was looked up."""
    beyond: str | None = None
    """Why there is no way back to that event, if there is none."""
    ties: Ties | None = None
    """As in a rerun."""
    name: ClassVar[str] = "rollback"
    needs_steps: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Discard:
    """Put a dead letter aside: nobody will replay it."""

    name: ClassVar[str] = "discard"
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class TimeOut:
    """Fail a run whose deadline has passed."""

    verdict: DeadRun
    name: ClassVar[str] = "time_out"
    needs_steps: ClassVar[bool] = False


StepCommand = RetryRun | Rerun | Skip | Rollback
"""Those that may name a step: of a plan, with its ties."""

Command = (
    Cancel | Pause | Resume | StepCommand | Discard | TimeOut | ReviewCommand | ItemCommand | OutsideCommand | Annotate
)


class Request(NamedTuple):
    """A command for one run; `tenant` None may reach every tenant's runs."""

    run_id: RunId
    command: Command
    tenant: str | None = None
    actor: str | None = None
    reason: str | None = None
    key: str | None = None
    dry_run: bool = False
    """Judged as ever, and nothing is written; its key is neither looked up nor used."""

    @property
    def digest(self) -> str:
        """What must be the same when the key comes again."""
        # Two people who answer alike do not answer the same.
        who = {"actor": self.actor} if isinstance(self.command, Decide) else {}
        # Looked up for what was asked; who asks again may find more.
        asked = {name: value for name, value in asdict(_untied(self.command)).items() if name not in LOOKED_UP}
        return json.dumps({"run_id": self.run_id, **asked, **who}, sort_keys=True)


LOOKED_UP = frozenset({"definition", "lacks", "ties", "life", "beyond", "misfit"})


def _untied(command: Command) -> Command:
    """A command that is quick to turn into data."""
    if isinstance(command, Rollback) and command.state is not None:
        # When the run was last in that state is looked up, and is another moment once it is carried out.
        command = replace(command, seq=0, event=None)
    return replace(command, ties=None) if isinstance(command, StepCommand) else command


class StepMark(NamedTuple):
    """One record of a run that is not superseded, as far as commands go by it."""

    seq: int
    call: CallId
    state: StepState
    kind: str = ""


class LockedRun(NamedTuple):
    """A run as a command sees it while nobody else can change it."""

    run_id: RunId
    tenant: str
    workflow: str
    version: int
    kind: str
    code: str
    """What a worker must have to execute it."""
    input: str
    generation: int
    state: RunState
    task: TaskState | None
    """None: the run has ended."""
    hold: bool
    is_put_off: bool
    """It waits for nothing but a delay or a backoff that is not over."""
    error: str | None
    joins: Joins | None
    is_awaited: bool
    """Its parent still waits for the group that it belongs to."""
    has_letter: bool
    """Its newest generation is a dead letter that nobody has seen to."""
    steps: Sequence[StepMark] = ()
    """Loaded for commands that need them."""
    deadline_at: Instant | None = None
    has_begun: bool = True
    """A worker has claimed its present generation before."""
    leave: bool = False
    """It may outlive the run that started it."""
    definition: str | None = None
    """The digest of the definition that it is pinned to."""
    review: LockedReview | None = None
    """Loaded for commands that name one."""
    item: LockedItem | None = None
    """The same."""
    call: LockedCall | None = None
    """The same."""
    lacks_code: bool = False
    """It waits for code that fits its records."""


class Reopen(NamedTuple):
    """The next generation of an ended run: what it starts with, why, and the calls whose records count no more."""

    version: int
    code: str
    input: str
    cause: str
    superseded: tuple[CallId, ...]
    definition: str | None = None


class Change(NamedTuple):
    """The kernel's answer to a command: all that it writes."""

    state: RunState
    """What people see of the run afterwards."""
    events: tuple[Event, ...] = ()
    owed: tuple[Event, ...] = ()
    """Left in the inbox of a run that is held: its holder writes them when it has done what is asked."""
    hold: bool | None = None
    ready: bool = False
    outcome: Outcome | None = None
    dead_letter: DeadLetter | None = None
    reopen: Reopen | None = None
    records: tuple[Record, ...] = ()
    """Made by a person, of a run that nobody holds; they belong to the generation that is there afterwards."""
    superseded: tuple[CallId, ...] = ()
    """Of a run that goes on in its generation: the calls whose records count no more."""
    closed: tuple[int, ...] = ()
    """The waits of these calls."""
    resolution: str | None = None
    """What became of the run's dead letter."""
    review: ReviewChange | None = None
    item: ItemChange | None = None
    message: NewMessage | None = None
    refusal: StepfastError | None = None
    """The answer to a command that changed nothing, but is told of."""


def telling(run: LockedRun, events: tuple[Event, ...]) -> Change:
    """A run stays as it is, and something is told: of a run that a worker holds, that is left to the worker."""
    if run.task is TaskState.LEASED:
        return Change(run.state, owed=events)
    return Change(run.state, events)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a command did: the run's state afterwards, its generation, and its holder until then, if it had one."""

    run_id: RunId
    state: RunState
    generation: int
    queue: str
    at: Instant
    worker_id: WorkerId | None = None
    parent_id: RunId | None = None
    repeated: bool = False
    told: tuple[Event, ...] = field(default=(), compare=False)
    """The events that were written now; those that the run's holder owes are not among them."""


def command_event(
    event_type: EventType, request: Request, now: Instant, data: dict[str, object] | None = None
) -> Event:
    """What is told of a command: who gave it and why, and what it was about."""
    told = {name: value for name, value in {**(data or {}), "reason": request.reason}.items() if value is not None}
    return Event(event_type, now, actor=request.actor, data=json.dumps(told) if told else None)
