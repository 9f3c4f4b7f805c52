"""The engine's own log: named events with fields, sent through the standard logging module.

Nothing here adds a handler: an application configures the logger `stepfast` as any other, the command line its own.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple

from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.errors import StepfastError

ROOT = "stepfast"
Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
# So long after a line about a failure the next of its kind; twice as long after each.
QUIET_S, LONGEST_QUIET_S = 30, 600


class LogEvent(NamedTuple):
    """A name that lines of the log carry, and what it tells."""

    level: str
    meaning: str


_SELDOM = "While it stays so lines become seldom, as those of `heartbeat_failed`."

EVENTS = {
    "answer_failed": LogEvent("error", "What follows from a commit failed for one run; the others are not concerned."),
    "blobs_away": LogEvent("warning", "The blob store cannot be reached; the run with a large value waits for it."),
    "blobs_swept": LogEvent("info", "Large values that no row mentions, left behind by crashes, were removed."),
    "claim_failed": LogEvent(
        "warning", "The store did not hand out runs; the worker asks again at the next poll. " + _SELDOM
    ),
    "callback_refused": LogEvent(
        "warning", "somebody called back with a token that was refused; which, and for which run, is not told"
    ),
    "code_stays": LogEvent(
        "warning",
        "Code catches what ends it when its run waits or is let go of, as a bare `except:` does; write "
        "`except Exception:`. The run is not concerned; the code, of `def` with its thread, stays in the process.",
    ),
    "commit_failed": LogEvent(
        "error", "A commit failed for a reason the store should have named; its runs are let go."
    ),
    "deadline_missed": LogEvent("error", "The worker did not come to its end in time after a signal and was ended."),
    "heartbeat_failed": LogEvent(
        "warning",
        "The store did not answer a heartbeat; the next one follows soon. While it stays so lines become "
        "seldom: after 30 s, 1 min, 2 min, at most 10 min, with the number of `failures` since the last one.",
    ),
    "hint_failed": LogEvent("error", "A hint to other processes could not be sent; they look by themselves."),
    "hints_unheard": LogEvent(
        "warning",
        "Hints of other processes cannot be heard, behind a pooler or where the folder beside a SQLite file belongs to "
        "another user: this one looks by itself, at each poll.",
    ),
    "hints_lost": LogEvent(
        "warning",
        "Hints of other processes cannot be heard for now, at STEPFAST_DATABASE_DIRECT_URL if that is set; until "
        "`hints_returned` the process looks by itself, at each poll.",
    ),
    "hints_returned": LogEvent("info", "Hints of other processes can be heard again."),
    "listener_failed": LogEvent("error", "A function that hears of runs raised; the run is not concerned."),
    "memory_too_small": LogEvent(
        "error", "A worker needs more memory to begin than it may have at all, and leaves with 1: raise the setting."
    ),
    "message_not_handled": LogEvent("error", "A queue's message for a run could not be handled; it comes again."),
    "outcome_not_saved": LogEvent(
        "warning", "A run's end, or its hand-back, could not be saved; upkeep looks after it."
    ),
    "plugin_failed": LogEvent("warning", "What an installed package brings could not be used; the others are."),
    "process_ended": LogEvent("warning", "A worker process died; another takes its place after a pause."),
    "process_left_runs": LogEvent(
        "warning", "A worker process that was asked to leave did not hand its runs back; they wait for its lease."
    ),
    "process_replaced": LogEvent("info", "A worker process reached its number of runs or memory and is replaced."),
    "migration_waits": LogEvent("warning", "Somebody else migrates the database; it is told who, and waited for."),
    "process_started": LogEvent("info", "The supervisor started a worker process."),
    "results_failed": LogEvent(
        "warning", "The store did not tell the results somebody waits for; they are asked again. " + _SELDOM
    ),
    "run_handed_back": LogEvent("error", "A run met trouble that is not its own and goes back to the line."),
    "run_let_go": LogEvent("warning", "The worker holds the run no longer: another one or a command has it."),
    "run_not_executed": LogEvent("error", "A run could not be executed; it is taken back after the worker's lease."),
    "run_waits_for_code": LogEvent("error", "The code does not fit the run's records; it waits for other code."),
    "runs_not_handed_back": LogEvent(
        "error", "A worker ends without a word to the store; its runs go on elsewhere when its lease is over."
    ),
    "runs_ended": LogEvent("warning", "Upkeep ended runs past their deadline, or children that nobody will join."),
    "runs_recovered": LogEvent("warning", "Runs of dead workers went back to the line, or failed for good."),
    "setting_without_effect": LogEvent("warning", "A setting is of a part to come, and changes nothing yet."),
    "setting_unknown": LogEvent("warning", "A setting has a name that nothing reads; the nearest known name is given."),
    "store_away": LogEvent("warning", "The store cannot be reached; decisions wait for it."),
    "drain_left_runs": LogEvent(
        "warning",
        "A drain is over although workers whose lease has ended still hold runs; any later worker takes them.",
    ),
    "drain_waits": LogEvent(
        "warning", "A drain waits until it may give back what workers hold whose lease has ended: which, and how long."
    ),
    "errand_failed": LogEvent(
        "warning", "Something a worker did on the side failed; it is done again with the next beat."
    ),
    "publishing_failed": LogEvent("warning", "Publishing to a sink failed; the next pass follows. " + _SELDOM),
    "sink_away": LogEvent("warning", "A sink has taken nothing; it is tried again after a pause."),
    "events_not_taken": LogEvent(
        "warning", "A sink did not take an event; its run, the first of `count`, waits and is tried again."
    ),
    "sink_letter_recorded": LogEvent(
        "warning", "A sink did not take an event however often it was offered; it is a dead letter of the sink."
    ),
    "event": LogEvent("info", "An event of a run, where the log is a sink."),
    "pruning_failed": LogEvent("warning", "Letting runs go that were kept long enough failed; the next pass follows."),
    "sealing_failed": LogEvent("warning", "Sealing the audit trail failed; the next pass follows."),
    "sweep_failed": LogEvent("warning", "A look for large values that no row mentions failed; the next one follows."),
    "token_refused": LogEvent("warning", "Somebody answered a review with what is no token of any run."),
    "unknown_runs_given_back": LogEvent("warning", "The store listed runs as held here that are not; they went back."),
    "worker_not_retired": LogEvent("warning", "A worker could not say that it left; its lease will tell."),
    "upkeep_failed": LogEvent("warning", "An upkeep pass failed; the next one follows. " + _SELDOM),
    "worker_buried": LogEvent("warning", "Another worker's lease ran out: it counts as dead."),
    "worker_lost_runs": LogEvent("warning", "The worker dropped all its runs: it was buried, or cut off too long."),
    "definition_not_compiled": LogEvent("warning", "A registered workflow cannot be executed here: what is missing."),
    "definitions_not_read": LogEvent("warning", "What is newly registered could not be read; it is tried again."),
    "worker_not_enrolled": LogEvent("warning", "The worker could not announce itself again; it tries further."),
    "worker_outgrown": LogEvent("info", "A worker holds more memory than it was allowed, and leaves."),
    "worker_returned": LogEvent("info", "A worker that was buried goes on under a new id."),
    "worker_started": LogEvent(
        "info", "A worker begins to claim: what it serves, and where; `concurrency` is of all queues."
    ),
    "worker_stopped": LogEvent("info", "A worker has handed back what it held and left."),
    "worker_stopping": LogEvent("info", "A worker claims no more: a signal came, or its work is done."),
}


class Line:
    """An event and its fields, as one line of text: `run_let_go run_id=01… reason="…"`."""

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{name}={_plain(value)}" for name, value in self.fields.items())])


class Log:
    """Writes named events; what the names mean is in `EVENTS`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{ROOT}.{name}")

    def debug(self, event: str, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """An error with the traceback of the exception that is being handled."""
        self._write(logging.ERROR, event, fields, exc_info=True)

    def failure(self, event: str, error: Exception, **fields: Any) -> None:
        """A warning of an error that says itself what is wrong; of any other, an error with its traceback."""
        if isinstance(error, StepfastError):
            self._write(logging.WARNING, event, {**fields, "error": error})
        else:
            self._write(logging.ERROR, event, fields, exc_info=error)

    def _write(self, level: int, event: str, fields: dict[str, Any], exc_info: bool | Exception = False) -> None:
        self._logger.log(level, Line(event, fields), exc_info=exc_info, stacklevel=3)


class Failures:
    """What fails again and again: the first time is told at once, and those of one reason behind it together.

    A store that is away fails several calls a second; a line for each would bury what else the log has to tell.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._reason = ""
        self._quiet_until = 0.0
        self._quiet_s = QUIET_S
        self._untold = 0

    def add(self, error: Exception) -> int:
        """Count one more; how many there are to tell of now, 0 while it is too early for another line."""
        now, reason = self._now(), f"{type(error).__name__}: {error}"
        if reason != self._reason:
            self.end()
        elif now < self._quiet_until:
            self._untold += 1
            return 0
        told, self._untold = self._untold + 1, 0
        self._reason, self._quiet_until = reason, now + self._quiet_s
        self._quiet_s = min(self._quiet_s * 2, LONGEST_QUIET_S)
        return told

    def end(self) -> None:
        """It has worked: the next failure is the first of others."""
        self._reason, self._quiet_s, self._untold = "", QUIET_S, 0


def about(run: HeldRun) -> dict[str, Any]:
    """The fields by which a line is found that speaks of a run."""
    return {"run_id": run.run_id, "tenant": run.tenant, "worker_id": run.worker_id}


class TextFormatter(logging.Formatter):
    """One line for people: moment, level, event, fields; a traceback below it."""

    def __init__(self) -> None:
        super().__init__("%(moment)s %(level)-7s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.moment, record.level = _moment(record), record.levelname.lower()
        return super().format(record)

    def formatException(self, ei: Raised) -> str:
        """The traceback, whose last lines are whatever the error says."""
        return "\n".join(map(_visible, super().formatException(ei).split("\n")))


class JsonFormatter(logging.Formatter):
    """One JSON object for each line, the event's fields beside its name."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": _moment(record), "level": record.levelname.lower(), "logger": record.name, **_content(record)}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _content(record: logging.LogRecord) -> dict[str, Any]:
    if isinstance(record.msg, Line):
        return {"event": record.msg.event, **record.msg.fields}
    return {"message": record.getMessage()}


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if text and text.isprintable() and not set(text) & set(' "='):
        return text
    # Quoted, so that a line stays one line whatever a message holds.
    return _visible(json.dumps(text, ensure_ascii=False))


def _visible(line: str) -> str:
    """Without what steers a terminal, or ends a line for some readers alone, which JSON leaves as it is."""
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)
