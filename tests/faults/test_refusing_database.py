"""A database that is there and will not have it: full, or read-only for a while. Nothing is lost, and work goes on."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest

from stepfast import Stepfast, StepfastError, step, workflow
from tests.support.apps import Bodies, app_on
from tests.support.log_lines import lines_of_the_log
from tests.support.workflows import say

FULL = """
create or replace function stepfast.refuse() returns trigger language plpgsql as $$
begin
    raise exception using
        errcode = '53100', message = 'could not extend file: No space left on device', hint = 'Check free disk space.';
end $$;
"""
WRITTEN = ("run", "task", "step", "event", "outcome", "worker")

Refusing = Callable[[Stepfast], Any]


async def in_writers(app: Stepfast, statement: str) -> None:
    """Run a statement on every connection by which a SQLite store writes."""
    store: Any = app._open_parts().store
    for writer in (store._writer, store._beats):
        await writer._in_thread(lambda writer=writer: writer._connection.execute(statement).fetchall())


async def on_server(database: str, *statements: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def read_only(app: Stepfast, database: str) -> AsyncIterator[None]:
    """A database that takes no writes, as after a failover to a standby, or a remount of its disk."""
    if database.startswith("sqlite"):
        await in_writers(app, "pragma query_only = on")
        yield
        await in_writers(app, "pragma query_only = off")
        return
    name = database.rpartition("/test_")[2].partition("?")[0]
    setting = f'alter database "test_{name}" set default_transaction_read_only = '
    others = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
    await on_server(database, setting + "on", f"{others} and pid <> pg_backend_pid()")
    yield
    await on_server(database, "set default_transaction_read_only = off", setting + "off")


@asynccontextmanager
async def full(app: Stepfast, database: str) -> AsyncIterator[None]:
    """A stand-in for a full disk: the system refuses every write to a file, or the server says that it has no room."""
    if database.startswith("sqlite"):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
        return
    trigger = (
        "create trigger refuse before insert or update or delete on stepfast.{} execute function stepfast.refuse()"
    )
    triggers = [trigger.format(table) for table in WRITTEN]
    await on_server(database, FULL, *triggers)
    yield
    await on_server(database, "drop function stepfast.refuse() cascade")


REFUSALS = {"read-only": read_only, "full": full}


@pytest.fixture(params=REFUSALS)
def refusing(request, database) -> Refusing:
    return lambda app: REFUSALS[request.param](app, database)


async def test_a_start_is_refused_with_a_code_and_nothing_is_stored(database, refusing):
    async with app_on(database, [say], worker=False) as app:
        async with refusing(app):
            with pytest.raises(StepfastError) as raised:
                await app.start(say, "lost", key="once")
        assert raised.value.code in ("E-STORE-001", "E-STORE-003")
        # It has answered: whoever reads this must not look for a server that is down.
        assert "did not answer" not in str(raised.value)
        assert "\n" not in str(raised.value)
        assert await app.runs() == []
        await app.start(say, "kept", key="once")
        assert len(await app.runs()) == 1


async def a_run_goes_on(database: str, refusing: Refusing) -> tuple[Bodies, str]:
    """A run whose second step ends while nothing can be written; the database is well again when that was noticed."""
    bodies, begun, may_end = Bodies(), asyncio.Event(), asyncio.Event()

    @step
    async def first() -> str:
        bodies.ran("first")
        return "kept"

    @step
    async def second() -> str:
        bodies.ran("second")
        begun.set()
        await may_end.wait()
        return "!"

    @workflow
    async def flow() -> str:
        return await first() + await second()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await begun.wait()
        async with refusing(app):
            with lines_of_the_log() as lines:
                may_end.set()
                await lines.come(3)
        return bodies, await run.result(timeout="60s")


async def test_a_run_under_way_loses_nothing_and_no_finished_step_runs_again(database, refusing):
    bodies, result = await a_run_goes_on(database, refusing)
    assert result == "kept!"
    assert bodies["first"] == 1
    assert bodies["second"] <= 3


async def test_what_was_answered_before_is_still_there_afterwards(database, refusing):
    async with app_on(database, [say]) as app:
        before = await app.start(say, "a")
        assert await before.result(timeout="30s") == "a"
        async with refusing(app):
            with suppress(StepfastError):
                # A connection that was cut is found out by its next call, which is told to try again.
                await before.info()
            assert (await before.info()).value == '"a"'
        after = await app.start(say, "b")
        assert await after.result(timeout="30s") == "b"
