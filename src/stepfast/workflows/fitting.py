"""Does today's code fit what a run has done so far? Replays a run in memory: nothing is written, and no body runs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn, cast

from stepfast.kernel.decisions import HeldRun, History, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NonDeterminism, StepfastError, WrongCall
from stepfast.kernel.events import Event
from stepfast.kernel.retry import Retry
from stepfast.kernel.states import STEP_ENDED
from stepfast.workflows.calls import Asked
from stepfast.workflows.code_threads import CodeThreads
from stepfast.workflows.context import RunContext
from stepfast.workflows.perform import Ending, Performance, Raised, Returned, ReturnedInPart, Stopped
from stepfast.workflows.registry import Executable
from stepfast.workflows.stay import Host


class Verdict(StrEnum):
    """What replaying a run with today's code shows."""

    FITS = "fits"
    """The code makes all the calls that were recorded, and goes on from there."""
    ADDED_STEP = "added_step"
    """The code makes a call that was never recorded before others that were; it will be done, then those are found."""
    DROPPED_WAIT = "dropped_wait"
    """The code goes on without a call that had not ended: nobody will take what it waits for."""
    MISMATCH = "mismatch"
    """The code does not make the calls that were recorded: the run would wait for other code."""
    UNKNOWN_CODE = "unknown_code"
    """There is no such workflow and version here."""
    NOT_COMPILED = "not_compiled"
    """The workflow is registered, and something that it needs is not here, or no longer fits it."""
    UNREADABLE = "unreadable"
    """A large value of the run is not in the blob store, or is damaged there: nobody can tell what the code does."""


GOOD = frozenset({Verdict.FITS, Verdict.ADDED_STEP, Verdict.DROPPED_WAIT})


class Fit(NamedTuple):
    """How a run and today's code get on: at which step they part, and what is wrong there."""

    verdict: Verdict
    step: str | None = None
    detail: str = ""
    ending: Ending | None = None

    @property
    def is_good(self) -> bool:
        """Whether the run can go on with this code."""
        return self.verdict in GOOD

    def __str__(self) -> str:
        place = f" at {self.step}" if self.step else ""
        return f"{self.verdict}{place}: {self.detail}" if self.detail else f"{self.verdict}{place}"


async def fit(workflow: Executable, run: HeldRun, history: History) -> Fit:
    """Replay a run with a workflow's code as far as its records go, and say whether the two fit."""
    try:
        workflow.arguments.decode(run.input)
    except StepfastError as error:
        return Fit(Verdict.MISMATCH, None, f"The stored input no longer fits: {error}")
    if not history.records:
        return Fit(Verdict.FITS)
    threads = CodeThreads("stepfast-fitting")
    try:
        rehearsal = Rehearsal(run, workflow, History(history.records, [], []), NOTHING, threads, ReplayOnly)
        return rehearsal.judge(await rehearsal.performed())
    finally:
        threads.shutdown()


class Still(Exception):
    """The code has come to where the run's records end."""


class ReplayOnly(RunContext):
    """A run's context that answers from records alone: whatever was never recorded is noted, and not begun."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.not_recorded: list[str] = []
        self.last_asked: str | None = None

    @property
    def is_replaying(self) -> bool:
        # Nothing that the code tells here is for anybody's ears.
        return True

    def left_out(self) -> list[Record]:
        """The records that the code should have asked for, and has not."""
        return self._replay.left_out()

    def _find(self, asked: Asked) -> Record | None:
        if self.stopped_by is None:
            # Calls that were made side by side are looked up to the last, also behind the one that does not fit.
            self.last_asked = asked.call.address
        return super()._find(asked)

    def _answer_from(self, record: Record, asked: Asked) -> None:
        self.last_asked = asked.call.address
        super()._answer_from(record, asked)

    def _begin(self, asked: Asked, record: Record | None) -> None:
        if asked.answer.done():
            self._open.pop(asked.call, None)
        elif record is None:
            self.not_recorded.append(asked.call.address)

    def park_when_still(self) -> None:
        # The thread of a `def` workflow computes on while nothing is asked.
        if self._open or self.loop.tasks:
            self.stop(Still())


class Rehearsal(Performance):
    """A performance of a run before empty seats."""

    _context: ReplayOnly

    def judge(self, ending: Ending) -> Fit:
        """What the end of the rehearsal says of the code."""
        match ending:
            case Stopped(Still()):
                return self._judge_rest()
            case Stopped(error):
                return Fit(Verdict.MISMATCH, self._culprit(), str(error), ending)
            case Raised(WrongCall() as error):
                return Fit(Verdict.MISMATCH, self._context.last_asked, str(error), ending)
        # An end with calls left out that had ended is refused, here as at a worker.
        left = self._context.left_out()
        return _dropped(left[0], ending) if left else Fit(Verdict.FITS, None, _told(ending), ending)

    def _culprit(self) -> str | None:
        """What the code asked for last, or, if it asked for nothing, what it should have asked for first."""
        left = self._context.left_out()
        return self._context.last_asked or (left[0].call.address if left else None)

    def _judge_rest(self) -> Fit:
        left, added = self._context.left_out(), self._context.not_recorded
        if not left:
            return Fit(Verdict.FITS)
        ended = [record for record in left if record.state in STEP_ENDED]
        if added:
            return _added(added[0], ended, left[0])
        return _left_out(ended[0]) if ended else _dropped(left[0], None)


def _added(step: str, ended: Sequence[Record], waiting: Record) -> Fit:
    named = ", ".join(record.call.address for record in ended[:3])
    left = f"the code comes to {waiting.call.address} after it, which still waits, or goes on without that"
    after = f"the code must come to {named} after it" if ended else left
    return Fit(Verdict.ADDED_STEP, step, f"Step {step} was never recorded, and will be done first; {after}.")


def _left_out(record: Record) -> Fit:
    step = record.call.address
    error = NonDeterminism(f"Step {step} was recorded as {record.state}, but the code waits without asking for it.")
    return Fit(Verdict.MISMATCH, step, str(error))


def _dropped(record: Record, ending: Ending | None) -> Fit:
    step, where = record.call.address, "waits" if ending is None else "ends"
    detail = f"Step {step} is {record.state}, and the code {where} without asking for it: nobody will take its end."
    return Fit(Verdict.DROPPED_WAIT, step, f"{detail} {_told(ending)}".strip(), ending)


def _told(ending: Ending | None) -> str:
    match ending:
        case Raised(error):
            return f"The code raises {type(error).__name__} next."
        case Returned() | ReturnedInPart():
            return "The code returns next."
    return ""


class Refusing:
    """In place of everything that a run would write with, or do something with."""

    def now(self) -> Instant:
        return Instant(0)

    def ride(self, run: HeldRun, event: Event) -> None:
        """Nobody listens."""

    def __getattr__(self, name: str) -> NoReturn:
        raise StepfastError(f"A replay that only looks tried to use {name}; it must not write or do anything.")


_REFUSING = Refusing()
NOTHING = Host(
    recorder=cast(Any, _REFUSING),
    clock=cast(Any, _REFUSING),
    threads=cast(Any, _REFUSING),
    default_retry=Retry(),
    store=cast(Any, _REFUSING),
    values=cast(Any, _REFUSING),
    change=cast(Any, _REFUSING),
    delivered=cast(Any, _REFUSING),
)
