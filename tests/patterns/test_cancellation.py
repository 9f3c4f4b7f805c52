"""Cancellation and force completion: what is under way is called off, in whole or in part."""

from __future__ import annotations

import asyncio

from stepfast import RunState


async def test_wcp_19_a_task_is_called_off_and_the_run_goes_on(stage):
    scene = await stage(19)
    scene.tasks.hold("search")
    run = await scene.start()
    await scene.signal_while(run, "search", "stop")
    assert scene.tasks.called_off == ["search"]
    assert scene.tasks.ended == ["report"]
    assert await scene.state(run) is RunState.COMPLETED


async def test_wcp_20_a_case_is_cancelled_with_all_that_it_has_under_way(stage):
    scene = await stage(20)
    scene.tasks.hold("inspect")
    scene.tasks.hold("estimate")
    run = await scene.start()
    working = asyncio.ensure_future(scene.go_on())
    await scene.tasks.begins("inspect")
    await scene.tasks.begins("estimate")
    await scene.module.cancel_case(scene.engine.app, run.id)
    await working
    assert sorted(scene.tasks.called_off) == ["estimate", "inspect"]
    assert scene.tasks.ended == []
    assert await scene.state(run) is RunState.CANCELLED


async def test_wcp_25_a_region_is_cancelled_and_what_is_outside_of_it_goes_on(stage):
    scene = await stage(25)
    scene.tasks.hold("hotel")
    scene.tasks.after("passport", "flight")
    run = await scene.start()
    await scene.signal_while(run, "hotel", "withdraw")
    assert scene.tasks.called_off == ["hotel"]
    assert sorted(scene.tasks.ended[:2]) == ["flight", "passport"]
    assert scene.tasks.ended[2:] == ["close"]


async def test_wcp_26_all_instances_that_are_left_are_called_off_together(stage):
    scene = await stage(26)
    scene.tasks.hold("b")
    scene.tasks.hold("c")
    run = await scene.start(["a", "b", "c"])
    await scene.signal_while(run, "c", "stop")
    assert sorted(scene.tasks.called_off) == ["b", "c"]
    assert scene.tasks.ended == ["a", "report"]


async def test_wcp_27_instances_are_completed_by_force_and_the_run_uses_what_there_is(stage):
    scene = await stage(27)
    scene.tasks.hold("c c")
    run = await scene.start(["a", "b", "c"])
    await scene.signal_while(run, "c c", "enough")
    assert scene.tasks.called_off == ["c c"]
    assert scene.tasks.ended[-1] == "average ['a', 'b']"
    assert await scene.state(run) is RunState.COMPLETED
