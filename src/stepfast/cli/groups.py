"""Groups of commands that are known by name and summary; what one does is imported when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

import click


class Entry(NamedTuple):
    """A command before it is imported: where it is, as `module:name`, and its summary in one line."""

    place: str
    summary: str


class LazyGroup(click.Group):
    """Imports a command only when it is asked for, so that `--help` answers at once."""

    def __init__(
        self, *args: Any, entries: Mapping[str, Entry], aliases: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._entries = entries
        self._aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._entries.get(self._aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, name = entry.place.split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = [*self._entries, *self._aliases]
        if args[0] not in known and not args[0].startswith("-"):
            nearest = get_close_matches(args[0], known, 1)
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {nearest[0]!r}?" if nearest else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in sorted(self._entries.items())])
