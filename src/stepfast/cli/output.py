"""Where goes what a command was asked for: to stdout, which is its alone once user code may be there."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDOUT = 1

# Where a context keeps the stream; all contexts of a command share what they keep.
_KEPT = "stepfast.output"


def output() -> TextIO:
    """The stream for what was asked for."""
    ctx = click.get_current_context(silent=True)
    kept: TextIO | None = None if ctx is None else ctx.meta.get(_KEPT)
    return kept or sys.stdout


def put(text: str = "", end: str = "\n") -> None:
    """Write a text that was asked for."""
    click.echo(text + end, file=output(), nl=False)


def keep_stdout() -> None:
    """Keep stdout for what was asked for: from here on, what anybody else prints there goes to stderr.

    Those are modules of the user's, steps, libraries in C that they call, and processes that they start.
    """
    ctx = click.get_current_context()
    if _KEPT not in ctx.meta:
        ctx.meta[_KEPT] = _moved(sys.stdout)
        sys.stdout = sys.stderr


def _moved(stdout: TextIO) -> TextIO:
    """The same way out by a number that nobody else knows; that of stdout leads to stderr from here on."""
    others = _number(sys.stderr)
    if _number(stdout) != STDOUT or others is None:
        # Somebody has put a stream of his own there, which no C library and no other process can write to.
        return stdout
    stdout.flush()
    own = os.dup(STDOUT)
    os.dup2(others, STDOUT)
    return os.fdopen(own, "w", encoding=stdout.encoding, errors=stdout.errors)


def _number(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except io.UnsupportedOperation:
        return None


class _Unheld(io.BufferedWriter):
    """Keeps nothing back, and writes all that it is given or raises."""

    def write(self, content: ReadableBuffer, /) -> int:
        written = super().write(content)
        self.flush()
        return written


def write_whole() -> None:
    """Have long texts written to their end where PYTHONUNBUFFERED is set: Python alone drops what a pipe did not take
    at once, and whoever reads no further would not be noticed."""
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper) and isinstance(stdout.buffer, io.RawIOBase):
        raw = io.FileIO(stdout.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(_Unheld(raw), stdout.encoding, stdout.errors, write_through=True)


def refuse_unread() -> None:
    """Raise what a write would where whoever read what is printed has gone: there may be nothing to print for long."""
    reader = select.poll()
    reader.register(_number(output()) or STDOUT, 0)
    if any(happened & select.POLLERR for _, happened in reader.poll(0)):
        raise BrokenPipeError


def write_no_more() -> None:
    """What is left in buffers cannot be written either, and must not be tried again at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _number(output()) or STDOUT)
    os.close(nowhere)
