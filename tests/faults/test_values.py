"""Values at the edge of what can be kept: each survives from end to end, or is refused with a stable code."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stepfast import RunFailed, StepfastError, step, workflow
from tests.support.apps import app_on


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


MADE = {
    "nul": lambda: "a\0b",
    "surrogate": lambda: "a\ud800b",
    "big": lambda: 10**400,
    "nan": lambda: math.nan,
    "long": lambda: "x" * 70_000_000,
    "deep": lambda: nested(500),
}
SURVIVE = {"nul", "big"}


@step
async def make(name: str) -> Any:
    return MADE[name]()


@step
async def give_back(value: Any) -> Any:
    return value


@workflow
async def through_a_step(name: str) -> Any:
    return await give_back(await make(name))


@workflow
async def through_an_argument(value: Any) -> Any:
    return value


@step
async def one() -> int:
    return 1


@workflow
async def plain() -> int:
    return await one()


async def code_of(result) -> str:
    with pytest.raises(RunFailed) as raised:
        await result
    return getattr(raised.value.__cause__, "code", "")


@pytest.mark.parametrize("name", sorted(SURVIVE))
async def test_a_result_at_the_edge_survives(database, name):
    async with app_on(database, [through_a_step]) as app:
        run = await app.start(through_a_step, name)
        assert await run.result(timeout="30s") == MADE[name]()
    async with app_on(database, [through_a_step], worker=False) as client:
        assert await client.get(run.id).result() == MADE[name]()


@pytest.mark.parametrize("name", sorted(SURVIVE))
async def test_an_argument_at_the_edge_survives(database, name):
    async with app_on(database, [through_an_argument]) as app:
        run = await app.start(through_an_argument, MADE[name]())
        assert await run.result(timeout="30s") == MADE[name]()


@pytest.mark.parametrize("name", sorted(set(MADE) - SURVIVE))
async def test_a_result_beyond_the_edge_fails_its_run_with_a_stable_code(database, name):
    async with app_on(database, [through_a_step]) as app:
        run = await app.start(through_a_step, name)
        assert await code_of(run.result(timeout="30s")) == "E-VAL-003"


@pytest.mark.parametrize("name", sorted(set(MADE) - SURVIVE))
async def test_an_argument_beyond_the_edge_is_refused_and_nothing_is_started(database, name):
    async with app_on(database, [through_an_argument]) as app:
        with pytest.raises(StepfastError) as raised:
            await app.start(through_an_argument, MADE[name]())
        assert raised.value.code == "E-VAL-003"
        assert await app.runs() == []


@pytest.mark.parametrize("field", ["key", "actor", "subject", "tags", "tenant", "queue", "thread_id"])
@pytest.mark.parametrize("name", ["nul", "surrogate"])
async def test_a_label_that_cannot_be_stored_is_refused_and_nothing_is_started(database, name, field):
    label = [MADE[name]()] if field == "tags" else MADE[name]()
    async with app_on(database, [plain]) as app:
        with pytest.raises(StepfastError) as raised:
            await app.start(plain, **{field: label})
        assert raised.value.code == "E-VAL-001"
        assert await app.runs() == []


async def test_metadata_at_the_edge_does_not_keep_a_run_from_completing(database):
    async with app_on(database, [plain]) as app:
        run = await app.start(plain, metadata={"note": MADE["nul"]()})
        assert await run.result(timeout="30s") == 1


async def test_metadata_that_cannot_be_stored_is_refused_and_nothing_is_started(database):
    async with app_on(database, [plain]) as app:
        with pytest.raises(StepfastError, match="lone surrogate"):
            await app.start(plain, metadata={"note": MADE["surrogate"]()})
        assert await app.runs() == []


@pytest.mark.parametrize("name", ["nul", "surrogate"])
async def test_an_error_message_that_cannot_be_stored_still_fails_its_run(database, name):
    @workflow
    async def fails() -> None:
        raise ValueError(MADE[name]())

    async with app_on(database, [fails]) as app:
        with pytest.raises(RunFailed):
            await (await app.start(fails)).result(timeout="30s")
