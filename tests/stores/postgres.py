"""The PostgreSQL store under test: its clock, a way to ask it by SQL, and ids where the suite says `w1`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast
from uuid import UUID, uuid5

import asyncpg

from stepfast.kernel.decisions import NewRun, Started
from stepfast.kernel.exchange import Turns
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.ports import Store
from stepfast.kernel.views import Findings
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.statements import numbered
from tests.stores.harness import NOON, Harness

FROZEN_CLOCK = f"""
create table stepfast.test_clock (now_ms bigint not null);
insert into stepfast.test_clock values ({NOON});
create or replace function stepfast.now_ms() returns bigint
language sql volatile as $$ select now_ms from stepfast.test_clock $$;
"""

_SPACE = UUID("6a0c1f2e-0000-4000-8000-000000000000")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[PostgresStore]:
    """A migrated store, open for a while."""
    store = PostgresStore(url, **settings)
    await store.migrate()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def asking(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def set_clock(url: str, moment: int) -> None:
    """Let the clock of the database at `url` stand at this moment."""
    async with asking(url) as connection:
        if await connection.fetchval("select to_regclass('stepfast.test_clock') is null"):
            await connection.execute(FROZEN_CLOCK)
        await connection.execute("update stepfast.test_clock set now_ms = $1", moment)


@asynccontextmanager
async def harness_on(url: str) -> AsyncIterator[Harness]:
    """A fresh store at noon, with a clock that stands until it is set."""
    names = Names()
    async with opened(url) as store, asking(url) as connection:
        await connection.execute(FROZEN_CLOCK)

        async def set_clock(moment: int) -> None:
            await connection.execute("update stepfast.test_clock set now_ms = $1", moment)

        async def query(text: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
            statement = numbered(text)
            given = {**parameters, "hold": bool(parameters.get("hold"))}
            values = [names.known(given[name]) for name in statement.names]
            rows = await connection.fetch(statement.text, *values)
            return [tuple(names.back(value) for value in row) for row in rows]

        yield Harness(cast(Store, NamedWorkers(store, names)), set_clock, query)


def _given(value: Any) -> list[str]:
    """The fields that a value is made of; what it makes of these itself follows from them."""
    return [field.name for field in fields(value) if field.init]


class Names:
    """Worker names of the suite and the ids that stand for them."""

    def __init__(self) -> None:
        self._id_of: dict[str, str] = {}

    def id_for(self, name: str) -> str:
        """The id that stands for a name; an id stands for itself."""
        return name if _ID.fullmatch(name) else self._id_of.setdefault(name, str(uuid5(_SPACE, name)))

    def known(self, value: Any) -> Any:
        """The id of a name that was used before; anything else as it is."""
        return self._id_of.get(value, value) if isinstance(value, str) else value

    def there(self, value: Any) -> Any:
        """The value with ids for names wherever a field is called `worker_id`."""
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return type(value)(self.there(item) for item in value)
        if hasattr(value, "_fields"):
            return value._replace(**self._changes(value, value._fields))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **self._changes(value, _given(value)))
        return value

    def _changes(self, value: Any, names: Iterable[str]) -> dict[str, Any]:
        given = {name: getattr(value, name) for name in names}
        return {
            name: self.id_for(item) if name == "worker_id" and item is not None else self.there(item)
            for name, item in given.items()
        }

    def back(self, value: Any) -> Any:
        """The value with names for ids, and every other id as text."""
        if isinstance(value, UUID):
            return self.back(str(value))
        if type(value) is str:
            return self._named(value)
        if hasattr(value, "_fields"):
            return type(value)(*[self.back(item) for item in value])
        if isinstance(value, Findings):
            return Findings(map(self.back, value), value.is_whole)
        if isinstance(value, list | tuple):
            return type(value)(self.back(item) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{name: self.back(getattr(value, name)) for name in _given(value)})
        return value

    def _named(self, text: str) -> str:
        for name, worker_id in self._id_of.items():
            text = text.replace(worker_id, name)
        return text


class NamedWorkers:
    """A store whose workers may have names that are no ids."""

    def __init__(self, store: PostgresStore, names: Names) -> None:
        self._store = store
        self._names = names

    async def start(self, runs: Sequence[NewRun], holder: str | None) -> list[Started]:
        return await self._store.start(runs, None if holder is None else WorkerId(self._names.id_for(holder)))

    async def beat(self, worker_id: str) -> Any:
        return self._names.back(await self._store.beat(WorkerId(self._names.id_for(worker_id))))

    async def retire(self, worker_id: str, turns: Turns | None = None) -> list[RunId]:
        return await self._store.retire(WorkerId(self._names.id_for(worker_id)), turns)

    async def claim_run(self, worker_id: str, run_id: RunId, codes: Sequence[str]) -> Any:
        return self._names.back(await self._store.claim_run(WorkerId(self._names.id_for(worker_id)), run_id, codes))

    async def claim_runs(self, worker_id: str, run_ids: Sequence[RunId], codes: Sequence[str]) -> Any:
        return self._names.back(await self._store.claim_runs(WorkerId(self._names.id_for(worker_id)), run_ids, codes))

    def __getattr__(self, method: str) -> Any:
        async def call(*args: Any, **named: Any) -> Any:
            return self._names.back(await getattr(self._store, method)(*self._names.there(args), **named))

        return call
