"""What commands print: JSON alone on stdout, or tables for people; values are shown, never interpreted."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stepfast.cli.output import output, put
from stepfast.kernel.durations import clock_parts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Wide enough for any row: ids must stay whole, and a terminal breaks long lines by itself.
UNCUT = 100_000

# What rich writes behind text that has a style.
_STYLE_END = "\x1b[0m"

_STYLES = {
    "completed": "green",
    "ok": "green",
    "alive": "green",
    "running": "cyan",
    "waiting": "yellow",
    "paused": "yellow",
    "warn": "yellow",
    "partial": "yellow",
    "failed": "bold red",
    "fail": "bold red",
    "dead": "red",
    "cancelled": "magenta",
}


def print_json(value: object) -> None:
    """One JSON value on stdout: on one line for programs, indented on a terminal."""
    put(json.dumps(value, indent=2 if output().isatty() else None))


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], to: Console | None = None) -> None:
    """Rows for people, on stdout unless told otherwise."""
    _print(table_of(head, rows), to or console(width=UNCUT))


def table_of(head: Sequence[str], rows: Iterable[Sequence[object]], whole: Collection[str] = ()) -> Table:
    """A table as wide as its widest rows; where that is too wide, columns are cut, and those of `whole` are not."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in head:
        # Columns that may wrap give way first; their cells, which do not, are cut then.
        table.add_column(name, no_wrap=not whole or name in whole, overflow="ellipsis")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one a line; what is None is left out."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, value in facts.items():
        if value is not None:
            table.add_row(name, _cell(value))
    _print(table, console(width=UNCUT))


def console(stderr: bool = False, width: int | None = None) -> Console:
    """A console that takes no text for markup; without a width it is as wide as the terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else output()
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """A word to the person at the terminal, apart from what was asked for."""
    for line in text.splitlines():
        click.echo(visible(line), err=True)


def visible(text: str) -> str:
    """A text on one line in which nothing can steer a terminal: control characters are written as escapes."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def shortened(text: str | None, length: int = 60) -> str:
    """The beginning of a long text."""
    text = text or ""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def moment(at: int | None) -> str:
    """A moment in UTC, to the second; one that no calendar has, put there by other means, as it is."""
    try:
        return "" if at is None else f"{datetime.fromtimestamp(at / 1_000, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return str(at)


def took(span_ms: int | None) -> str:
    """A span as people read it: 12ms, 3.4s, 5m10s, 2h05m, 3d04h."""
    if span_ms is None:
        return ""
    if span_ms < 1_000:
        return f"{max(span_ms, 0)}ms"
    if span_ms < 60_000:
        return f"{span_ms / 1_000:.1f}s"
    days, hours, minutes, seconds = clock_parts(span_ms)
    if days:
        return f"{days}d{hours:02}h"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s"


def _print(table: Table, to: Console) -> None:
    """Without the blanks that fill up the last column: a terminal would break them into empty lines."""
    with to.capture() as captured:
        to.print(table)
    for line in captured.get().splitlines():
        # It may be asked for colours where it is no terminal, by FORCE_COLOR: click alone would take them out.
        click.echo(_unfilled(line), file=to.file, color=to.is_terminal)


def _unfilled(line: str) -> str:
    # No pattern: one that looks for blanks at the end takes for ever over a value that is full of them.
    text = line.removesuffix(_STYLE_END)
    return text.rstrip(" ") + line[len(text) :]


def _cell(value: object) -> Any:
    from rich.text import Text

    text = visible("" if value is None else str(value))
    return Text(text, style=_STYLES.get(text, ""), no_wrap=True, overflow="ellipsis")
