"""Advanced branching and synchronization: some of several ways are taken, and some of them are waited for."""

from __future__ import annotations

import pytest

from stepfast import RunState


async def test_wcp_06_a_multi_choice_takes_every_way_whose_condition_holds(stage):
    scene = await stage(6)
    scene.tasks.together("police", "doctor")
    run = await scene.start(call={"crime": True, "fire": False, "injured": 2})
    await scene.go_on()
    assert sorted(scene.tasks.ended) == ["doctor", "police"]
    assert await scene.skipped(run) == {"engine"}


@pytest.mark.parametrize(
    ("call", "ways"),
    [
        ({"crime": True, "fire": True}, ["engine", "police"]),
        ({"crime": False, "fire": True}, ["engine"]),
        ({"crime": False, "fire": False}, []),
    ],
)
async def test_wcp_07_a_synchronizing_merge_waits_for_the_ways_that_were_taken_and_no_others(stage, call, ways):
    scene = await stage(7)
    scene.tasks.together(*ways)
    await scene.run(call=call)
    assert sorted(scene.tasks.ended[:-1]) == ways
    assert scene.tasks.ended[-1] == "report"


async def test_wcp_08_behind_a_multi_merge_the_step_is_done_for_each_way_without_waiting_for_the_others(stage):
    scene = await stage(8)
    scene.tasks.after("lay floor", "inspect roof")
    await scene.run(["floor", "roof"])
    assert scene.tasks.ended == ["lay roof", "inspect roof", "lay floor", "inspect floor"]


async def test_wcp_09_a_discriminator_goes_on_after_the_first_branch_and_lets_the_other_end(stage):
    scene = await stage(9)
    scene.tasks.when_begun("pulse", "triage")
    scene.tasks.after("triage", "pulse")
    await scene.run()
    assert scene.tasks.ended == ["breathing", "pulse", "triage"]
    assert scene.tasks.called_off == []


async def test_wcp_28_a_blocking_discriminator_takes_no_second_arrival_before_all_have_arrived(stage):
    scene = await stage(28)
    run = await scene.start(2)
    await scene.signal(run, "north")
    await scene.signal(run, "north")
    assert scene.tasks.ended == ["open 0"]
    await scene.signal(run, "south")
    assert scene.tasks.ended == ["open 0", "open 1"]
    assert await scene.state(run) is RunState.WAITING
    await scene.signal(run, "south")
    assert await scene.state(run) is RunState.COMPLETED


async def test_wcp_29_a_cancelling_discriminator_calls_the_slower_branch_off(stage):
    scene = await stage(29)
    scene.tasks.hold("cheap")
    await scene.run()
    assert scene.tasks.ended == ["quick", "order"]
    assert scene.tasks.called_off == ["cheap"]


async def test_wcp_30_a_partial_join_goes_on_after_two_of_three_and_lets_the_third_end(stage):
    scene = await stage(30)
    scene.tasks.when_begun("bob", "decide")
    scene.tasks.after("decide", "bob")
    await scene.run()
    assert sorted(scene.tasks.ended[:2]) == ["ann", "cem"]
    assert scene.tasks.ended[2:] == ["bob", "decide"]
    assert scene.tasks.called_off == []


async def test_wcp_31_a_blocking_partial_join_begins_a_new_round_when_all_have_arrived(stage):
    scene = await stage(31)
    run = await scene.start(2)
    await scene.signal(run, "ann")
    assert scene.tasks.ended == []
    await scene.signal(run, "cem")
    await scene.signal(run, "ann")
    await scene.signal(run, "cem")
    assert scene.tasks.ended == ["verdict 0"]
    await scene.signal(run, "bob")
    assert scene.tasks.ended == ["verdict 0", "verdict 1"]
    await scene.signal(run, "bob")
    assert await scene.state(run) is RunState.COMPLETED


async def test_wcp_32_a_cancelling_partial_join_calls_the_third_branch_off(stage):
    scene = await stage(32)
    scene.tasks.hold("bob")
    await scene.run()
    assert sorted(scene.tasks.ended[:2]) == ["ann", "cem"]
    assert scene.tasks.ended[2:] == ["decide"]
    assert scene.tasks.called_off == ["bob"]


async def test_wcp_33_a_generalized_and_join_goes_on_once_for_each_complete_set(stage):
    scene = await stage(33)
    run = await scene.start(2)
    for wheels in ("w0", "w1"):
        await scene.signal(run, "wheels", wheels)
    assert scene.tasks.ended == []
    await scene.signal(run, "body", "b0")
    assert scene.tasks.ended == ["assemble 0 ['b0', 'w0']"]
    await scene.signal(run, "body", "b1")
    assert scene.tasks.ended == ["assemble 0 ['b0', 'w0']", "assemble 1 ['b1', 'w1']"]
    assert await scene.state(run) is RunState.COMPLETED


@pytest.mark.parametrize(
    ("noise", "is_old", "done"),
    [
        (True, True, {"listen", "repair", "brakes"}),
        (True, False, {"listen", "repair"}),
        (False, True, {"brakes"}),
        (False, False, set()),
    ],
)
async def test_wcp_37_a_local_synchronizing_merge_waits_for_what_is_open_and_no_more(stage, noise, is_old, done):
    scene = await stage(37)
    run = await scene.start(scene.module.Car(noise, is_old))
    await scene.go_on()
    assert set(scene.tasks.ended[:-1]) == done
    assert scene.tasks.ended[-1] == "bill"
    assert await scene.skipped(run) == {"listen", "repair", "brakes"} - done


async def test_wcp_38_a_general_synchronizing_merge_waits_until_nothing_can_arrive_any_more(stage):
    scene = await stage(38)
    pages = {"start": ["news", "shop"], "shop": ["cart", "news"], "cart": ["pay"]}
    await scene.run(pages)
    assert sorted(scene.tasks.ended[:-1]) == sorted(
        ["visit start", "visit news", "visit shop", "visit cart", "visit news", "visit pay"]
    )
    assert scene.tasks.ended[-1] == "index"


async def test_wcp_41_a_thread_merge_makes_one_thread_of_three(stage):
    scene = await stage(41)
    scene.tasks.together("print 1", "print 2", "print 3")
    await scene.run()
    assert sorted(scene.tasks.ended[:3]) == ["print 1", "print 2", "print 3"]
    assert scene.tasks.ended[3:] == ["bind [1, 2, 3]"]


async def test_wcp_42_after_a_thread_split_each_thread_goes_the_same_way_by_itself(stage):
    scene = await stage(42)
    scene.tasks.after("print 1", "fold 2")
    await scene.run(threads=[1, 2])
    assert scene.tasks.ended == ["print 2", "fold 2", "print 1", "fold 1"]
