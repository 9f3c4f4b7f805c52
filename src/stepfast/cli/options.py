"""Options that commands share, and the kinds of values that they take."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid

Command = TypeVar("Command", bound=Callable[..., Any])

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KB|MB|GB)", re.IGNORECASE | re.ASCII)
_UNIT_BYTES = {"KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def span(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A span of time like "30s"; a bare number is seconds."""
    if value is None:
        return None
    text = f"{value}s" if value.isdecimal() else value
    try:
        span_ms(text, "it")
    except Invalid as error:
        raise click.BadParameter(str(error)) from None
    return text


def names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names with commas between them."""
    if value is None:
        return None
    given = [name.strip() for name in value.split(",")]
    if not all(given):
        raise click.BadParameter(f"{value!r} has an empty name; write them as a,b.")
    return tuple(dict.fromkeys(given))


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A number of bytes like "512MB"."""
    if value is None:
        return None
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no size; write it like 512MB or 2GB.")
    return round(float(match[1]) * _UNIT_BYTES[match[2].upper()])


_COMMON: dict[str, Callable[[Any], Any]] = {
    "database": click.option(
        "--database", metavar="URL", help="The database. [STEPFAST_DATABASE_URL, sqlite:///.stepfast/stepfast.db]"
    ),
    "app": click.option(
        "--app", metavar="MODULE:NAME", help="The app, also as FILE.py:NAME. [STEPFAST_APP, or pyproject.toml]"
    ),
    "tenant": click.option("--tenant", metavar="NAME", help="The tenant to speak for. [STEPFAST_TENANT, default]"),
    "output": click.option(
        "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The form of what is printed."
    ),
}


def common_options(*names: str) -> Callable[[Command], Command]:
    """Add the common options of these names (database, app, tenant, output) to a command."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = _COMMON[name](command)
        return command

    return decorate
