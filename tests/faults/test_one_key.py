"""Many callers with one key at once, in two apps: one of them is carried out, and all are answered the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import KeyReused
from stepfast.stores.postgres.keys import Keys
from stepfast.stores.sqlite import changing, delivering, starting
from tests.support.apps import app_on, migrated
from tests.support.sql import execute
from tests.support.workflows import say

CALLERS = 10
COLUMNS = "tenant, command, key, digest, run_id, answer, at"
LOOKS = {"find_key": starting.SQL, "find_answer": changing.SQL, "key_used": delivering.SQL}


@asynccontextmanager
async def two_apps(database: str) -> AsyncIterator[list[Any]]:
    async with app_on(database, [say], worker=False) as one, app_on(database, [say], worker=False) as two:
        yield [one, two]


@pytest.fixture
async def forgetful(database, monkeypatch):
    """Both stores without memory of the keys that were used, and without anything that makes them unique."""
    await migrated(database)
    for name, sql in LOOKS.items():
        monkeypatch.setitem(sql, name, f"select * from ({sql[name]}) where false")

    async def read_none(cls, connection, requests):
        return cls({})

    monkeypatch.setattr(Keys, "read", classmethod(read_none))
    if database.startswith("sqlite"):
        await execute(database, "drop table idempotency")
        await execute(database, f"create table idempotency ({COLUMNS})")
    else:
        await execute(database, "alter table stepfast.idempotency drop constraint idempotency_pkey")


async def runs_of_one_key(database: str) -> tuple[set[str], set[str]]:
    """Start with one key many times: the runs that callers were told of, and those that are there."""
    async with two_apps(database) as apps:
        started = await asyncio.gather(*(app.start(say, "a", key="k") for _ in range(CALLERS) for app in apps))
        return {run.id for run in started}, {view.run_id for view in await apps[0].runs()}


async def test_starts_with_one_key_at_once_are_one_run(database):
    told, stored = await runs_of_one_key(database)
    assert (len(told), told) == (1, stored)


@pytest.mark.usefixtures("forgetful")
async def test_the_broken_twin_without_its_keys_starts_several_runs(database):
    told, _ = await runs_of_one_key(database)
    assert len(told) > 1


async def runs_of_two_bodies(database: str) -> tuple[int, set[type]]:
    """Start with one key and two bodies at once: how many runs there are, and how callers were answered."""
    async with two_apps(database) as apps:
        starts = [app.start(say, word, key="k") for _ in range(CALLERS) for app, word in zip(apps, "ab", strict=True)]
        answers = await asyncio.gather(*starts, return_exceptions=True)
        return len(await apps[0].runs()), {type(answer) for answer in answers if isinstance(answer, Exception)}


async def test_of_two_bodies_with_one_key_at_once_one_is_refused_and_changes_nothing(database):
    assert await runs_of_two_bodies(database) == (1, {KeyReused})


@pytest.mark.usefixtures("forgetful")
async def test_the_broken_twin_without_its_keys_takes_both_bodies(database):
    runs, refusals = await runs_of_two_bodies(database)
    assert (runs > 1, refusals) == (True, set())


async def answers_of_one_command(database: str) -> tuple[int, int]:
    """Cancel with one key many times: how many different answers came, and how often it was told."""
    async with two_apps(database) as apps:
        run = await apps[0].start(say, "a")
        handles = [app.get(run.id) for _ in range(CALLERS) for app in apps]
        answers = await asyncio.gather(*(handle.cancel(key="k") for handle in handles), return_exceptions=True)
        told = [event.type for event in await run.history()].count("cancelled")
        return len({said(answer) for answer in answers}), told


def said(answer: Changed | BaseException) -> str:
    """An answer, whether it was the first or a repeated one."""
    return str(replace(answer, repeated=True, told=())) if isinstance(answer, Changed) else repr(answer)


async def test_commands_with_one_key_at_once_are_one_command_with_one_answer(database):
    assert await answers_of_one_command(database) == (1, 1)


@pytest.mark.usefixtures("forgetful")
async def test_the_broken_twin_without_its_keys_answers_differently(database):
    answers, _ = await answers_of_one_command(database)
    assert answers > 1


async def messages_of_one_key(database: str) -> int:
    """Signal with one key many times: how many messages the run has."""
    async with two_apps(database) as apps:
        run = await apps[0].start(say, "a")
        handles = [app.get(run.id) for _ in range(CALLERS) for app in apps]
        await asyncio.gather(*(handle.signal("paid", 1, key="k") for handle in handles))
        look = await apps[0]._parts.store.look(run.id)
        return len(look.inbox)


async def test_signals_with_one_key_at_once_are_one_message(database):
    assert await messages_of_one_key(database) == 1


@pytest.mark.usefixtures("forgetful")
async def test_the_broken_twin_without_its_keys_delivers_every_one(database):
    assert await messages_of_one_key(database) == 2 * CALLERS
