"""The beginning of a report: which run it is, how it ended, who asked for it, and what kinds of trouble there were."""

from __future__ import annotations

from collections.abc import Iterator

from stepfast.kernel.events import EventType
from stepfast.kernel.generations import GenerationView
from stepfast.kernel.reconstruction import Reconstruction
from stepfast.kernel.states import ENDED, RunState
from stepfast.kernel.texts import counted
from stepfast.reports.blocks import Alarm, Block, Facts, Paragraph, Section, Table, Value, Words, code, strong
from stepfast.reports.texts import Times, listed, name, short, shown_value, span, told_by
from stepfast.reports.words import error_kind

MAX_GENERATIONS = 50

_ENDINGS = {
    RunState.COMPLETED: "The run completed",
    RunState.PARTIAL: "The run ended, and some of its steps had failed",
    RunState.FAILED: "The run failed",
    RunState.CANCELLED: "The run was called off",
}
_STANDINGS = {
    RunState.PENDING: "The run has not begun, or waits for its next attempt",
    RunState.RUNNING: "The run is under way",
    RunState.WAITING: "The run waits for something",
    RunState.PAUSED: "Somebody holds the run",
}
_CAUSES = {
    "retry": "tried again",
    "rerun": "done again",
    "rerun_from": "done again from a step on",
    "rollback": "taken back",
    "skip": "a step's output was given by hand",
    "continue_as": "the workflow began anew by itself",
}


def title(found: Reconstruction) -> str:
    """Which run it is."""
    return f"Report on run {name(found.run.run_id)} of {name(found.run.workflow)}"


def summary(found: Reconstruction, times: Times) -> Iterator[Block]:
    """The sentences that everybody reads, and the facts that tell the run from others."""
    yield Paragraph(outcome(found, times))
    yield Paragraph(request(found, times))
    yield from _alarms(found)
    yield Facts(list(_facts(found, times)))


def outcome(found: Reconstruction, times: Times) -> Words:
    """How it stands, in a sentence."""
    run = found.run
    if run.state not in ENDED:
        return (strong(f"{_STANDINGS[run.state]}."), f" Last change: {times.moment(run.updated_at)}.")
    took = "" if run.ended_at is None else f", {span(run.ended_at - run.queued_at)} after it was requested"
    why = _why(found)
    said = f" on {times.moment(run.ended_at)}{took}.{why}"
    return (strong(_ENDINGS[run.state]), said)


def _why(found: Reconstruction) -> str:
    run = found.run
    if run.state is RunState.CANCELLED:
        told = next((event for event in reversed(found.events) if event.type == EventType.CANCELLED), None)
        if told is None:
            return ""
        reason = told_by(told.data).get("reason")
        by = f" By {name(told.actor)}." if told.actor else ""
        return f"{by} Reason given: “{short(reason)}”." if reason else by
    if run.state is RunState.FAILED or (run.state is RunState.PARTIAL and run.error):
        return f" Cause: {error_line(run.error)}"
    return ""


def error_line(error: str | None) -> str:
    """A stored error in a line: its class and its message."""
    told = told_by(error)
    return f"{error_kind(told.get('type'))}: {short(told.get('message', ''))}"


def request(found: Reconstruction, times: Times) -> Words:
    """Who asked for it, when, and what for."""
    run = found.run
    by = f" by {name(run.actor)}" if run.actor else "; who asked for it was not said"
    about = f", about {name(run.subject)}" if run.subject else ""
    parent = f" It was started by run {name(run.parent_id)}." if run.parent_id else ""
    return f"It was requested on {times.moment(run.queued_at)}{by}{about}.{parent}"


def _alarms(found: Reconstruction) -> Iterator[Block]:
    if found.differences:
        told = listed([short(each) for each in found.differences[:5]])
        yield Alarm(f"The stored state is not what the events come to: {told}. Rows were changed by other means.")
    if found.state.damaged:
        count = counted(len(found.state.damaged), "event")
        yield Alarm(f"The data of {count} cannot be read; the engine does not write such data.")
    if not found.is_settled:
        yield Alarm("The run went on while this report was made; its parts may be of different moments.")
    if found.cut:
        yield Alarm(f"Not all of it was read: {listed([short(each) for each in found.cut[:10]])}.")


def _facts(found: Reconstruction, times: Times) -> Iterator[tuple[str, Words]]:
    run = found.run
    yield "Workflow", (code(name(run.workflow)), f", version {run.version}")
    yield "Run", code(name(run.run_id))
    yield "State", strong(run.state)
    yield "Tenant", name(run.tenant)
    for label, given in (
        ("Subject", run.subject),
        ("Requested by", run.actor),
        ("Key of the request", run.key),
        ("Thread", run.thread_id),
        ("Correlation id", run.correlation_id),
        ("Caused by", run.causation_id),
        ("Started by run", run.parent_id),
    ):
        if given:
            yield label, name(given)
    yield "Requested", times.moment(run.queued_at)
    if run.ended_at is not None:
        yield "Ended", f"{times.moment(run.ended_at)}, after {span(run.ended_at - run.queued_at)}"
    if found.definition is not None:
        yield "Definition", _definition(found, times)
    yield "Generations", f"{run.generation:,}"
    yield "Events", f"{len(found.events):,}, up to number {found.state.event:,}"


def _definition(found: Reconstruction, times: Times) -> Words:
    assert found.definition is not None
    by = f" by {name(found.definition.actor)}" if found.definition.actor else ""
    registered = f"registered{by} on {times.moment(found.definition.registered_at)}"
    return (f"{found.definition.kind}, {registered}, digest ", code(name(found.definition.digest)))


def values(found: Reconstruction, times: Times) -> Section:
    """What the run was given, what it gave back, and the lives that it had."""
    blocks: list[Block] = [value_block("Input", found.run.input)]
    if found.run.value is not None:
        blocks.append(value_block("Result", found.run.value))
    if found.run.error is not None:
        blocks.append(Paragraph(("Error: ", code(error_line(found.run.error)))))
    if found.run.metadata:
        blocks.append(value_block("Metadata", found.run.metadata))
    if len(found.generations) > 1:
        blocks += _generations(found, times)
    return Section("Input and result", blocks)


def value_block(label: str, text: str) -> Value:
    """A stored value under its title."""
    return Value(label, *shown_value(text))


def _generations(found: Reconstruction, times: Times) -> Iterator[Block]:
    yield Paragraph(
        "The run was opened more than once. Each time it kept what still counted and did the rest again; its result is "
        "that of its last generation."
    )
    rows = [_generation(each, times) for each in found.generations[:MAX_GENERATIONS]]
    yield Table("Generations", ("Generation", "Opened", "Because", "By", "Reason", "Ended as"), rows)
    if len(found.generations) > MAX_GENERATIONS:
        yield more(len(found.generations) - MAX_GENERATIONS, "generation")


def _generation(life: GenerationView, times: Times) -> tuple[Words, ...]:
    ended = "open" if life.state is None else f"{life.state}, {times.moment(life.ended_at)}"
    cause = _CAUSES.get(life.cause or "", name(life.cause or "requested"))
    return (
        *(str(life.generation), times.moment(life.opened_at), cause),
        *(name(life.actor or ""), short(life.reason or ""), ended),
    )


def more(number: int, noun: str, plural: str | None = None) -> Paragraph:
    """What a report has no room for."""
    return Paragraph(f"{counted(number, noun, plural)} more; the JSON form of the reconstruction has them all.")
