"""Triggers: something that happens outside lets a run go on."""

from __future__ import annotations

from stepfast import RunState


async def test_wcp_23_a_transient_trigger_that_nobody_waits_for_is_lost(stage):
    scene = await stage(23)
    run = await scene.start()
    for _ in range(2):
        await scene.engine.signal(run, "alarm")
    await scene.go_on()
    assert scene.tasks.ended == ["arm"]
    assert await scene.state(run) is RunState.WAITING


async def test_wcp_23_a_transient_trigger_that_the_run_waits_for_counts(stage):
    scene = await stage(23)
    run = await scene.start()
    await scene.go_on()
    await scene.signal(run, "alarm")
    assert scene.tasks.ended == ["arm", "ring"]
    assert await scene.state(run) is RunState.COMPLETED


async def test_wcp_24_a_persistent_trigger_is_kept_until_the_run_comes_to_it(stage):
    scene = await stage(24)
    run = await scene.start()
    await scene.engine.signal(run, "parts")
    assert scene.tasks.begun == []
    await scene.go_on()
    assert scene.tasks.ended == ["heat", "cast"]
    assert await scene.state(run) is RunState.COMPLETED
