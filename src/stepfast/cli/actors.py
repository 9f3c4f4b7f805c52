"""Who gives a command and why: kept in the history of the runs that it changes."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def actor_options(command: Command) -> Command:
    """Add `--actor`."""
    return click.option(
        "--actor", "asked_by", metavar="NAME", default=_user, help="Who asks for it. [the name you are logged in by]"
    )(command)


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that no name belongs to.
        return None
