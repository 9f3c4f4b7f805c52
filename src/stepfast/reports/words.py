"""Events in the words of people who do not program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from stepfast.kernel.annotations import is_by_code
from stepfast.kernel.decisions import CallId
from stepfast.kernel.events import EventType
from stepfast.kernel.plan_control import SEGMENT, owner_of
from stepfast.kernel.texts import class_name
from stepfast.kernel.views import EventView
from stepfast.reports.texts import Times, is_damaged, name, short, told_by

Told = Mapping[str, Any]

_ADDRESS = re.compile(r"(?:(?P<path>[^/]*)/)?(?P<name>.*)#(?P<count>\d+)", re.DOTALL)
_BRANCH = re.compile(r"[\d.]+")
_CALLS = {"ask": "the question", "review": "the decision"}
_WAITED = {
    "sleep": "for a span of time",
    "signal": "for a signal",
    "review": "for a person",
    "outside": "for work outside",
    "backoff": "before the next attempt",
    "code": "for code that fits",
    "delay": "for its time to begin",
}
_RESOLVED = {
    "continue": "a person let it go on",
    "reject": "a person rejected it",
    "correct": "a person corrected it",
    "retry": "a person had it done again",
    "expired": "nobody answered in time",
    "withdrawn": "nobody waited for it any more",
    "replayed": "it was done again",
    "discarded": "it was put aside",
    "taken up": "a worker had code that fits",
}
_KINDS = {
    "review_required": "a person is asked",
    "failed": "something failed for good",
    "blocked": "no code fits",
    "low_confidence": "an outcome is not sure",
    "policy_conflict": "a policy says no",
}


def step_name(address: str | None) -> str:
    """A call as people name it: its name, the item that it is for, and which one of them if it is not the first."""
    if not address:
        return ""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return name(address)
    which = "" if found["count"] == "1" else f", call {found['count']}"
    path = found["path"] or ""
    if not path or _BRANCH.fullmatch(path):
        return f"{name(_CALLS.get(found['name'], found['name']))}{which}{f' in branch {name(path)}' if path else ''}"
    # The path of a plan: the ids of the steps around, with the keys of items.
    owner = owner_of(CallId(path, found["name"], 1))
    called = _CALLS.get(found["name"], found["name"])
    items = "".join(f", item {key}" for _, key in SEGMENT.findall(path) if key)
    return name(f"{owner if called == owner else f'{called} of {owner}'}{items}{which}")


def sentence(event: EventView, times: Times) -> str:
    """What an event tells, as a sentence; who did it and why stands in it."""
    if is_damaged(event.data):
        return f"{name(event.type)}: what was stored with this event cannot be read."
    told = told_by(event.data)
    make = _SENTENCES.get(event.type)
    if make is None:
        return f"The workflow told of {name(event.type)}{_at_step(event)}."
    try:
        said = make(event, told, times)
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError):
        return f"{name(event.type)}: what was stored with this event is not as expected."
    reason = told.get("reason")
    told_why = event.type not in _REASON_TOLD and reason
    return f"{said} Reason given: “{short(reason)}”." if told_why else said


def resolution(given: str | None) -> str:
    """What became of an exception item."""
    return _RESOLVED.get(given or "", short(given or "it is open"))


def kind_of_item(kind: str) -> str:
    """Why something is in the exception queue."""
    return _KINDS.get(kind, short(kind))


def owner(told: Told) -> str:
    """Whom a review is for."""
    person, role = told.get("assignee"), told.get("role")
    if person and role:
        return f"{name(person)}, as {name(role)}"
    if person:
        return name(person)
    return f"anybody who is {name(role)}" if role else "anybody"


def doer(event: EventView) -> str:
    """Who did it; what the code of a run notes is noted by the run or its step, whoever has asked for it."""
    is_code = event.type == EventType.ANNOTATED and is_by_code(event.attempt, told_by(event.data))
    return "" if is_code else name(event.actor or "")


def error_kind(stored: object) -> str:
    """The class of an error without the module that it comes from."""
    return name(class_name(str(stored or "an error")))


def _by(event: EventView) -> str:
    return f" by {name(event.actor)}" if event.actor else ""


def _who(event: EventView, nobody: str = "Somebody who gave no name") -> str:
    return name(event.actor) if event.actor else nobody


def _step(event: EventView) -> str:
    return f"Step “{step_name(event.step)}”" if event.step else "The run"


def _what(event: EventView) -> str:
    return f"step “{step_name(event.step)}”" if event.step else "the run"


def _at_step(event: EventView) -> str:
    return f" at “{step_name(event.step)}”" if event.step else ""


def _attempt(event: EventView) -> str:
    return f", attempt {event.attempt}" if event.attempt and event.attempt > 1 else ""


def _worker(told: Told) -> str:
    return name(told.get("label") or told.get("worker") or "unknown")


def _queued(event: EventView, told: Told, times: Times) -> str:
    return f"The run was requested{_by(event)}: {name(told['workflow'])}, version {told['version']}."


def _waiting(event: EventView, told: Told, times: Times) -> str:
    if told.get("kind") == "code":
        return f"The run waits for code that fits what is recorded: {short(told.get('reason', ''))}"
    return "The run pauses before its next attempt." if told.get("kind") == "backoff" else "The run waits."


def _step_waiting(event: EventView, told: Told, times: Times) -> str:
    kind = str(told.get("kind", ""))
    if kind == "children":
        return f"{_step(event)} waits for runs of “{short(told.get('name', ''))}” that it has started."
    which = f" “{short(told['name'])}”" if told.get("name") and kind == "signal" else ""
    return f"{_step(event)} waits {_WAITED.get(kind, short(kind))}{which}."


def _retry_scheduled(event: EventView, told: Told, times: Times) -> str:
    what = _step(event) if event.step else "The whole run"
    return f"{what} is to be tried again at {times.moment(told['due_at'])}."


def _failed(event: EventView, told: Told, times: Times) -> str:
    return f"The run failed for good: {error_kind(told.get('error_type'))}: {short(told.get('message', ''))}"


def _retried(event: EventView, told: Told, times: Times) -> str:
    where = f" from step “{step_name(str(told['step']))}”" if told.get("step") else ""
    return f"{_who(event)} had the run tried again{where}; {told.get('superseded', 0)} earlier results no longer count."


def _rerun(event: EventView, told: Told, times: Times) -> str:
    where = f" from step “{step_name(str(told['from_step']))}”" if told.get("from_step") else " from its beginning"
    return f"{_who(event)} had the run done again{where}; {told.get('superseded', 0)} earlier results no longer count."


def _rolled_back(event: EventView, told: Told, times: Times) -> str:
    where = short(told.get("to", ""))
    counted = told.get("superseded", 0)
    return f"{_who(event)} took the run back to {where} and held it there; {counted} later results no longer count."


def _skipped(event: EventView, told: Told, times: Times) -> str:
    if told.get("by_hand"):
        return f"{_who(event)} gave the output of step “{step_name(event.step)}” by hand."
    return f"{_step(event)} was not done: {short(told.get('reason') or 'nothing said why')}."


def _requested(event: EventView, told: Told, times: Times) -> str:
    return f"A decision was asked for of {owner(told)}: “{short(told.get('title', ''))}”."


def _answered(event: EventView, told: Told, times: Times) -> str:
    return f"{_who(event)} answered “{told['verdict']}”{_noted(told)}; others have to answer as well."


def _decided(event: EventView, told: Told, times: Times) -> str:
    return f"{_who(event)} decided “{told['verdict']}”{_noted(told)}."


def _noted(told: Told) -> str:
    return f" and wrote “{short(told['note'])}”" if told.get("note") else ""


def _expired(event: EventView, told: Told, times: Times) -> str:
    counts = f"; “{told['verdict']}” counts instead" if told.get("verdict") else ""
    return f"Nobody decided in time{counts}."


def _escalated(event: EventView, told: Told, times: Times) -> str:
    return f"The decision was passed on to {owner(told)}{_by(event)}{_noted(told)}."


def _issued(event: EventView, told: Told, times: Times) -> str:
    bearer, until = name(told["bearer"]), times.moment(told["expires_at"])
    return f"{bearer} was given a token to answer with, good until {until}."


def _submitted(event: EventView, told: Told, times: Times) -> str:
    outcome = told["outcome"]
    if outcome == "accepted":
        return f"{_who(event)} answered with a token."
    return f"{_who(event)} showed a token that was refused: {name(outcome)}."


def _called_back(event: EventView, told: Told, times: Times) -> str:
    said = {"complete": "done", "fail": "failed"}.get(str(told["outcome"]))
    if said is None:
        return f"Somebody said what became of outside work, and was refused: {name(told['outcome'])}."
    return f"Outside work of “{step_name(event.step)}” was reported as {said}."


def _progress(event: EventView, told: Told, times: Times) -> str:
    total = f" of {told['total']}" if told.get("total") is not None else ""
    note = f": {short(told['note'])}" if told.get("note") else ""
    return f"{_step(event)} has got to {told.get('done')}{total}{note}."


def _annotated(event: EventView, told: Told, times: Times) -> str:
    fact = f"{name(told['key'])} is {short(json.dumps(told.get('value'), ensure_ascii=False))}."
    if is_by_code(event.attempt, told):
        return f"{_step(event) if event.step else 'The workflow'} noted: {fact}"
    where = f" on step “{step_name(event.step)}”" if event.step else ""
    return f"Noted{_by(event)}{where}: {fact}"


def _plain(text: str) -> Callable[[EventView, Told, Times], str]:
    return lambda event, told, times: text


_SENTENCES: dict[str, Callable[[EventView, Told, Times], str]] = {
    EventType.TEMPLATE_REGISTERED: lambda event, told, times: f"The workflow was registered{_by(event)}.",
    EventType.RETENTION_CHANGED: lambda event, told, times: f"How long runs are kept was changed{_by(event)}.",
    EventType.PRUNED: lambda event, told, times: (
        f"{told.get('count', 'Some')} runs that had ended were let go{_by(event)}."
    ),
    EventType.SINK_REMOVED: lambda event, told, times: f"A sink of events was removed{_by(event)}.",
    EventType.QUEUED: _queued,
    EventType.CLAIMED: lambda event, told, times: f"Worker {_worker(told)} took the run.",
    EventType.STARTED: _plain("Its code began."),
    EventType.WAITING: _waiting,
    EventType.PAUSED: lambda event, told, times: f"{_who(event)} held the run.",
    EventType.RESUMED: lambda event, told, times: f"{_who(event, 'The engine')} let the run go on.",
    EventType.RETRY_SCHEDULED: _retry_scheduled,
    EventType.RETRIED: _retried,
    EventType.RERUN: _rerun,
    EventType.ROLLED_BACK: _rolled_back,
    EventType.SIGNALLED: lambda event, told, times: f"{_who(event)} sent the signal “{short(told['name'])}”.",
    EventType.REAPED: lambda event, told, times: (
        f"Worker {_worker(told)} was found dead; the run went back to the line."
    ),
    EventType.HANDED_BACK: lambda event, told, times: (
        f"The run went back to the line: {short(told.get('reason', ''))}."
    ),
    EventType.CONTINUED: _plain("The workflow began anew with other input, as the next generation of the same run."),
    EventType.COMPLETED: _plain("The run completed."),
    EventType.PARTIAL: _plain("The run ended, and some of its steps have failed."),
    EventType.CANCELLED: lambda event, told, times: f"{_who(event)} called the run off.",
    EventType.DLQ_PENDING: _plain("The run is to become a dead letter."),
    EventType.DLQ_RECORDED: _plain("The run is a dead letter: somebody should look at it."),
    EventType.DLQ_DISCARDED: lambda event, told, times: f"{_who(event)} put the dead letter aside.",
    EventType.FAILED: _failed,
    EventType.STEP_STARTED: lambda event, told, times: f"{_step(event)} began{_attempt(event)}.",
    EventType.STEP_PROGRESS: _progress,
    EventType.STEP_WAITING: _step_waiting,
    EventType.STEP_COMPLETED: lambda event, told, times: f"{_step(event)} is done{_attempt(event)}.",
    EventType.STEP_FAILED: lambda event, told, times: f"{_step(event)} failed{_attempt(event)}.",
    EventType.STEP_SKIPPED: _skipped,
    EventType.STEP_CANCELLED: lambda event, told, times: f"{_step(event)} was called off.",
    EventType.STEP_UNDONE: lambda event, told, times: f"{_step(event)} took back what was done.",
    EventType.REVIEW_REQUESTED: _requested,
    EventType.REVIEW_ANSWERED: _answered,
    EventType.REVIEW_DECIDED: _decided,
    EventType.REVIEW_EXPIRED: _expired,
    EventType.REVIEW_ESCALATED: _escalated,
    EventType.REVIEW_ASSIGNED: lambda event, told, times: f"The decision was given to {owner(told)}{_by(event)}.",
    EventType.REVIEW_COMMENTED: lambda event, told, times: f"{_who(event)} commented on the decision.",
    EventType.TOKEN_ISSUED: _issued,
    EventType.RESUME_SUBMITTED: _submitted,
    EventType.CALLBACK_SUBMITTED: _called_back,
    EventType.EXCEPTION_OPENED: lambda event, told, times: (
        f"People should look at {_what(event)}: {kind_of_item(str(told.get('kind')))}."
    ),
    EventType.EXCEPTION_ASSIGNED: lambda event, told, times: (
        f"{name(told.get('assignee') or 'Nobody in particular')} is to see to it."
    ),
    EventType.EXCEPTION_COMMENTED: lambda event, told, times: f"{_who(event)} commented on it.",
    EventType.EXCEPTION_RESOLVED: lambda event, told, times: (
        f"What people should look at, {_what(event)}, is settled: {resolution(str(told.get('resolution')))}."
    ),
    EventType.ANNOTATED: _annotated,
}

# Where the reason is a part of the sentence already, or says how the engine did it.
_REASON_TOLD = frozenset({EventType.WAITING, EventType.HANDED_BACK, EventType.STEP_SKIPPED})
