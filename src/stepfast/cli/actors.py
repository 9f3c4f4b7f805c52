"""Who gives a command and why: kept in the history of the runs that it changes."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any, TypeVar

import click

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import check_text

Command = TypeVar("Command", bound=Callable[..., Any])


def actor_options(command: Command) -> Command:
    """Add `--actor`."""
    return click.option(
        "--actor", "asked_by", metavar="NAME", default=_user, help="Who asks for it. [the name you are logged in by]"
    )(command)


def _user() -> str | None:
    try:
        return check_text("actor", getpass.getuser())
    except (OSError, KeyError, Invalid):
        # A container may run under a number that no name belongs to, and a name may be none that can be stored: nobody
        # has given it, so that nobody can be asked to leave it out.
        return None
