"""Every run has ended or waits for something named; where a store does not see to that, the checker finds the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from stepfast.kernel.exchange import Delivery
from stepfast.kernel.states import WaitKind
from stepfast.stores.rows import CLAUSES, LONG_DUE_MS
from stepfast.stores.sqlite import claiming, saving, starting, upkeep
from stepfast.stores.sqlite.saving import Batch
from tests.stores.harness import Harness, end, park, wait
from tests.support.accounting import UNHEARD, unaccounted
from tests.support.guards import rewrite, url_of, wakes_of

FIRST_DUE = "= 0 then min(w.due_at) end"
TASKS_OF_NEW_RUNS = """n_lane[i], moment
      from generate_series(1, total) i
     where """


async def start(harness: Harness) -> None:
    await harness.start()


async def complete(harness: Harness) -> None:
    await harness.save(end(await harness.held()))


async def lose_the_holder(harness: Harness) -> None:
    await harness.held()
    await harness.bury()


async def wait_for_a_signal(harness: Harness) -> None:
    await harness.save(park(await harness.held(), wait()))


async def sleep_until_it_is_long_due(harness: Harness) -> None:
    await harness.save(park(await harness.held(), wait(kind=WaitKind.TIME, name="sleep", due_in_ms=1_000)))
    await harness.advance(1_001 + LONG_DUE_MS)
    await harness.claim()


async def hear_while_parking(harness: Harness) -> None:
    """A signal comes between the holder's last look and its park."""
    run = await harness.held()
    await harness.store.deliver(Delivery(run.run_id, None, "signal", "paid", "1", None))
    await harness.save(park(run, wait()))


class Guard(NamedTuple):
    """What keeps a clause of the invariant: the course of events that needs it, and how each store loses it."""

    act: Callable[[Harness], Awaitable[None]]
    function: str
    change: tuple[str, str]
    break_sqlite: Callable[[pytest.MonkeyPatch], None]


def without(sql: dict[str, str], name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A statement that takes as many values and does nothing."""

    def take_out(monkeypatch: pytest.MonkeyPatch) -> None:
        values = " and ".join("? is null" for _ in range(sql[name].count("?"))) or "false"
        monkeypatch.setitem(sql, name, f"select 1 where {values}")

    return take_out


def park_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Batch.add

    def add_as_if_nothing_came(self, prepared):
        run_id = prepared.decision.fence.run_id
        token, worker_id, _ = self._holders[run_id]
        self._holders[run_id] = (token, worker_id, wakes_of(prepared.decision))
        return add(self, prepared)

    monkeypatch.setattr(Batch, "add", add_as_if_nothing_came)


GUARDS = {
    "run_without_task": Guard(
        start,
        "start_runs",
        (f"{TASKS_OF_NEW_RUNS}fresh[i]", f"{TASKS_OF_NEW_RUNS}false"),
        without(starting.SQL, "insert_task"),
    ),
    "task_of_ended_run": Guard(
        complete, "leave_lines", ("where t.run_id = any (k_runs)", "where false"), without(saving.SQL, "delete_tasks")
    ),
    "holder_gone": Guard(
        lose_the_holder,
        "recover_runs",
        ("t.worker_id = any (holders)", "false"),
        lambda monkeypatch: monkeypatch.setattr(upkeep, "_give_back", lambda *_: None),
    ),
    "waiting_for_nothing": Guard(
        wait_for_a_signal,
        "save",
        ("where answers[w_of[i]] = 1", "where false"),
        without(saving.SQL, "open_wait"),
    ),
    "wait_long_due": Guard(
        sleep_until_it_is_long_due,
        "promote",
        ("d.due_at <= moment", "false"),
        lambda monkeypatch: monkeypatch.setitem(claiming.SQL, "promote_due", "select :queue, :now, :limit"),
    ),
    "wait_forgotten": Guard(
        sleep_until_it_is_long_due,
        "save",
        (FIRST_DUE, "= 0 then null::bigint end"),
        lambda monkeypatch: monkeypatch.setitem(
            saving.SQL, "park", saving.SQL["park"].replace(FIRST_DUE, "= 0 then null end")
        ),
    ),
    UNHEARD: Guard(hear_while_parking, "save", ("p_wakes[i] <> wakes_now[p_of[i]]", "false"), park_without_a_look),
}


def test_every_clause_has_a_guard_here():
    assert {*CLAUSES, UNHEARD} == set(GUARDS)


@pytest.mark.parametrize("clause", GUARDS)
async def test_every_run_has_ended_or_waits_for_something_named(harness, clause):
    await GUARDS[clause].act(harness)
    assert await unaccounted(harness) == []


@pytest.mark.parametrize("clause", GUARDS)
async def test_the_broken_twin_of_each_clause_leaves_a_run_that_is_found(harness, monkeypatch, clause):
    guard = GUARDS[clause]
    guard.break_sqlite(monkeypatch)
    await rewrite(url_of(harness), guard.function, guard.change)
    await guard.act(harness)
    assert [found for found, _ in await unaccounted(harness)] == [clause]
