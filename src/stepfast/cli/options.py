"""Options that commands share, and the kinds of values that they take."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from stepfast.kernel.durations import MAX_SPAN_MS, in_seconds, span_ms
from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import check_text, shown
from stepfast.worker.settings import Bounds

# Where a context keeps that somebody asked for tracebacks; all contexts of a command share what they keep.
DEBUG = "stepfast.debug"

Command = TypeVar("Command", bound=Callable[..., Any])

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KB|MB|GB)", re.IGNORECASE | re.ASCII)
_UNIT_BYTES = {"KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def span_of(bounds: Bounds) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A span of time like "30s"; a bare number is seconds. Whether it lies in the bounds is for the setting to say."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value is None:
            return None
        text = in_seconds(value)
        try:
            span_ms(text)
        except Invalid:
            raise click.BadParameter(f"{shown(value)} does not fit; allowed is {bounds.as_text}.") from None
        return text

    return read


span = span_of(Bounds(0, MAX_SPAN_MS))


def names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names with commas between them."""
    if value is None:
        return None
    given = [name.strip() for name in value.split(",")]
    if not all(given):
        raise click.BadParameter(f"{value!r} has an empty name; write them as a,b.")
    return tuple(dict.fromkeys(_text(name) for name in given))


def text(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A short text that every store can hold."""
    return None if value is None else _text(value)


def roles(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of roles of a database server, each once."""
    return tuple(dict.fromkeys(_text(name) for name in value))


def _text(value: str) -> str:
    try:
        return check_text("it", value)
    except Invalid as error:
        raise click.BadParameter(str(error)) from None


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A number of bytes like "512MB"."""
    if value is None:
        return None
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no size; write it like 512MB or 2GB.")
    given = round(float(match[1]) * _UNIT_BYTES[match[2].upper()])
    if given < _UNIT_BYTES["MB"]:
        raise click.BadParameter(f"{value!r} is too little; give at least 1MB.")
    return given


def _note_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DEBUG] = True


def _tenant_options(command: Command) -> Command:
    command = click.option("--all-tenants", is_flag=True, help="Speak for all tenants.")(command)
    return click.option("--tenant", metavar="NAME", help="The tenant to speak for. [STEPFAST_TENANT, default]")(command)


_COMMON: dict[str, Callable[[Any], Any]] = {
    "database": click.option(
        "--database", metavar="URL", help="The database. [STEPFAST_DATABASE_URL, sqlite:///.stepfast/stepfast.db]"
    ),
    "app": click.option(
        "--app", metavar="MODULE:NAME", help="The app, also as FILE.py:NAME. [STEPFAST_APP, or pyproject.toml]"
    ),
    "tenant": _tenant_options,
    "output": click.option(
        "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The form of what is printed."
    ),
    "timeout": click.option("--timeout", metavar="SPAN", callback=span, help="Give up after this time, with code 124."),
    "debug": click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_note_debug,
        help="Show the traceback of an error. [STEPFAST_LOG=debug]",
    ),
}


def common_options(*names: str) -> Callable[[Command], Command]:
    """Add the common options of these names (database, app, tenant, output, timeout, debug) to a command."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = _COMMON[name](command)
        return command

    return decorate
