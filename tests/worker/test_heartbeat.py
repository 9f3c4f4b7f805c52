"""Heartbeats that fail: each is sent, and a line in the log tells of many."""

from __future__ import annotations

import asyncio
import threading

from stepfast.kernel.errors import StoreUnavailable
from stepfast.worker.heartbeat import QUIET_S, Failures
from tests.support.apps import app_on
from tests.support.workflows import say

MANY = 8


def test_the_first_failure_is_told_at_once_and_those_behind_it_together():
    moments = [0.0, 0.1, QUIET_S - 0.1, QUIET_S, QUIET_S + 0.1, 2 * QUIET_S]
    failures = Failures(iter(moments).__next__)
    assert [failures.add() for _ in moments] == [1, 0, 0, 3, 0, 2]


def test_a_failure_after_an_answer_is_a_first_one():
    failures = Failures(lambda: 0.0)
    assert (failures.add(), failures.add()) == (1, 0)
    failures.end()
    assert (failures.add(), failures.add()) == (1, 0)


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
