"""Options that choose runs or dead letters, and the moments that they take."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid
from stepfast.kernel.numbers import MAX_NUMBER, check_whole
from stepfast.kernel.states import RunState

Command = TypeVar("Command", bound=Callable[..., Any])


def moment_of(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A moment as milliseconds: a span back from now like "2h", or a date and time like 2026-03-01T12:00 in UTC."""
    if value is None:
        return None
    try:
        return time.time_ns() // 1_000_000 - span_ms(value)
    except Invalid:
        pass
    try:
        given = datetime.fromisoformat(value)
    except ValueError:
        complaint = f"{value!r} is no moment; write a span back from now like 2h, or 2026-03-01T12:00."
        raise click.BadParameter(complaint) from None
    return round((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1_000)


_RUN_FILTERS = (
    click.option("--workflow", metavar="NAME", help="Runs of this workflow."),
    click.option("--state", type=click.Choice([state.value for state in RunState]), help="Runs in this state."),
    click.option("--queue", metavar="NAME", help="Runs of this queue."),
    click.option("--tag", metavar="TAG", help="Runs with this tag."),
    click.option("--correlation-id", metavar="ID", help="Runs with this correlation id."),
    click.option("--subject", metavar="TEXT", help="Runs about this subject."),
    click.option("--thread-id", metavar="ID", help="Runs of this thread."),
    click.option("--since", "queued_after", metavar="WHEN", callback=moment_of, help="Runs stored since then."),
    click.option("--changed-since", "updated_after", metavar="WHEN", callback=moment_of, help="Changed since then."),
)
_OF_LISTS = (
    click.option("--version", type=click.IntRange(1), help="Runs of this version."),
    click.option("--started-by", "actor", metavar="NAME", help="Runs that this actor started."),
)
# Of a command `--version` and the actor are its own.
_OF_COMMANDS = (
    click.option("--of-version", type=click.IntRange(1), help="Runs of this version."),
    click.option("--started-by", "of_actor", metavar="NAME", help="Runs that this actor started."),
)
# The options of commands that choose runs, each with the filter that it sets.
COMMAND_FILTERS = {
    "workflow": "workflow",
    "state": "state",
    "queue": "queue",
    "tag": "tag",
    "correlation_id": "correlation_id",
    "subject": "subject",
    "thread_id": "thread_id",
    "queued_after": "queued_after",
    "updated_after": "updated_after",
    "of_version": "version",
    "of_actor": "actor",
}

_LETTER_FILTERS = (
    click.option("--workflow", metavar="NAME", help="Dead letters of this workflow."),
    click.option(
        "--step",
        metavar="STEP",
        help="Dead letters that failed in this step: its name, or its address for one call of it.",
    ),
    click.option(
        "--error", "error_type", metavar="TYPE", help="Dead letters with this error, by name or as module:name."
    ),
    click.option("--since", "recorded_after", metavar="WHEN", callback=moment_of, help="Recorded since then."),
)
LETTER_FILTERS = {name: name for name in ("workflow", "step", "error_type", "recorded_after")}


def run_filters(command: Command) -> Command:
    """Add the options that choose the runs of a list."""
    return _with((*_RUN_FILTERS, *_OF_LISTS), command)


def command_filters(command: Command) -> Command:
    """Add the options that choose the runs that a command is for."""
    return _with((*_RUN_FILTERS, *_OF_COMMANDS), command)


def letter_filters(command: Command) -> Command:
    """Add the options that choose dead letters."""
    return _with(_LETTER_FILTERS, command)


def group_option(command: Command) -> Command:
    """Add the option that chooses equal failures."""
    return click.option("--group", metavar="GROUP", help="Equal failures: the id that `groups` shows, or their shape.")(
        command
    )


def page_options(limit: int | None) -> Callable[[Command], Command]:
    """Add `--limit` and `--cursor`."""
    shown = "all" if limit is None else limit
    options = (
        click.option(
            "--limit", type=click.IntRange(1), default=limit, callback=_page_size, help=f"How many at most. [{shown}]"
        ),
        click.option("--cursor", metavar="CURSOR", help="Go on where an earlier answer ended."),
    )
    return lambda command: _with(options, command)


def _page_size(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Refuse too much in the words that were given: lists ask the store for one more."""
    return None if value is None else check_whole("limit", value, 1, MAX_NUMBER - 1)


def _with(options: tuple[Callable[[Command], Command], ...], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
