"""Facts that people note of runs, and how all facts are found."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import apsw
import asyncpg
import pytest

from stepfast import NotFound, annotate, sleep, step, workflow
from stepfast.kernel.errors import Invalid, KeyReused, StepNotFound
from stepfast.stores.statements import narrowed, numbered, shared_statements, unprefixed
from stepfast.sync import Stepfast as SyncStepfast
from stepfast.testing import engine
from tests.support.apps import app_on


@step
async def charge(order: str) -> str:
    return order


@step
async def ship(order: str) -> str:
    annotate("carrier", "post")
    return order


@workflow
async def selling(order: str) -> str:
    await charge(order)
    await ship(order)
    return order


@workflow
async def lasting() -> None:
    await sleep("1h")


@pytest.fixture
async def opened(database):
    async with engine(database=database, workflows=[selling, lasting]) as opened:
        yield opened


@pytest.fixture
async def sold(opened):
    run = await opened.start(selling, "o-1", tenant="acme")
    await opened.run_until_idle()
    return run


async def numbers(run) -> list[int]:
    return [event.seq for event in await run.history()]


async def test_a_fact_is_noted_of_a_run_that_has_ended(sold):
    await sold.annotate("checked", {"by": "hand"}, scope="invoice", reason="spot check", actor="ann")
    *_, noted = await sold.annotations()
    assert (noted.name, json.loads(noted.value), noted.scope) == ("checked", {"by": "hand"}, "invoice")
    assert (noted.step, noted.attempt, noted.actor, noted.reason) == (None, None, "ann", "spot check")
    assert await numbers(sold) == list(range(1, len(await sold.history()) + 1))


async def test_a_fact_is_noted_of_a_run_that_waits_and_does_not_wake_it(opened):
    run = await opened.start(lasting)
    await opened.run_until_idle()
    before = await opened.info(run)
    await run.annotate("urgent", True)
    after = await opened.info(run)
    assert (after.state, after.claims) == (before.state, before.claims)
    assert [noted.name for noted in await run.annotations()] == ["urgent"]


async def test_a_fact_is_noted_of_a_step_by_its_name_number_or_address(sold):
    for step_name in ("charge", "charge#1", 1):
        await sold.annotate("seen", True, step=step_name)
    assert [noted.step for noted in await sold.annotations("seen")] == ["charge#1"] * 3


async def test_an_unknown_step_is_refused_and_the_nearest_is_named(sold):
    with pytest.raises(StepNotFound, match=r"no step 'chrage'; nearest are charge#1"):
        await sold.annotate("seen", True, step="chrage")
    assert await sold.annotations("seen") == []


async def test_a_key_notes_a_fact_once(sold):
    first = await sold.annotate("seen", 1, key="k-1")
    again = await sold.annotate("seen", 1, key="k-1")
    assert (first.repeated, again.repeated) == (False, True)
    with pytest.raises(KeyReused):
        await sold.annotate("seen", 2, key="k-1")
    assert [noted.value for noted in await sold.annotations("seen")] == ["1"]


async def test_a_run_that_a_worker_holds_tells_what_came_meanwhile_without_a_gap(database):
    held, go_on = asyncio.Event(), asyncio.Event()

    @step
    async def busy() -> None:
        annotate("own", 1)
        held.set()
        await go_on.wait()

    @workflow
    async def flow() -> None:
        await busy()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await held.wait()
        await run.annotate("outside", 1, actor="ann", key="k")
        go_on.set()
        await run
        await run.annotate("outside", 1, actor="ann", key="k")
        noted = [(each.name, each.actor) for each in await run.annotations()]
        assert sorted(noted) == [("outside", "ann"), ("own", None)]
        assert await numbers(run) == list(range(1, len(await run.history()) + 1))


async def test_a_fact_noted_of_a_held_run_survives_the_death_of_its_holder(database):
    lives = []

    @step
    async def busy() -> None:
        lives.append(1)
        if len(lives) == 1:
            await run.annotate("outside", 1)
            assert await run.annotations() == []
            await opened.crash()

    @workflow
    async def flow() -> None:
        await busy()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        assert [noted.name for noted in await run.annotations()] == ["outside"]
        assert await numbers(run) == list(range(1, len(await run.history()) + 1))


async def test_annotations_are_found_by_name_by_value_and_by_who_noted_them(opened, sold):
    other = await opened.start(selling, "o-2", tenant="other")
    await opened.run_until_idle()
    await sold.annotate("quality", {"b": 1, "a": [True, None]}, actor="ann")
    await sold.annotate("quality", 1)
    await other.annotate("quality", 1, actor="ann")
    found = opened.app.annotations.list

    async def runs(*args, **options):
        return [each.run_id for each in await found(*args, **options)]

    assert await runs("quality") == [other.id, sold.id, sold.id]
    assert await runs("quality", value={"a": [True, None], "b": 1}) == [sold.id]
    assert await runs("quality", value=1, tenant="acme") == [sold.id]
    assert await runs("quality", value=True) == []
    assert await runs("quality", value="1") == []
    assert await runs(actor="ann") == [other.id, sold.id]
    assert await runs(run_id=other.id, name="carrier") == [other.id]
    assert await runs("carrier", step="ship") == await runs("carrier", step="ship#1") == [other.id, sold.id]
    assert await runs("carrier", step="hip") == []
    assert await runs(tenant="nobody") == []


async def test_a_value_of_none_is_a_value(opened, sold):
    await sold.annotate("left", None)
    assert [each.value for each in await opened.app.annotations.list("left", value=None)] == ["null"]
    assert await opened.app.annotations.list("carrier", value=None) == []


async def test_a_list_is_read_page_by_page(opened, sold):
    for n in range(5):
        await sold.annotate("n", n)
    first = await opened.app.annotations.list("n", limit=3)
    rest = await opened.app.annotations.list("n", limit=3, cursor=first[-1].position)
    assert [each.value for each in first + rest] == ["4", "3", "2", "1", "0"]


async def test_a_value_without_a_name_is_refused(opened):
    with pytest.raises(Invalid, match="without a name"):
        await opened.app.annotations.list(value=1)


async def test_the_run_of_another_tenant_is_not_found(opened, sold):
    strange = opened.app.get(sold.id, tenant="other")
    with pytest.raises(NotFound):
        await strange.annotate("seen", 1)
    with pytest.raises(NotFound):
        await strange.annotations()
    assert await sold.annotations("seen") == []


def test_blocking_code_notes_and_finds(tmp_path):
    with SyncStepfast(f"sqlite:///{tmp_path}/app.db", workflows=[selling]) as app:
        run = app.start(selling, "o-1")
        run.result()
        run.annotate("seen", 1)
        assert [each.name for each in run.annotations()] == ["carrier", "seen"]
        assert [each.run_id for each in app.annotations.list("seen", value=1)] == [run.id]


LOOKUPS = {
    "by name": ({"name": "carrier", "tenant": "acme"}, "event_of_annotation"),
    "by name and value": ({"name": "carrier", "tenant": "acme", "digest": "d"}, "event_of_annotated_value"),
}


@pytest.mark.parametrize(("given", "index"), LOOKUPS.values(), ids=LOOKUPS)
async def test_annotations_are_looked_up_by_an_index(database, opened, given, index):
    text = narrowed(shared_statements()["list_annotations"], given)
    values = {**given, "before": 2**62, "limit": 10}
    assert index in await plan_of(database, text, values)


async def plan_of(database: str, text: str, values: dict[str, Any]) -> str:
    """How a database would go about a statement."""
    if database.startswith("sqlite"):
        connection = apsw.Connection(database.removeprefix("sqlite:///"))
        found = connection.execute(f"explain query plan {unprefixed(text)}", values).fetchall()
        connection.close()
        return "\n".join(str(row[3]) for row in found)
    statement, connection = numbered(text), await asyncpg.connect(database)
    try:
        # There are few rows, and to read them all would be quicker.
        await connection.execute("set enable_seqscan = off")
        rows = await connection.fetch(f"explain {statement.text}", *(values[name] for name in statement.names))
    finally:
        await connection.close()
    return "\n".join(row[0] for row in rows)
