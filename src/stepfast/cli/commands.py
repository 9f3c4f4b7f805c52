"""The commands: their names and summaries; what one does is imported when it is called."""

from __future__ import annotations

import importlib

import click

from stepfast.cli.exits import exit_code_of
from stepfast.kernel.errors import StepfastError

COMMANDS = {
    "demo": ("stepfast.cli.demo:demo", "Watch a workflow survive the kill -9 of its worker."),
    "migrate": ("stepfast.cli.migrate:migrate", "Bring the schema of the database up to date."),
    "worker": ("stepfast.cli.worker:worker", "Run a worker: claim runs and execute them until told to stop."),
}


class LazyGroup(click.Group):
    """Imports a command only when it is asked for, so that `--help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in sorted(COMMANDS.items())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stepfast", message="stepfast %(version)s")
def cli() -> None:
    """Stepfast: durable workflows in plain Python."""


def run() -> int:
    """Run the command that was given; errors of ours become one line and an exit code."""
    try:
        cli(prog_name="stepfast")
    except StepfastError as error:
        click.echo(f"{error.code}: {error}", err=True)
        return exit_code_of(error)
    return 0
