"""Requests that nobody can carry out: each is refused with a stable code, and nothing is started."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from stepfast import RunFailed, StepfastError, receive, sleep, workflow
from tests.support.apps import app_on
from tests.support.workflows import say


@workflow
async def double(number: int) -> int:
    return number * 2


@workflow
async def nap(seconds: float) -> None:
    await sleep(seconds)


@workflow
async def attend(span: str) -> None:
    await receive("never", timeout=span)


WORKFLOWS = [double, nap, attend, say]
ABSURD = {
    "negative": -1,
    "negative span": timedelta(seconds=-5),
    "endless": math.inf,
    "no number": math.nan,
    "a million years": "365000000d",
    "no span": "soon",
    "a flag": True,
}

REQUESTS = {
    "an unknown workflow": (("ghost",), {}, "ghost"),
    "an argument of another type": ((double, "two"), {}, "number"),
    "an argument too few": ((double,), {}, "number"),
    "an argument too many": ((double, 1, 2), {}, "double"),
    "an argument of another name": ((double, 1), {"numbre": 1}, "numbre"),
    "a queue without a name": ((say, "a"), {"queue": ""}, "queue"),
    "a priority that is no number": ((say, "a"), {"priority": "high"}, "priority"),
}


@pytest.mark.parametrize(("args", "options", "named"), REQUESTS.values(), ids=REQUESTS)
async def test_a_request_that_makes_no_sense_is_refused_and_named(database, args, options, named):
    async with app_on(database, WORKFLOWS, worker=False) as app:
        with pytest.raises(StepfastError, match=named) as raised:
            await app.start(*args, **options)
        assert raised.value.code.startswith("E-")
        assert await app.runs() == []


@pytest.mark.parametrize("delay", ABSURD.values(), ids=ABSURD)
async def test_a_delay_that_nobody_can_wait_for_is_refused(database, delay):
    async with app_on(database, WORKFLOWS, worker=False) as app:
        with pytest.raises(StepfastError, match="delay") as raised:
            await app.start(say, "a", delay=delay)
        assert raised.value.code == "E-VAL-001"
        assert await app.runs() == []


@pytest.mark.parametrize(("started", "span"), [(nap, -1.0), (nap, 1e30), (attend, "-5s"), (attend, "9999999999d")])
async def test_a_wait_that_nobody_can_sit_out_fails_its_run(database, started, span):
    async with app_on(database, WORKFLOWS) as app:
        with pytest.raises(RunFailed) as raised:
            await (await app.start(started, span)).result(timeout="30s")
    assert getattr(raised.value.__cause__, "code", "") == "E-VAL-001"
