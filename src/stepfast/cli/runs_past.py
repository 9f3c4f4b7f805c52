"""`stepfast runs at` and `reconstruct`: a run as it was, and all that is known of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import CLIENT_OPTIONS, Client, with_client
from stepfast.cli.options import common_options
from stepfast.cli.output import put
from stepfast.cli.printing import moment, print_facts, print_json, print_table, say, shortened
from stepfast.cli.shapes import error_line
from stepfast.kernel.numbers import written

# Slow to import for a command line that shows its help.
if TYPE_CHECKING:
    from stepfast.kernel.rebuilt import Rebuilt, RebuiltStep
    from stepfast.kernel.reconstruction import Reconstruction
    from stepfast.kernel.views import StepView
    from stepfast.moments import Moment

SHOWN_STEPS = 100


@click.command()
@with_client
@click.argument("run")
@click.argument("when", metavar="EVENT|TIME")
def at(client: Client, run: str, when: str) -> None:
    """A run as of one of its events, by its number, or as of a moment: its state, and what its steps had come to.

    A moment is written as 2026-11-16T09:30:00; without a zone, like +01:00, it is UTC.
    """
    event = written(when)
    time = None if event is not None else _time(when)

    async def read(app: Stepfast) -> Moment:
        return await (await client.handle(app, run)).at(event, time=time)

    found = client.perform(read)
    if client.is_json:
        print_json(found.plain())
        return
    print_facts(_facts(found.state) | {"event": f"{found.state.event} of {found.last_event}"})
    _print_steps(found.state, {record.call.address: record for record in found.records})


FORMS = ("table", "json", "md", "html")


def _with_forms(command: Callable[..., None]) -> Callable[..., None]:
    """The common options, with the forms of a report among those of the answer."""

    @common_options("database", "app", "tenant", "timeout", "debug")
    @click.option(
        "-o", "--output", type=click.Choice(FORMS), default="table", help="The form: md and html are whole reports."
    )
    @functools.wraps(command)
    def call(**options: Any) -> None:
        given = {name: options.pop(name) for name in CLIENT_OPTIONS}
        command(Client(**given), given["output"], **options)

    return call


@click.command()
@_with_forms
@click.option("--tz", metavar="ZONE", default="UTC", help="The time zone of a report, like Europe/Berlin. [UTC]")
@click.argument("run")
def reconstruct(client: Client, output: str, run: str, tz: str) -> None:
    """All that is known of a run: its history, steps with values, reviews, exceptions, children, lineage.

    `-o json` has everything; `-o md` and `-o html` are reports for people who do not program.
    """
    if output in ("md", "html"):

        async def write(app: Stepfast) -> str:
            run_id = (await client.find(app, run)).run_id
            return await app.audit.report(run_id, output, tz=tz, tenant=client.tenant)

        put(client.perform(write))
        return

    async def read(app: Stepfast) -> Reconstruction:
        return await (await client.handle(app, run)).reconstruct()

    found = client.perform(read)
    _warn(found)
    if client.is_json:
        print_json(found.plain())
        return
    print_facts(_whole_facts(found))
    _print_steps(found.state, {step.call.address: step for step in found.steps if step.superseded_by is None})


def _warn(found: Reconstruction) -> None:
    for difference in found.differences:
        say(f"The rows and the events of the run differ: {difference}.")
    for number in found.state.damaged:
        say(f"The data of event {number} cannot be read; it is not what was written.")
    for cut in found.cut:
        say(f"Not read: {cut}.")
    if not found.is_settled:
        say("The run went on while it was read: parts of it may be of different moments.")


def _facts(state: Rebuilt) -> dict[str, object]:
    waits = [f"{wait.kind} {wait.name}".strip() + (f" ({wait.step})" if wait.step else "") for wait in state.waits]
    progress = state.progress
    return {
        "run": state.run_id,
        "at": moment(state.at),
        "state": state.state,
        "generation": state.generation,
        "worker": state.worker_id,
        "crashes": state.crashes or None,
        "waits for": ", ".join(waits) or None,
        "open reviews": ", ".join(state.reviews) or None,
        "open exceptions": ", ".join(f"{item.kind} ({item.step or item.cause})" for item in state.items) or None,
        "progress": None if progress is None else f"{progress.done} of {progress.total}".removesuffix(" of None"),
        "ended": moment(state.ended_at) or None,
        "error": state.error,
    }


def _whole_facts(found: Reconstruction) -> dict[str, object]:
    counts = {
        "events": len(found.events),
        "generations": len(found.generations),
        "reviews": len(found.reviews),
        "exceptions": len(found.exceptions),
        "dead letters": len(found.dead_letters),
        "children": len(found.children),
        "annotations": len(found.annotations),
        "lineage": len(found.lineage),
        "artifacts": len(found.artifacts),
    }
    run = {"workflow": f"{found.run.workflow}@{found.run.version}", "tenant": found.run.tenant}
    values = {"input": shortened(found.run.input), "result": shortened(found.run.value) or None}
    return _facts(found.state) | run | values | {name: count or None for name, count in counts.items()}


def _print_steps(state: Rebuilt, records: dict[str, StepView]) -> None:
    steps = [*state.superseded, *state.steps]
    if not steps:
        return
    if len(steps) > SHOWN_STEPS:
        say(f"The last {SHOWN_STEPS} of {len(steps):,} steps; `-o json` has all.")
    put()
    head = ("step", "state", "attempt", "generation", "began", "ended", "value or error")
    print_table(head, [_row(step, records.get(step.address)) for step in steps[-SHOWN_STEPS:]])


def _row(step: RebuiltStep, record: StepView | None) -> tuple[object, ...]:
    is_gone = step.superseded_by is not None
    known = None if is_gone or record is None else record
    answer = None if known is None else error_line(known.error) or known.value
    state = f"{step.state}, superseded" if is_gone else step.state
    times = (moment(step.started_at), moment(step.ended_at))
    return (step.address, state, step.attempt, step.generation, *times, shortened(answer))


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither the number of an event nor a moment; write one like 2026-11-16T09:30:00.",
            param_hint="EVENT|TIME",
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
