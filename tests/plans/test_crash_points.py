"""Plans survive the death of their process at every point, on both stores."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepfast import RunFailed
from stepfast.testing import Engine, crash_points
from stepfast.workflows.plans.plan import (
    Block,
    Constant,
    Do,
    Each,
    Gate,
    JoinRule,
    OnFailure,
    Parallel,
    Set,
    Sleep,
    While,
)
from tests.faults.test_crash_points import emptied
from tests.plans.harness import Executors, output, plan_workflow, step, use, value

RAN: Counter[str] = Counter()


async def work(name: str, a: int = 0) -> int:
    RAN[name] += 1
    return a + 1


async def refuse(name: str) -> int:
    RAN[name] += 1
    raise ValueError(name)


async def undo(name: str) -> None:
    RAN[name] += 1


EXECUTORS = Executors(work=work, refuse=refuse, undo=undo)


def item(scope: Any) -> str:
    return f"item {scope['item']}"


BUSY = plan_workflow(
    step("first", use("work", name="first")),
    step("fan", use("work", name=value(item), a=output("first")), each=Each(Constant([1, 2, 3]), at_once=2)),
    step("gone", use("work", name="gone"), when=Constant(False)),
    step("nap", Sleep(Constant("1h")), needs=("first",)),
    step(
        "both",
        Parallel((step("left", use("work", name="left")), step("right", use("refuse", name="right"))), JoinRule("any")),
        needs=("nap",),
    ),
    step(
        "loop",
        use("work", name="loop", a=value(lambda scope: scope["output"] or 0)),
        loop=While(value(lambda scope: (scope["output"] or 0) < 2)),
    ),
    step("seen", use("work", name="seen"), needs=("both",), after=Gate()),
    step(
        "sum", Set(value(lambda scope: sum(scope["steps"]["fan"]["output"]["results"]), "fan")), needs=("seen", "gone")
    ),
    executors=EXECUTORS,
    name="busy",
)

UNDONE = plan_workflow(
    step(
        "group",
        Do(
            Block(
                (
                    step("one", use("work", name="one"), undo=use("undo", name="undo one")),
                    step("two", use("work", name="two"), undo=use("undo", name="undo two")),
                    step("bad", use("refuse", name="bad")),
                ),
                is_sequence=True,
            )
        ),
        on_failure=OnFailure.COMPENSATE,
    ),
    executors=EXECUTORS,
    name="undone",
)


async def walk_all(opened: Engine) -> Any:
    RAN.clear()
    run = await opened.start(BUSY)
    while not (questions := await opened.reviews(run)):
        await opened.run_until_idle()
        opened.clock.advance(3_600)
    await opened.decide(questions[0], "continue", actor="ann")
    result = await opened.result(run)
    for name, times in RAN.items():
        assert 1 <= times <= (2 if name == "loop" else 1) + opened.crashes, f"P9: {name} ran {times} times."
    return result, {record.call.address: record.state for record in await run.steps()}


async def undo_all(opened: Engine) -> Any:
    RAN.clear()
    run = await opened.start(UNDONE)
    with pytest.raises(RunFailed, match="bad"):
        await opened.result(run)
    assert {name for name in RAN if name.startswith("undo")} == {"undo one", "undo two"}
    undone = [record.call.name for record in await run.steps() if record.kind == "undo"]
    assert undone == ["two.undo", "one.undo"]
    return undone


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    is_sqlite = database.startswith("sqlite")
    databases = {} if is_sqlite else {"databases": emptied(database)}
    return {"workflows": [BUSY, UNDONE], "every": 3 if is_sqlite else 7, **databases}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", [walk_all, undo_all])
async def test_a_plan_goes_on_where_its_process_died(options, scenario):
    tried = await crash_points(scenario, **options)
    assert len(tried.points) > 3
