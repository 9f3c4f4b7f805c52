"""Sweeping: what no row mentions goes after a day, and nothing else ever does."""

from __future__ import annotations

import pytest

from stepfast import RunState, continue_as, receive, step, workflow
from stepfast.engine import sweeping
from stepfast.engine.sweeping import ORPHAN_AGE_MS, Sweep
from stepfast.engine.values import Values
from stepfast.kernel.blobs import BlobFilter, BlobKey, parse_reference
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.worker.sweep import SweepLoop
from tests.blobs.places import app_with
from tests.support.following import state_of

NOBODY_S_RUN = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")
LARGE = "x" * 100_000
DAY_LATER_MS = ORPHAN_AGE_MS + 60_000


class Ahead:
    """The clock of a process that lives some time after the blobs were put."""

    def __init__(self, clock, ahead_ms: int = 0) -> None:
        self._clock = clock
        self.ahead_ms = ahead_ms

    def now(self) -> Instant:
        return Instant(self._clock.now() + self.ahead_ms)

    def __getattr__(self, name: str):
        return getattr(self._clock, name)


class Swept:
    """The blobs of an open app, and a sweep of them at a later time."""

    def __init__(self, app) -> None:
        parts = app._open_parts()
        self.values: Values = parts.values
        self.clock = Ahead(app._clock, DAY_LATER_MS)
        self.sweep = Sweep(parts.store, parts.values, self.clock)

    async def names(self) -> list[str]:
        return [info.key.name for info in await self.values.blobs.list(BlobFilter())]


@step
async def make(letter: str) -> str:
    return letter * 100_000


@workflow
async def many_ways(text: str) -> str:
    await make("a")
    signal = await receive("text", str)
    await receive("go")
    if signal:
        continue_as("")
    return "b" * 100_000


async def test_an_orphan_goes_after_a_day(database, place):
    async with app_with(database, [many_ways], place, worker=False) as app:
        swept = Swept(app)
        await swept.values.keep("default", NOBODY_S_RUN, LARGE)
        swept.clock.ahead_ms = ORPHAN_AGE_MS - 60_000
        assert await swept.sweep.make_pass() == 0
        assert len(await swept.names()) == 1
        swept.clock.ahead_ms = DAY_LATER_MS
        assert await swept.sweep.make_pass() == 1
        assert await swept.names() == []


async def test_what_a_row_mentions_stays(database, place):
    """An input, a step's value, a signal that waits and one that was taken, a later generation's input, an outcome."""
    async with app_with(database, [many_ways], place) as app:
        run = await app.start(many_ways, LARGE)
        await run.signal("text", "y" * 100_000)
        await run.signal("later", "z" * 100_000)
        await state_of(run, RunState.WAITING)
        swept = Swept(app)
        before = await swept.names()
        assert len(before) == 4
        assert await swept.sweep.make_pass() == 0
        await run.signal("go")
        await run.signal("text", "")
        await run.signal("go")
        assert await run.result(timeout="30s") == "b" * 100_000
        await swept.values.keep("default", RunId(run.id), LARGE + "orphan")
        swept = Swept(app)
        assert len(await swept.names()) == 6
        # The run may be opened again, and then takes the signal that nobody has taken.
        assert await swept.sweep.make_pass() == 1


async def test_what_is_put_again_is_not_removed_for_its_age(database, place):
    """A later try of the same step puts the same content; its commit may be under way."""
    async with app_with(database, [many_ways], place, worker=False) as app:
        swept = Swept(app)
        text = await swept.values.keep("default", NOBODY_S_RUN, LARGE)
        key = BlobKey("default", NOBODY_S_RUN, parse_reference(text, NOBODY_S_RUN).name)
        (old,) = await swept.values.blobs.list(BlobFilter())
        while (await swept.values.blobs.list(BlobFilter()))[0].put_at == old.put_at:
            await swept.values.keep("default", NOBODY_S_RUN, LARGE)
        assert not await swept.values.blobs.delete(key, put_before=Instant(old.put_at + 1))
        assert await swept.values.blobs.has(key)


async def test_a_walk_takes_a_page_with_each_pass_and_begins_anew(database, place, monkeypatch):
    monkeypatch.setattr(sweeping, "PAGE", 2)
    async with app_with(database, [many_ways], place, worker=False) as app:
        swept = Swept(app)
        for number in range(5):
            await swept.values.keep("default", NOBODY_S_RUN, LARGE + str(number))
        assert [await swept.sweep.make_pass() for _ in range(4)] == [2, 2, 1, 0]


async def test_what_is_no_value_is_let_alone(database, place):
    async with app_with(database, [many_ways], place, worker=False) as app:
        swept = Swept(app)
        await swept.values.blobs.put(BlobKey("default", NOBODY_S_RUN, "artifact"), b"of somebody else")
        assert await swept.sweep.make_pass() == 0
        assert await swept.names() == ["artifact"]


async def test_a_pass_that_fails_is_a_line_in_the_log(database, caplog):
    async with app_with(database, [many_ways], "database", worker=False) as app:
        swept = Swept(app)
    assert await SweepLoop(swept.sweep, swept.clock).make_pass() == 0
    assert "sweep_failed" in caplog.text


@pytest.mark.parametrize("tenant", ["default", "../other", "\N{PILE OF POO}" * 250])
async def test_orphans_of_every_tenant_are_found(database, place, tenant):
    async with app_with(database, [many_ways], place, worker=False) as app:
        swept = Swept(app)
        await swept.values.keep(tenant, NOBODY_S_RUN, LARGE)
        assert await swept.sweep.make_pass() == 1
