"""Rows on their way to the file, gathered by statement and written with as few statements as will do.

After each statement the interpreter may give the turn of the thread that writes to another one, which keeps it for
milliseconds where steps compute; the lock on the file is held meanwhile. Many rows in one statement are also cheaper.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import apsw

from stepfast.stores.sqlite.asking import Bindings, Row, one, statements

EVENT_SQL = statements("events")

# So many rows go with one statement. Each width is one that stays compiled: all of the small ones, and of the others
# every so manyeth, so that at most two statements write what is left of a batch.
WIDEST = 64
WIDEST_OF_ANY = 16
STRIDE = 8
_VALUES = re.compile(r"^values (\([^()]*\))\Z", re.MULTILINE)


class Pending:
    """What several statements are to write, one statement after the other in the order of their names in `sql`.

    `rows` are for statements that write one row, `lists` for those that take all there is as a list.
    """

    def __init__(self, sql: dict[str, str]) -> None:
        self._sql = sql
        self.rows: defaultdict[str, list[Bindings]] = defaultdict(list)
        self.lists: defaultdict[str, list[Any]] = defaultdict(list)

    def write(self, connection: apsw.Connection) -> None:
        """Write everything."""
        for name, text in self._sql.items():
            if name in self.rows:
                write_rows(connection, text, self.rows[name])
            if name in self.lists:
                connection.execute(text, (json.dumps(self.lists[name]),))


def write_rows(connection: apsw.Connection, text: str, rows: Sequence[Bindings]) -> None:
    """Write rows in order by a statement that writes one; by as few as possible where it inserts values."""
    values = _values_of(text)
    if values is None:
        connection.executemany(text, rows)
        return
    reached = 0
    while reached < len(rows):
        width = _width(len(rows) - reached)
        several = text + f", {values}" * (width - 1)
        connection.execute(several, tuple(chain.from_iterable(rows[reached : reached + width])))
        reached += width


def _width(rows: int) -> int:
    return rows if rows <= WIDEST_OF_ANY else min(WIDEST, rows - rows % STRIDE)


@cache
def _values_of(text: str) -> str | None:
    """The row of values with which an insert ends; None for any other statement."""
    found = _VALUES.search(text)
    return None if found is None else found[1]


def write_events(connection: apsw.Connection, rows: Sequence[Row]) -> None:
    """Write events in order, so that within a run positions grow with numbers."""
    write_rows(connection, EVENT_SQL["insert_event"], rows)


def last_event(connection: apsw.Connection, run_id: str) -> int:
    """The number of a run's newest event."""
    return int(one(connection, EVENT_SQL["last_event"], (run_id,)))
