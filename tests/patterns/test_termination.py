"""Termination: how a run comes to its end."""

from __future__ import annotations

from stepfast import RunState


async def test_wcp_11_a_run_ends_when_nothing_is_left_to_do(stage):
    scene = await stage(11)
    scene.tasks.after("parcel", "invoice")
    run = await scene.start()
    await scene.go_on()
    assert scene.tasks.ended == ["letter", "invoice", "parcel"]
    assert await scene.state(run) is RunState.COMPLETED


async def test_wcp_43_a_run_ends_where_it_says_so_and_what_is_under_way_is_called_off(stage):
    scene = await stage(43)
    scene.tasks.hold("search")
    scene.tasks.when_begun("confess", "search")
    assert await scene.run() == "solved"
    assert scene.tasks.ended == ["confess"]
    assert scene.tasks.called_off == ["search"]
