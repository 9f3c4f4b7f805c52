"""Commands about the steps of a plan are carried out whole and once, wherever the process dies around them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepfast import RunFailed, RunState, StepfastError
from stepfast.testing import Engine, crash_points
from stepfast.workflows.plans.plan import Constant, Sleep
from tests.faults.test_crash_points import emptied
from tests.plans.harness import Executors, plan_workflow, step, use, value

RAN: Counter[str] = Counter()
BROKEN = {"bad"}


async def do(name: str, a: int = 0) -> int:
    RAN[name] += 1
    if name in BROKEN:
        raise ValueError(name)
    return a + 1


def work(name: str, *after: str, **options: Any) -> Any:
    """A step that adds up the outputs of others."""

    def total(scope: Any) -> int:
        return sum(scope["steps"][each].get("output") or 0 for each in after)

    return step(name, use("do", name=name, a=value(total, *after)), **options)


SLEEPY = plan_workflow(
    work("a"),
    step("nap", Sleep(Constant("1h")), needs=("a",)),
    work("bad", "a", needs=("nap",)),
    work("after", "bad"),
    executors=Executors(do=do),
    name="sleepy",
)

DIAMOND = plan_workflow(
    work("a"), work("b", "a"), work("beside", "a"), work("c", "b"), executors=Executors(do=do), name="diamond"
)


def keyed(key: str) -> str | None:
    """The key under which a command that is given again is carried out once."""
    return key


async def skipping(opened: Engine) -> Any:
    """Skip a step that waits, then one that failed."""
    run = await opened.start(SLEEPY)
    while (await opened.insist(run.info)).state is not RunState.WAITING:
        await opened.run_until_idle()
    await opened.insist(lambda: run.skip("nap", key=keyed("nap")))
    with pytest.raises(RunFailed):
        await opened.result(run)
    await opened.insist(lambda: run.skip("bad", output=40, key=keyed("bad")))
    result = await opened.result(run)
    given = [each.call.name for each in await opened.insist(run.steps) if each.kind == "given"]
    assert given == ["nap", "bad"]
    return result


async def rerunning(opened: Engine) -> Any:
    """Run a step again, and what rests on it."""
    RAN.clear()
    run = await opened.start(DIAMOND)
    first = await opened.result(run)
    await opened.insist(lambda: run.rerun(from_step="b", key=keyed("again")))
    assert await opened.result(run) == first
    superseded = {each.call.name for each in await opened.insist(run.steps) if each.superseded_by}
    assert superseded == {"b", "c"}
    assert RAN["beside"] <= 1 + opened.crashes
    return first, (await opened.insist(run.info)).generation


async def rolling_back(opened: Engine) -> Any:
    """Take a run back to a step, look at it, and let it go on."""
    run = await opened.start(DIAMOND)
    first = await opened.result(run)
    await opened.insist(lambda: run.rollback("a", key=keyed("back")))
    assert (await opened.insist(run.info)).state is RunState.PAUSED
    events = [each.type for each in await opened.insist(run.history)]
    assert events.count("rolled_back") == 1
    await opened.insist(lambda: run.resume(key="on"))
    assert await opened.result(run) == first
    return first, (await opened.insist(run.info)).generation


SCENARIOS = [skipping, rerunning, rolling_back]


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    is_sqlite = database.startswith("sqlite")
    databases = {} if is_sqlite else {"databases": emptied(database)}
    return {"workflows": [SLEEPY, DIAMOND], "every": 3 if is_sqlite else 9, **databases}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_command_is_carried_out_once_wherever_the_process_dies(options, scenario):
    tried = await crash_points(scenario, **options)
    assert len(tried.points) > 3


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_broken_twin_without_a_key_is_found_out(options, scenario, monkeypatch):
    monkeypatch.setattr("tests.plans.test_control_crashes.keyed", lambda key: None)
    with pytest.raises((AssertionError, StepfastError)):
        await crash_points(scenario, **{**options, "every": 1})
