"""The command line as a whole: its commands, and how an error of ours ends one."""

from __future__ import annotations

import io
import os
import sys
import traceback
from difflib import get_close_matches
from typing import Any

import click

from stepfast.cli.exits import ERROR, UNREAD, exit_code_of
from stepfast.cli.groups import Entry, LazyGroup
from stepfast.cli.options import DEBUG
from stepfast.cli.output import write_no_more, write_whole
from stepfast.cli.printing import say
from stepfast.cli.signals import INTERRUPTION
from stepfast.kernel.errors import StepfastError

COMMANDS = {
    "assets": Entry("stepfast.cli.families:assets", "Content that outlives runs, and who has read and written it."),
    "audit": Entry("stepfast.cli.families:audit", "Prove that the history of all runs is what was written."),
    "bench": Entry("stepfast.cli.bench:bench", "Measure what a database gives, in a scratch place of its own."),
    "dead-letters": Entry("stepfast.cli.families:dead_letters", "Runs that failed for good: look, replay, discard."),
    "demo": Entry("stepfast.cli.demo:demo", "Watch a workflow survive the kill -9 of its worker."),
    "doctor": Entry("stepfast.cli.doctor:doctor", "Examine database, schema, workers and runs."),
    "exceptions": Entry("stepfast.cli.families:exceptions", "What a person should look at: list, assign, resolve."),
    "executors": Entry("stepfast.cli.families:executors", "What steps can call by name, and whether it works."),
    "migrate": Entry("stepfast.cli.migrate:migrate", "Bring the schema of the database up to date."),
    "queues": Entry("stepfast.cli.families:queues", "The queues that have open runs."),
    "callbacks": Entry("stepfast.cli.families:callbacks", "End the outside work of steps by their tokens."),
    "retention": Entry("stepfast.cli.families:retention", "How long runs are kept: list, set and remove policies."),
    "reviews": Entry("stepfast.cli.families:reviews", "What runs ask of people: look, answer, statistics."),
    "run": Entry("stepfast.cli.run:run", "Run a workflow of a file here and now, and print its result."),
    "runs": Entry("stepfast.cli.families:runs", "List, watch, start and change runs."),
    "sinks": Entry("stepfast.cli.families:sinks", "Where events are published to, and what was not taken."),
    "worker": Entry("stepfast.cli.worker:worker", "Run a worker: claim runs and execute them until told to stop."),
    "workers": Entry("stepfast.cli.families:workers", "The workers that are alive, and those that died lately."),
    "workflows": Entry("stepfast.cli.families:workflows", "The workflows of an app, and who can execute them."),
}
ALIASES = {"dead": "dead-letters"}


class CommandLine(LazyGroup):
    """The outermost group: an error of ours ends in one line with its code, and in the exit code that belongs to it."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the options; `--help` and `--version` are answered here already."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except OSError as error:
            sys.exit(_broken_off(error))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _with_near_names(error) from None
        except StepfastError as error:
            _show_traceback(ctx, error)
            say(f"{error.code}: {error}")
            ctx.exit(exit_code_of(error))
        except OSError as error:
            ctx.exit(_broken_off(error, ctx))
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTION.exit_code)
        except click.Abort as abort:
            # A question that is answered by Ctrl-C ends so too; click keeps what it was in the context.
            if not isinstance(abort.__context__, KeyboardInterrupt):
                raise
            ctx.exit(INTERRUPTION.exit_code)


def _broken_off(error: OSError, ctx: click.Context | None = None) -> int:
    """The exit code for something that could not be written, or read; without a word where nobody reads any more."""
    write_no_more()
    if isinstance(error, BrokenPipeError):
        return UNREAD
    if ctx is not None:
        _show_traceback(ctx, error)
    say(f"The command could not go on: {type(error).__name__}: {error}")
    return ERROR


def _with_near_names(error: click.NoSuchOption) -> click.NoSuchOption:
    """The same with those names alone that are near without their dashes, which all of them share."""
    near = [name for name in error.possibilities or () if get_close_matches(_bare(error.option_name), [_bare(name)])]
    return click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)


def _bare(option: str) -> str:
    return option.lstrip("-")


def _show_traceback(ctx: click.Context, error: Exception) -> None:
    if DEBUG in ctx.meta or os.environ.get("STEPFAST_LOG", "").startswith("debug"):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)


@click.group(
    cls=CommandLine, entries=COMMANDS, aliases=ALIASES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="stepfast", message="stepfast %(version)s")
def cli() -> None:
    """Stepfast: durable workflows in plain Python."""


def run() -> int:
    """Run the command that was given; click ends the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character gets its number; it is no reason to break off.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    write_whole()
    cli(prog_name="stepfast")
    return 0
