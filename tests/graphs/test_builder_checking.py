"""What makes a plan impossible, whoever wrote it."""

from __future__ import annotations

import graphlib
import itertools

from hypothesis import given
from hypothesis import strategies as st

from stepfast.workflows.plans.checking import Names, knots, problems_of, rings
from stepfast.workflows.plans.plan import (
    Block,
    Computed,
    Constant,
    Do,
    Each,
    Handler,
    Parallel,
    Plan,
    PlanStep,
    Set,
    Use,
)

NAMES = st.sampled_from("abcdefgh")
TIES = st.dictionaries(NAMES, st.frozensets(NAMES, max_size=4), max_size=8)


def a_step(step_id: str, *needs: str, reads: tuple[str, ...] = ()) -> PlanStep:
    references = tuple(("steps", name, "output") for name in reads)
    return PlanStep(step_id, Set(Computed(lambda scope: None, references)), needs=needs)


def problems(*steps: PlanStep, is_sequence: bool = False, executors: list[str] | None = None) -> list[str]:
    return [str(each) for each in problems_of(Plan("plan", 1, Block(steps, is_sequence)), executors)]


def test_a_good_plan_has_no_problems():
    assert problems(a_step("a"), a_step("b", "a"), a_step("c", reads=("a", "b"))) == []


def test_problems_come_in_the_order_of_the_steps_with_their_numbers():
    plan = Plan("plan", 1, Block((a_step("a", "x"), a_step("b"), a_step("b", "y"))))
    found = problems_of(plan)
    assert [(each.step, each.number) for each in found] == [("a", 0), ("b", 2), ("b", 2)]


def test_an_output_of_a_step_that_is_not_there_is_named():
    assert problems(a_step("build"), a_step("test", reads=("biuld",))) == [
        "step 'test' reads the output of 'biuld', which does not exist. Did you mean 'build'?"
    ]


def test_a_ring_through_a_step_inside_another_is_found():
    inner = PlanStep("outer", Do(Block((a_step("inner", "after"),))))
    (told,) = problems(inner, a_step("after", "outer"))
    assert "outer -> after -> outer" in told


def test_a_sequence_that_goes_against_a_need_is_a_ring():
    (told,) = problems(a_step("a", "b"), a_step("b"), is_sequence=True)
    assert "a -> b -> a" in told


def test_a_step_that_waits_for_what_it_stands_in_is_refused():
    (told,) = problems(PlanStep("outer", Do(Block((a_step("inner", "outer"),)))))
    assert "step 'inner' waits for 'outer', and is a part of it" in told


def test_a_step_that_is_done_when_another_fails_may_name_it():
    caught = PlanStep("post", Set(Constant(1)), catch=(Handler(Block((a_step("mend", "post"),))),))
    assert problems(caught) == []


def test_branches_that_wait_for_each_other_are_refused():
    (told,) = problems(PlanStep("both", Parallel((a_step("a"), a_step("b", reads=("a",))))))
    assert "step 'b' waits for 'a', and both are in one parallel group (b -> a)" in told


def test_an_item_of_many_cannot_be_named_from_outside():
    many = PlanStep("many", Do(Block((a_step("one"), a_step("two", "one")))), each=Each(Constant([1, 2])))
    assert problems(many, a_step("after", "many")) == []
    (told,) = problems(many, a_step("after", "two"))
    assert "names 'two', which is done many times inside 'many'" in told


def test_executors_are_looked_for_in_undos_too():
    step = PlanStep("post", Use("web.post", Constant({})), undo=Use("web.delete", Constant({})))
    (told,) = problems(step, executors=["web.post", "web.delte"])
    assert "uses 'web.delete', and there is no such executor. Did you mean 'web.delte'?" in told


def test_a_long_ring_and_a_long_chain_are_walked_without_recursion():
    count = 20_000
    ring = {str(n): {str((n + 1) % count)} for n in range(count)}
    (found,) = rings(ring)
    assert len(found) == count + 1
    assert list(rings({name: ties for name, ties in ring.items() if name != "0"})) == []


def test_looking_for_near_names_has_a_bound():
    names = Names(str(n) for n in range(100_000))
    hints = [names.nearest("9999x") for _ in range(1_000)]
    assert hints[0]
    assert not hints[-1]


@given(TIES)
def test_a_ring_is_found_exactly_where_no_order_exists(ties):
    known = {name: {tie for tie in onward if tie in ties and tie != name} for name, onward in ties.items()}
    try:
        list(graphlib.TopologicalSorter(known).static_order())
        has_order = True
    except graphlib.CycleError:
        has_order = False
    assert has_order is not bool(list(knots(known)))


@given(TIES)
def test_a_ring_that_is_told_is_one(ties):
    known = {name: onward - {name} for name, onward in ties.items()}
    for ring in rings(known):
        assert ring[0] == ring[-1]
        assert len(set(ring)) == len(ring) - 1 > 1
        assert all(later in known[earlier] for earlier, later in itertools.pairwise(ring))
