"""The states of runs, steps and tasks, and the only moves between them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stepfast.kernel.errors import IllegalMove


class RunState(StrEnum):
    """What people see of a run; derived from its rows by the view `run_state`."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepState(StrEnum):
    """What a step's newest record says of it."""

    PENDING = "pending"
    BLOCKED = "blocked"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class TaskState(StrEnum):
    """Where the task of an unended run stands in the line."""

    READY = "ready"
    LEASED = "leased"
    WAITING = "waiting"


class WaitKind(StrEnum):
    """What kind of thing a waiting run waits for."""

    DELAY = "delay"
    BACKOFF = "backoff"
    TIME = "time"
    SIGNAL = "signal"
    REVIEW = "review"
    CHILDREN = "children"
    OUTSIDE = "outside"
    CODE = "code"


ENDED = frozenset({RunState.COMPLETED, RunState.PARTIAL, RunState.FAILED, RunState.CANCELLED})
OPEN = frozenset(RunState) - ENDED
GOOD_ENDS = frozenset({RunState.COMPLETED, RunState.PARTIAL})
"""The ends that have a result, and that a parent counts as good."""
STEP_ENDED = frozenset({StepState.COMPLETED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED})
# What a run that is tried again begins anew: it was under way when the run failed, was called off, or was not done
# for what came of others.
STEP_CUT_OFF = frozenset(StepState) - STEP_ENDED | {StepState.CANCELLED, StepState.SKIPPED}

# A run that waits for nothing but its own next try has not gone on since it was queued: people see it as pending.
PENDING_WAITS = frozenset({WaitKind.DELAY, WaitKind.BACKOFF})


class Move(NamedTuple):
    """A named change of a run's state."""

    name: str
    sources: frozenset[RunState]
    targets: frozenset[RunState]
    meaning: str


States = frozenset[RunState] | RunState


def _move(name: str, sources: States, targets: States, meaning: str) -> Move:
    return Move(name, _set(sources), _set(targets), meaning)


def _set(states: States) -> frozenset[RunState]:
    return frozenset({states}) if isinstance(states, RunState) else states


_S = RunState

RUN_MOVES: tuple[Move, ...] = (
    _move("claim", frozenset({_S.PENDING, _S.RUNNING}), _S.RUNNING, "a worker takes the run"),
    _move("hand_back", _S.RUNNING, _S.RUNNING, "its worker gives the run back unharmed, or was lost"),
    _move("wait", _S.RUNNING, _S.WAITING, "every branch of the run waits"),
    _move("back_off", _S.RUNNING, _S.PENDING, "the next try comes later"),
    _move("wake", frozenset({_S.WAITING, _S.PENDING}), _S.RUNNING, "what the run waited for has come"),
    _move("signal", OPEN, OPEN, "something from outside was stored for the run"),
    _move("pause", OPEN - {_S.PAUSED}, _S.PAUSED, "a person holds the run"),
    _move("resume", _S.PAUSED, OPEN - {_S.PAUSED}, "the hold ends; the wait underneath goes on"),
    _move("complete", _S.RUNNING, _S.COMPLETED, "the code returned"),
    _move("complete_partly", _S.RUNNING, _S.PARTIAL, "the code ended with failures that it was told to bear"),
    _move("fail", OPEN - {_S.PAUSED}, _S.FAILED, "the code raised, a deadline passed or the crash budget is spent"),
    _move("time_out", OPEN, _S.FAILED, "the run's deadline has passed"),
    _move("cancel", OPEN, _S.CANCELLED, "somebody called it off"),
    _move("continue_as", _S.RUNNING, _S.PENDING, "a new generation with new input and no records"),
    _move("retry", frozenset({_S.FAILED, _S.PARTIAL}), _S.PENDING, "a new generation without the failures of the last"),
    _move("retry_open", _S.WAITING, _S.RUNNING, "a run that waits for code looks again at what there is"),
    _move("rerun", ENDED, _S.PENDING, "a new generation that keeps what came before a chosen step"),
    _move("skip", frozenset({_S.FAILED, _S.PARTIAL}), _S.PENDING, "a new generation in which a step is done by hand"),
    _move(
        "skip_open",
        frozenset({_S.WAITING, _S.PAUSED}),
        frozenset({_S.RUNNING, _S.PAUSED}),
        "a person does a step by hand, and the run need not wait for it",
    ),
    _move(
        "rollback",
        ENDED | {_S.WAITING, _S.PAUSED},
        _S.PAUSED,
        "what ended after a chosen moment counts no more, and the run is held there",
    ),
)

_MOVE_BY_NAME = {move.name: move for move in RUN_MOVES}

_NEXT_STEP = {
    RunState.CANCELLED: "Start it again with `stepfast runs rerun {run_id}`.",
    RunState.COMPLETED: "It is final; `stepfast runs rerun {run_id}` opens a new generation.",
    RunState.PARTIAL: "It is final; `stepfast runs retry {run_id}` does the steps that failed again.",
    RunState.FAILED: "Open a new generation with `stepfast runs retry {run_id}`.",
    RunState.PAUSED: "Let it go on first with `stepfast runs resume {run_id}`.",
    RunState.PENDING: "See what it waits for with `stepfast runs why {run_id}`.",
    RunState.RUNNING: "See what it does with `stepfast runs show {run_id}`.",
    RunState.WAITING: "See what it waits for with `stepfast runs why {run_id}`.",
}

_DONE_TO_IT = {
    "claim": "claimed",
    "hand_back": "handed back",
    "wait": "parked",
    "back_off": "put off",
    "wake": "woken",
    "signal": "signalled",
    "pause": "paused",
    "resume": "resumed",
    "complete": "completed",
    "complete_partly": "completed in part",
    "fail": "failed",
    "time_out": "timed out",
    "cancel": "cancelled",
    "continue_as": "continued",
    "retry": "retried",
    "retry_open": "retried",
    "rerun": "rerun",
    "skip": "gone on with by hand",
    "skip_open": "gone on with by hand",
    "rollback": "rolled back",
}


def is_legal(state: RunState, move: str) -> bool:
    """Whether a run in this state may make the named move."""
    return state in _MOVE_BY_NAME[move].sources


def check_move(run_id: str, state: RunState, move: str) -> None:
    """Refuse a move that the table does not hold, naming the run, its state and the next step."""
    if is_legal(state, move):
        return
    raise IllegalMove(
        f"Run {run_id} is {state}, so it cannot be {_DONE_TO_IT[move]}. {_NEXT_STEP[state].format(run_id=run_id)}"
    )
