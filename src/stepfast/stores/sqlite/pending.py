"""Rows on their way to the file, gathered by statement so that each statement runs once over all of its rows."""

from __future__ import annotations

from collections import defaultdict

import apsw

from stepfast.stores.sqlite.asking import Bindings, Row, one, statements

EVENT_SQL = statements("events")


class Pending:
    """Rows for several statements, written statement by statement in the order of their names in `sql`."""

    def __init__(self, sql: dict[str, str]) -> None:
        self._sql = sql
        self.rows: defaultdict[str, list[Bindings]] = defaultdict(list)

    def write(self, connection: apsw.Connection) -> None:
        """Write all rows."""
        for name, text in self._sql.items():
            if name in self.rows:
                connection.executemany(text, self.rows[name])


def write_events(connection: apsw.Connection, rows: list[Row]) -> None:
    """Write events in order, so that within a run positions grow with numbers."""
    connection.executemany(EVENT_SQL["insert_event"], rows)


def last_event(connection: apsw.Connection, run_id: str) -> int:
    """The number of a run's newest event."""
    return int(one(connection, EVENT_SQL["last_event"], (run_id,)))
