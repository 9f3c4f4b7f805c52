"""Iteration: something is done again and again."""

from __future__ import annotations

from stepfast import RunState


async def test_wcp_10_an_arbitrary_cycle_is_entered_and_left_at_several_places(stage):
    scene = await stage(10)
    run = await scene.start()
    for verdict in ("style", "facts", "good"):
        await scene.signal(run, "verdict", verdict)
    await scene.signal(run, "proof", "bad")
    await scene.signal(run, "verdict", "good")
    await scene.signal(run, "proof", "good")
    way = ["write", "check", "polish", "check", "write", "check", "print", "polish", "check", "print"]
    assert scene.tasks.ended == way
    assert await scene.engine.result(run) == len(way)


async def test_wcp_21_a_structured_loop_goes_round_as_long_as_its_condition_holds(stage):
    scene = await stage(21)
    scene.tasks.answers["collect"] = [{"missing": 2}, {"missing": 1}, {"missing": 0}]
    await scene.run()
    assert scene.tasks.ended == ["collect", "collect", "collect", "close"]


async def test_wcp_22_a_workflow_runs_itself_as_often_as_it_needs_to(stage):
    scene = await stage(22)
    assert await scene.run(5) == 5
    assert scene.tasks.ended == ["proofread"] * 5
    runs = await scene.engine.app.runs()
    assert len(runs) == 9
    assert {each.state for each in runs} == {RunState.COMPLETED}
