"""Basic control: steps follow each other, part and come together."""

from __future__ import annotations

import pytest


async def test_wcp_01_in_a_sequence_a_step_begins_when_the_one_before_it_has_ended(stage):
    scene = await stage(1)
    await scene.run()
    assert scene.tasks.begun == scene.tasks.ended == ["pack", "ship"]
    assert scene.tasks.most_at_once == 1


async def test_wcp_02_after_a_parallel_split_both_ways_are_under_way_together(stage):
    scene = await stage(2)
    scene.tasks.together("photo", "badge")
    await scene.run()
    assert scene.tasks.ended[0] == "enrol"
    assert sorted(scene.tasks.ended[1:]) == ["badge", "photo"]


@pytest.mark.parametrize(("first", "second"), [("photo", "badge"), ("badge", "photo")])
async def test_wcp_03_a_synchronization_waits_for_all_ways_whichever_is_last(stage, first, second):
    scene = await stage(3)
    scene.tasks.after(second, first)
    await scene.run()
    assert scene.tasks.ended == [first, second, "welcome"]


@pytest.mark.parametrize(("amount", "way"), [(1_001, "ask"), (1_000, "pay")])
async def test_wcp_04_an_exclusive_choice_takes_one_way_and_leaves_the_other(stage, amount, way):
    scene = await stage(4)
    await scene.run(amount=amount)
    assert scene.tasks.begun == [way]


@pytest.mark.parametrize("way", ["mail", "phone"])
async def test_wcp_05_behind_a_simple_merge_the_run_goes_on_once_after_the_way_that_was_taken(stage, way):
    scene = await stage(5)
    await scene.run(by=way)
    assert scene.tasks.ended == [way, "file"]
