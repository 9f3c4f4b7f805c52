"""State-based patterns: what may be done depends on where the run is, or on what else is under way."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import RunState


@pytest.mark.parametrize(("signal", "way"), [("paid", "ship"), ("cancelled", "restock")])
async def test_wcp_16_a_deferred_choice_is_made_by_what_happens_first(stage, signal, way):
    scene = await stage(16)
    run = await scene.start()
    await scene.go_on()
    assert await scene.state(run) is RunState.WAITING
    await scene.signal(run, signal)
    assert scene.tasks.begun == [way]
    assert await scene.state(run) is RunState.COMPLETED


async def test_wcp_17_interleaved_steps_keep_their_order_and_never_overlap(stage):
    scene = await stage(17)
    await scene.run()
    assert sorted(scene.tasks.ended) == ["blood", "lung", "xray"]
    assert scene.tasks.ended.index("xray") < scene.tasks.ended.index("lung")
    assert scene.tasks.most_at_once == 1


async def test_wcp_18_behind_a_milestone_the_task_cannot_be_done_any_more(stage):
    scene = await stage(18)
    run = await scene.start()
    await scene.signal(run, "change", "blue")
    await scene.signal(run, "change", "green")
    release = scene.tasks.hold("deliver")
    await scene.engine.signal(run, "close")
    working = asyncio.ensure_future(scene.go_on())
    await scene.tasks.begins("deliver")
    await scene.engine.signal(run, "change", "red")
    release.set()
    await working
    assert scene.tasks.begun == ["order", "change blue", "change green", "deliver"]
    assert await scene.state(run) is RunState.COMPLETED


async def test_wcp_39_only_one_part_at_a_time_is_in_the_critical_section(stage):
    scene = await stage(39)
    scene.tasks.together("prepare a", "prepare b")
    await scene.run(["a", "b"])
    inside = [each for each in scene.tasks.begun if not each.startswith("prepare")]
    assert inside in (["drill a", "clean a", "drill b", "clean b"], ["drill b", "clean b", "drill a", "clean a"])


async def test_wcp_40_interleaved_steps_are_each_done_once_and_never_overlap(stage):
    scene = await stage(40)
    await scene.run()
    assert sorted(scene.tasks.ended) == ["fuel", "oil", "tyres"]
    assert scene.tasks.most_at_once == 1
