"""Multiple instances: a task is done several times, and some or all of that is waited for."""

from __future__ import annotations

from stepfast import RunState


async def test_wcp_12_a_run_that_does_not_synchronize_ends_before_the_instances_that_it_started(stage):
    scene = await stage(12)
    run = await scene.start(["ann", "bob"])
    assert await run.execute() is RunState.COMPLETED
    assert scene.tasks.begun == []
    await scene.go_on()
    assert sorted(scene.tasks.ended) == ["remind ann", "remind bob"]


async def test_wcp_13_what_follows_waits_for_all_instances_that_the_author_wrote_down(stage):
    scene = await stage(13)
    scene.tasks.together("sign director", "sign auditor", "sign notary")
    await scene.run()
    assert sorted(scene.tasks.ended[:3]) == ["sign auditor", "sign director", "sign notary"]
    assert scene.tasks.ended[3:] == ["file"]


async def test_wcp_14_there_are_as_many_instances_as_an_earlier_step_has_found(stage):
    scene = await stage(14)
    scene.tasks.answers["count"] = [{"parcels": ["a", "b"]}]
    scene.tasks.together("weigh a", "weigh b")
    await scene.run()
    assert scene.tasks.ended[0] == "count"
    assert sorted(scene.tasks.ended[1:3]) == ["weigh a", "weigh b"]
    assert scene.tasks.ended[3:] == ["load"]


async def test_wcp_15_instances_are_added_while_others_are_under_way(stage):
    scene = await stage(15)
    scene.tasks.after("hear ann", "hear bob")
    run = await scene.start()
    await scene.engine.signal(run, "witness", "ann")
    await scene.signal_while(run, "hear ann", "witness", "bob")
    assert scene.tasks.ended == ["hear bob", "hear ann"]
    assert await scene.state(run) is RunState.WAITING
    await scene.signal(run, "witness", None)
    assert scene.tasks.ended == ["hear bob", "hear ann", "report"]
    assert await scene.state(run) is RunState.COMPLETED


async def test_wcp_34_two_of_three_instances_let_the_run_go_on_and_the_third_ends(stage):
    scene = await stage(34)
    scene.tasks.when_begun("examine bob", "diagnose")
    scene.tasks.after("diagnose", "examine bob")
    await scene.run()
    assert sorted(scene.tasks.ended[:2]) == ["examine ann", "examine cem"]
    assert scene.tasks.ended[2:] == ["examine bob", "diagnose"]
    assert scene.tasks.called_off == []


async def test_wcp_35_two_of_three_instances_let_the_run_go_on_and_the_third_is_called_off(stage):
    scene = await stage(35)
    scene.tasks.hold("examine bob")
    await scene.run()
    assert sorted(scene.tasks.ended[:2]) == ["examine ann", "examine cem"]
    assert scene.tasks.ended[2:] == ["diagnose"]
    assert scene.tasks.called_off == ["examine bob"]


async def test_wcp_36_each_end_of_an_instance_decides_anew_whether_that_is_enough(stage):
    scene = await stage(36)
    scene.tasks.hold("ask bob")
    run = await scene.start(["ann", "bob"])
    # One of two is not enough, and of three it takes two.
    await scene.signal_while(run, "ask ann", "member", "cem")
    assert scene.tasks.ended == ["ask ann", "ask cem", "decide"]
    assert await scene.state(run) is RunState.COMPLETED
