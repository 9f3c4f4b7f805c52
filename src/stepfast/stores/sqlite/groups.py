"""Children that end count toward the group their parent waits for, and the last one needed wakes it."""

from __future__ import annotations

from collections import Counter

import apsw

from stepfast.kernel.decisions import Joins
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import GOOD_ENDS, RunState
from stepfast.stores.sqlite.asking import one, statements

SQL = statements("saving")


class Groups:
    """The ended children of one commit, counted by group: one update for each group, however many they are."""

    def __init__(self) -> None:
        self._ends: Counter[tuple[Joins, bool]] = Counter()

    def add(self, joins: Joins, state: RunState) -> None:
        """Count a child that has ended."""
        self._ends[joins, state in GOOD_ENDS] += 1

    def write(self, connection: apsw.Connection, now: Instant) -> None:
        """Add the counts, and wake each parent whose join is decided by them; a parent that is gone needs none."""
        for joins in dict.fromkeys(joins for joins, _ in self._ends):
            counts = {"got": self._ends[joins, True], "failed": self._ends[joins, False]}
            if one(connection, SQL["count_children"], {**joins._asdict(), **counts}):
                wake(connection, joins.parent_id, now)


def wake(connection: apsw.Connection, run_id: RunId, now: Instant) -> None:
    """Let a run know that something has come for it."""
    connection.execute(SQL["wake"], {"run_id": run_id, "now": now})
