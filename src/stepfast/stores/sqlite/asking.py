"""Asking a connection: named statements, rows, single values, and the moment of a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import apsw

from stepfast.kernel.durations import Instant
from stepfast.stores.statements import load_statements

Row = tuple[Any, ...]
Bindings = Row | dict[str, Any]

_clocks: WeakKeyDictionary[apsw.Connection, Callable[[], int]] = WeakKeyDictionary()


def statements(file: str) -> dict[str, str]:
    """The statements of one of this store's files; one may hold others of them, by their names in braces."""
    found = load_statements("stepfast.stores.sqlite", f"sql/{file}.sql")
    return {name: text.format_map(found) for name, text in found.items()}


def fetch(connection: apsw.Connection, text: str, bindings: Bindings = ()) -> list[Row]:
    """All rows that a statement answers with."""
    return connection.execute(text, bindings).fetchall()


def fetch_damaged(connection: apsw.Connection, text: str, bindings: Bindings = ()) -> list[Row]:
    """The rows of a query in which somebody has put bytes that are no UTF-8; those are shown as lone surrogates.

    No text that was ever stored has such a character, so that what was changed stays unlike what was written.
    """
    # It takes long to import, and few ever need it.
    from apsw.ext import query_info

    names = [f"c{number}" for number in range(len(query_info(connection, text).description))]
    shown = ", ".join(f"case typeof({name}) when 'text' then cast({name} as blob) else {name} end" for name in names)
    raw = f"with raw({', '.join(names)}) as ({text}) select {shown} from raw"
    return [tuple(_readable(value) for value in row) for row in connection.execute(raw, bindings)]


def _readable(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def one(connection: apsw.Connection, text: str, bindings: Bindings = ()) -> Any:
    """The single value that a statement answers with; None when it answers with no row."""
    return connection.execute(text, bindings).get


def set_clock(connection: apsw.Connection, clock: Callable[[], int]) -> None:
    """Let statements on a connection take the time from a clock, and `moment` too."""
    connection.create_scalar_function("now_ms", lambda *_: clock(), 0)
    _clocks[connection] = clock


def moment(connection: apsw.Connection) -> Instant:
    """The moment of a transaction: asked for once, so that all its rows agree.

    The clock itself is asked: a statement for it would cost the thread that holds the file's lock two turns.
    """
    return Instant(_clocks[connection]())
