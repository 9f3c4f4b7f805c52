"""A store under test whose rows can be looked at, and which takes names for the ids of workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stepfast.conformance.store.acts import (
    HOUR_MS,
    LEASE_MS,
    NOON,
    VERDICT,
    continued,
    decide,
    end,
    fail,
    hand_back,
    joins,
    park,
    record,
    step,
    try_again,
    wait,
)
from stepfast.conformance.store.harness import Harness as SuiteHarness
from stepfast.kernel.commands import Command
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.ports import Store
from stepfast.stores.sqlite.store import SqliteStore

__all__ = [
    "HOUR_MS",
    "LEASE_MS",
    "NOON",
    "TABLES",
    "VERDICT",
    "Harness",
    "continued",
    "decide",
    "end",
    "fail",
    "hand_back",
    "joins",
    "park",
    "record",
    "step",
    "try_again",
    "wait",
]

TABLES = (
    "run", "task", "generation", "outcome", "step", "event", "wait", "unjoined", "inbox", "dead_letter", "idempotency",
    "review", "review_answer", "review_token", "exception_item", "exception_comment", "asset", "asset_version",
    "lineage", "derivation", "artifact",
)  # fmt: skip


class Harness(SuiteHarness):
    """What a test of rows needs of one store; a new kind of store brings `set_clock` and `query`."""

    def __init__(
        self,
        store: Store,
        set_clock: Callable[[int], Awaitable[None]],
        query: Callable[[str, dict[str, Any]], Awaitable[list[tuple[Any, ...]]]],
    ) -> None:
        super().__init__(store, set_clock)
        self.query = query
        """Run a statement written as in the shared files: tables `stepfast.run`, parameters `:name`."""

    def worker_id(self, name: str) -> WorkerId:
        return WorkerId(name)

    async def sql(self, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return await self.query(text, parameters)

    async def unguard(self) -> None:
        """Let events be changed by SQL, as nobody but the owner of the database could."""
        if isinstance(self.store, SqliteStore):
            for name in ("refuse_event_update", "refuse_event_delete"):
                await self.sql(f"drop trigger if exists {name}")
        else:
            await self.sql("drop trigger if exists refuse_change on stepfast.event")

    async def task(self, run_id: RunId, columns: str) -> tuple[Any, ...] | None:
        rows = await self.sql(f"select {columns} from stepfast.task where run_id = :run_id", run_id=run_id)
        return tuple(rows[0]) if rows else None

    async def change(self, run_id: RunId, command: Command, **origin: Any) -> Any:
        """The answer to a command, whatever it is."""
        return await self.answer(run_id, command, **origin)

    async def contents(self) -> Any:
        """Every row that a run can have, to see that something changed nothing."""
        return {table: sorted(map(str, await self.sql(f"select * from stepfast.{table}"))) for table in TABLES}


def bare(store: Store) -> Harness:
    """A harness without a clock of its own or a way to ask by SQL, for tests whose workers have ids."""

    async def refuse(*_: Any) -> Any:
        raise AssertionError("this harness has nothing but its store")

    return Harness(store, refuse, refuse)
