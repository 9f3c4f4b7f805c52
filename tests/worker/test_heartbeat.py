"""Heartbeats that fail: each is sent, and a line in the log tells of many."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

from stepfast.kernel.errors import StoreUnavailable
from stepfast.log import QUIET_S, Failures
from tests.support.apps import app_on
from tests.support.workflows import say

MANY = 8
AWAY = StoreUnavailable("away")


def test_the_first_failure_is_told_at_once_and_those_behind_it_together():
    moments = [0.0, 0.1, QUIET_S - 0.1, QUIET_S, QUIET_S + 0.1, 3 * QUIET_S]
    failures = Failures(iter(moments).__next__)
    assert [failures.add(AWAY) for _ in moments] == [1, 0, 0, 3, 0, 2]


def test_lines_about_what_stays_away_become_seldom_and_never_stop():
    moments = [0.0]
    failures = Failures(lambda: moments[-1])
    told = []
    for second in range(3_600):
        moments.append(second)
        told += [second] if failures.add(AWAY) else []
    apart = [later - earlier for earlier, later in pairwise(told)]
    assert apart == [30, 60, 120, 240, 480, 600, 600, 600, 600]


def test_a_failure_for_another_reason_is_told_at_once():
    failures = Failures(lambda: 0.0)
    assert [failures.add(AWAY), failures.add(AWAY), failures.add(ValueError("other"))] == [1, 0, 1]


def test_a_failure_after_an_answer_is_a_first_one():
    failures = Failures(lambda: 0.0)
    assert (failures.add(AWAY), failures.add(AWAY)) == (1, 0)
    failures.end()
    assert (failures.add(AWAY), failures.add(AWAY)) == (1, 0)


async def test_a_store_that_stays_away_is_one_line_for_a_while(database, caplog, monkeypatch):
    failed = threading.Semaphore(0)

    async def away(worker_id):
        failed.release()
        raise StoreUnavailable("away")

    async with app_on(database, [say]) as app:
        monkeypatch.setattr(app._open_parts().store, "beat", away)
        for _ in range(MANY):
            assert await asyncio.to_thread(failed.acquire, timeout=30)
        lines = [record.msg for record in caplog.records if record.name == "stepfast.heartbeat"]
    assert [line.fields["failures"] for line in lines] == [1]
