"""Taking guards out of a store: of its SQL in this process, or of the functions of a test's own database."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from stepfast.kernel.decisions import Decision
from stepfast.kernel.exchange import Saving
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.sqlite.saving import Batch, Prepared
from tests.stores.harness import Harness

FENCE = "l.token is not null and l.token = d_token[i] and l.worker_id is not distinct from d_worker[i]"
DEFINITION = "select pg_get_functiondef(oid) from pg_proc where oid::regproc::text = $1"


def url_of(harness: Harness) -> str | None:
    """Where the database of a harness is, if it is PostgreSQL's."""
    store: Any = getattr(harness.store, "_store", None)
    return store._address._url if isinstance(store, PostgresStore) else None


async def rewrite(url: str | None, function: str, *changes: tuple[str, str]) -> None:
    """Put other text in the place of a guard in one of a database's functions; on SQLite there are none."""
    if url is None or url.startswith("sqlite"):
        return
    connection = await asyncpg.connect(url)
    try:
        text = await connection.fetchval(DEFINITION, f"stepfast.{function}")
        for guard, instead in changes:
            assert guard in text, f"stepfast.{function} has no {guard!r}."
            text = text.replace(guard, instead)
        await connection.execute(text)
    finally:
        await connection.close()


async def take_out_fence(url: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both stores without the check of token and holder."""
    add = Batch.add

    def add_unfenced(batch: Batch, prepared: Prepared) -> Saving:
        run_id, token, worker_id = prepared.decision.fence
        batch._holders[run_id] = [token, worker_id, wakes_of(prepared.decision)]
        return add(batch, prepared)

    monkeypatch.setattr(Batch, "add", add_unfenced)
    await rewrite(url, "save", (FENCE, "true"))


def wakes_of(decision: Decision) -> int:
    """The wakes that a park has seen, 0 for any other decision."""
    return getattr(decision.release, "wakes", 0)
