"""`stepfast runs rerun --from`, `retry --step`, `rollback` and `skip`, for runs of a registered template."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast import Run, RunFailed, RunState, Stepfast, step
from tests.support.apps import QUICK

RAN: Counter[str] = Counter()
BROKEN: set[str] = set()


@step(name="plans_cli.do")
async def do(name: str) -> str:
    RAN[name] += 1
    if name in BROKEN:
        raise ValueError(name)
    return name


def use(step_id: str, **more: Any) -> dict[str, Any]:
    return {"id": step_id, "use": "plans_cli.do", "with": {"name": step_id}, "retry": {"attempts": 1}, **more}


CONTENT: dict[str, Any] = {
    "stepfast": 1,
    "workflow": "plans_cli",
    "version": 1,
    "steps": [use("a"), use("b", needs=["a"]), use("beside", needs=["a"]), use("c", needs=["b"])],
    "output": "${ steps.b.output }",
}


@pytest.fixture
async def worker(client: Stepfast) -> AsyncIterator[Stepfast]:
    """An app in whose hands the template is executed."""
    RAN.clear()
    BROKEN.clear()
    async with Stepfast(client.database, workflows=[], worker=QUICK, executors=[do]) as app:
        await app.register(CONTENT)
        yield app


async def completed(app: Stepfast) -> Run[Any]:
    run = await app.start("plans_cli")
    await run.result(timeout="60s")
    return run


async def failed(app: Stepfast, broken: str) -> Run[Any]:
    BROKEN.add(broken)
    run = await app.start("plans_cli")
    with pytest.raises(RunFailed):
        await run.result(timeout="60s")
    BROKEN.clear()
    return run


async def test_rerun_from_a_step_leaves_what_stands_beside_it(worker, office):
    run = await completed(worker)
    RAN.clear()
    answer = await office.json("runs", "rerun", run.id, "--from", "b")
    assert answer["generation"] == 2
    await run.result(timeout="60s")
    assert RAN == {"b": 1, "c": 1}


async def test_retry_of_a_step_that_failed(worker, office):
    run = await failed(worker, "b")
    await office("runs", "retry", run.id, "--step", "b")
    assert await run.result(timeout="60s") == "b"
    assert RAN["a"] == 1


async def test_rollback_holds_the_run_where_the_step_had_ended(worker, office):
    run = await completed(worker)
    answer = await office.json("runs", "rollback", run.id, "--to", "a")
    assert (answer["state"], answer["generation"]) == ("paused", 2)
    await office("runs", "resume", run.id)
    await run.result(timeout="60s")
    assert RAN == {"a": 1, "b": 2, "beside": 2, "c": 2}


async def test_rollback_to_an_event_goes_by_its_number(worker, office):
    run = await completed(worker)
    answer = await office.json("runs", "rollback", run.id, "--to", "1", "--actor", "ann")
    assert answer["state"] == "paused"
    assert all(each.superseded_by == 2 for each in await run.steps())


async def test_skip_gives_the_output_of_a_step(worker, office):
    run = await failed(worker, "b")
    done = await office("runs", "skip", run.id, "b", '"by hand"', "--reason", "done on paper")
    assert (done.code, done.out) == (0, f"Step b of run {run.id} is skipped; the run is pending.\n")
    assert await run.result(timeout="60s") == "by hand"


async def test_skip_of_a_completed_run_is_refused_by_its_state(worker, office):
    run = await completed(worker)
    done = await office("runs", "skip", run.id, "b", "1")
    assert (done.code, (await run.info()).state) == (4, RunState.COMPLETED)


async def test_superseded_records_are_shown_as_such(worker, office):
    run = await completed(worker)
    await office("runs", "rerun", run.id, "--from", "b")
    shown = await office.json("runs", "show", run.id)
    gone = {each["step"] for each in shown["steps"] if each["superseded_by"]}
    assert gone == {"b#1", "c#1"}, json.dumps(shown["steps"])
