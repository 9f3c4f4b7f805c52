"""The `stepfast` command: its groups and options; what a command does is imported when it is called."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

COMMANDS = {"demo": "stepfast.cli.demo:demo"}


class LazyGroup(click.Group):
    """Imports a command only when it is asked for, so that `--help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(SUMMARIES.items()))


SUMMARIES = {"demo": "Watch a workflow survive the kill -9 of its worker."}


@click.group(cls=LazyGroup)
@click.version_option(package_name="stepfast", message="stepfast %(version)s")
def cli() -> None:
    """Stepfast: durable workflows in plain Python."""


def main() -> Any:
    """Entry point of the `stepfast` command."""
    return cli(prog_name="stepfast")


if __name__ == "__main__":
    sys.exit(main())
