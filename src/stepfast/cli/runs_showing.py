"""`stepfast runs show`, `events`, `watch` and `why`: one run from near."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.errors import errors_of, print_errors
from stepfast.cli.filters import page_options
from stepfast.cli.following import follow
from stepfast.cli.output import put, refuse_unread
from stepfast.cli.paging import Listing, numeric_cursor, print_page
from stepfast.cli.printing import (
    moment,
    print_facts,
    print_json,
    print_table,
    say,
    shortened,
    took,
    visible,
)
from stepfast.cli.shapes import error_line, event_object, object_of, run_object
from stepfast.kernel.annotations import AnnotationView
from stepfast.kernel.artifacts import ArtifactView
from stepfast.kernel.reasons import Why
from stepfast.kernel.states import ENDED, RunState, StepState
from stepfast.kernel.views import EventView, Progress, RunView, StepView

SHOWN_STEPS = 100
SHOWN_ANNOTATIONS = 20
PAGE = 1_000


@click.command()
@with_client
@click.argument("run")
def show(client: Client, run: str) -> None:
    """One run with its steps, artifacts, annotations and errors; `-o json` has its input, values and errors whole."""

    async def read(app: Stepfast) -> tuple[RunView, list[StepView], list[ArtifactView], list[AnnotationView]]:
        handle = await client.handle(app, run)
        return await handle.info(), await handle.steps(), await handle.artifacts(), await handle.annotations()

    view, steps, artifacts, noted = client.perform(read)
    if client.is_json:
        kept = {"artifacts": [each._asdict() for each in artifacts], "annotations": [object_of(each) for each in noted]}
        print_json({**run_object(view, steps), **kept})
        return
    print_facts(_facts(view))
    if steps:
        put()
        _print_steps(steps, is_over=view.state in ENDED)
    if artifacts:
        put()
        print_table(("artifact", "step", "type", "bytes", "saved"), map(_artifact_row, artifacts))
    if noted:
        put()
        print_table(("annotation", "value", "scope", "step", "actor"), map(_annotation_row, noted[-SHOWN_ANNOTATIONS:]))
    print_errors(errors_of(view, steps))


@click.command()
@with_client
@click.argument("run")
@click.option("--after", type=click.IntRange(0), default=0, help="Events after this number. [0]")
@click.option("--type", "types", metavar="NAME", multiple=True, help="Events of this type; may be given several times.")
@page_options(PAGE)
def events(client: Client, run: str, after: int, types: tuple[str, ...], limit: int, cursor: str | None) -> None:
    """The history of a run, oldest first; `stepfast runs watch` shows events as they come."""
    begin = after if cursor is None else max(after, numeric_cursor(cursor))

    async def read(app: Stepfast) -> list[EventView]:
        handle = await client.handle(app, run)
        if not types:
            return await handle.history(after=begin, limit=limit + 1)
        found: list[EventView] = []
        last = begin
        while len(found) <= limit and (page := await handle.history(after=last, limit=PAGE)):
            found += [event for event in page if event.type in types]
            last = page[-1].seq
        return found[: limit + 1]

    head = ("seq", "at", "event", "step", "attempt", "actor", "data")
    listing = Listing(event_object, head, _event_row, "No events.", cursor_of=lambda event: event.seq)
    print_page(client.perform(read), limit, listing, client.is_json)


@click.command()
@with_client
@click.argument("run")
@click.option("--after", type=click.IntRange(0), default=0, help="Events after this number. [0]")
def watch(client: Client, run: str, after: int) -> None:
    """The events of a run as they come, until it ends; with `-o json` one object a line."""

    async def stream(app: Stepfast) -> RunState:
        handle = await client.handle(app, run)
        async for event in follow(handle, after, refuse_unread):
            put(json.dumps(event_object(event)) if client.is_json else event_line(event))
        return (await handle.info()).state

    say(f"The run is {client.perform(stream)}.")


@click.command()
@with_client
@click.argument("run")
def why(client: Client, run: str) -> None:
    """What a run waits for, and who or what can move it."""

    async def read(app: Stepfast) -> Why:
        return await (await client.handle(app, run)).why()

    answer = client.perform(read)
    if client.is_json:
        print_json({**answer._asdict(), "reasons": [reason._asdict() for reason in answer.reasons]})
        return
    # Line by line: what people wrote, a reason or a name, must not pass for a reason of its own by an end of line.
    for line in answer.lines:
        put(visible(line))


def event_line(event: EventView) -> str:
    """An event on one line."""
    parts = (f"{event.seq:>4}", moment(event.at), f"{event.type:<15}", event.step, _attempt(event), event.data)
    return visible("  ".join(part for part in parts if part)).rstrip()


def _artifact_row(found: ArtifactView) -> tuple[object, ...]:
    return (found.name, found.step, found.media_type, f"{found.size:,}", moment(found.saved_at))


def _annotation_row(noted: AnnotationView) -> tuple[object, ...]:
    return (noted.name, shortened(noted.value), noted.scope, noted.step, noted.actor)


def _attempt(event: EventView) -> str | None:
    return f"attempt {event.attempt}" if event.attempt and event.attempt > 1 else None


def _event_row(event: EventView) -> tuple[object, ...]:
    return (event.seq, moment(event.at), event.type, event.step, event.attempt, event.actor, event.data)


def _facts(view: RunView) -> dict[str, object]:
    lasted = None if view.ended_at is None else took(view.ended_at - view.queued_at)
    return {
        "run": view.run_id,
        "tenant": view.tenant,
        "workflow": f"{view.workflow}@{view.version}",
        "state": view.state,
        "generation": view.generation if view.generation > 1 else None,
        "queue": view.queue,
        "priority": view.priority or None,
        "queued": moment(view.queued_at),
        "ended": f"{moment(view.ended_at)} (took {lasted})" if view.ended_at else None,
        "progress": _progress(view.progress),
        "worker": view.worker_id,
        "crashes": view.crashes or None,
        "key": view.key,
        "actor": view.actor,
        "parent": view.parent_id,
        "correlation id": view.correlation_id,
        "thread id": view.thread_id,
        "subject": view.subject,
        "tags": ", ".join(view.tags) or None,
        "metadata": view.metadata,
        "input": view.input,
        "result": view.value,
        "error": error_line(view.error),
    }


def _progress(said: Progress | None) -> str | None:
    if said is None:
        return None
    amount = f"{said.done:,}" if said.total is None else f"{said.done:,} of {said.total:,}"
    return f"{amount}: {said.note}" if said.note else amount


def _print_steps(steps: Sequence[StepView], is_over: bool) -> None:
    shown = steps[-SHOWN_STEPS:]
    if len(shown) < len(steps):
        say(f"The last {SHOWN_STEPS} of {len(steps):,} records; `-o json` has all.")
    head = ("seq", "step", "kind", "state", "attempt", "took", "value or error")
    last = {step.call: step.seq for step in steps}
    print_table(head, [_step_row(step, _outcome(step, last[step.call], is_over)) for step in shown])


def _outcome(step: StepView, last_seq: int, is_over: bool) -> str:
    """What came of an attempt: between two of them a step is pending, and the attempt itself has failed."""
    if step.state is not StepState.PENDING or step.error is None:
        return step.state
    if last_seq > step.seq:
        return "failed, tried again"
    return "failed, not tried again" if is_over else "failed, to be tried again"


def _step_row(step: StepView, outcome: str) -> tuple[object, ...]:
    state = outcome if step.superseded_by is None else f"{outcome}, superseded"
    answer = error_line(step.error) or step.value
    lasted = took(step.ended_at - step.started_at)
    return (step.seq, step.call.address, step.kind, state, step.attempt, lasted, shortened(answer))
