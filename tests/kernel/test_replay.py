"""Which record belongs to a call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.decisions import CallId, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NonDeterminism
from stepfast.kernel.replay import Replay, check_all_claimed
from stepfast.kernel.states import StepState

NOW = Instant(1)


def record(path, name, nth, digest="d", seq=1, state=StepState.COMPLETED):
    return Record(CallId(path, name, nth), "step", state, 1, digest, "{}", "1", None, NOW, NOW, seq=seq)


def differs(stored):
    return False


CALLS = st.lists(
    st.tuples(st.sampled_from(["", "1", "2", "1.1"]), st.sampled_from(["a", "b", "c"]), st.integers(1, 4)), unique=True
)


@given(calls=CALLS, order=st.randoms())
def test_each_call_gets_its_own_record_in_whatever_order_it_asks(calls, order):
    records = [record(path, name, nth, seq=seq) for seq, (path, name, nth) in enumerate(calls)]
    replay = Replay(records)
    asked = list(records)
    order.shuffle(asked)
    # Counts may have holes here, which a run's own calls never have; ask branch by branch in rising order.
    asked.sort(key=lambda each: each.call.nth)
    for each in asked:
        assert replay.find(each.call, each.digest, differs) is each
    assert replay.finished


@given(calls=CALLS)
def test_no_record_is_handed_out_twice(calls):
    replay = Replay([record(path, name, nth, seq=seq) for seq, (path, name, nth) in enumerate(calls)])
    handed = []
    for path, name, nth in [*calls, *calls]:
        try:
            found = replay.find(CallId(path, name, nth), "d", differs)
        except NonDeterminism:
            continue
        if found is not None:
            handed.append(found)
    assert len(handed) == len(set(handed)) == len(calls)


def test_an_end_that_leaves_records_out_names_the_last_step_before_them():
    replay = Replay([record("", name, 1, seq=seq) for seq, name in enumerate("abc", 1)])
    replay.find(CallId("", "a", 1), "d", differs)
    with pytest.raises(NonDeterminism, match="b#1, c#1; before them the last to end was a#1"):
        check_all_claimed(replay)


def test_an_end_that_leaves_the_first_record_out_names_the_beginning():
    with pytest.raises(NonDeterminism, match=r"before them nothing had ended \(event 1\)"):
        check_all_claimed(Replay([record("", "a", 1)]))


def test_other_arguments_are_refused_before_anything_runs():
    replay = Replay([record("", "charge", 1, digest="old")])
    with pytest.raises(NonDeterminism, match=r'charge#1 .* Recorded: \{\}; given: \{"cents": 5\}\.'):
        replay.find(CallId("", "charge", 1), "new", differs, '{"cents": 5}')


def test_arguments_that_equal_the_stored_ones_through_todays_types_fit():
    old = record("", "charge", 1, digest="old")
    assert Replay([old]).find(CallId("", "charge", 1), "new", lambda stored: True) is old


def test_a_call_that_moved_to_another_branch_finds_its_record_by_name_and_arguments():
    moved = record("1", "charge", 1, digest="same")
    assert Replay([moved]).find_elsewhere(CallId("2", "charge", 1), "same") is moved


def test_the_place_of_a_moved_call_is_known_before_it_is_claimed():
    replay = Replay([record("1", "charge", 1, seq=4, digest="same")])
    moved = CallId("2", "charge", 1)
    assert replay.place_elsewhere(moved, "same") == 4
    assert replay.place_elsewhere(moved, "other") is None
    assert replay.find_elsewhere(moved, "same") is not None
    assert replay.place_elsewhere(moved, "same") is None


def test_a_call_that_was_never_recorded_has_none():
    assert Replay([record("", "a", 1)]).find(CallId("", "b", 1), "d", differs) is None


def test_of_several_records_of_one_call_the_newest_counts():
    first = record("", "a", 1, seq=1, state=StepState.PENDING)
    last = record("", "a", 1, seq=2)
    assert Replay([first, last]).find(CallId("", "a", 1), "d", differs) is last


def test_an_end_that_leaves_out_recorded_steps_is_refused():
    with pytest.raises(NonDeterminism, match="charge#1"):
        check_all_claimed(Replay([record("", "charge", 1)]))


def test_a_step_that_was_still_being_tried_may_be_left_out():
    check_all_claimed(Replay([record("", "charge", 1, state=StepState.PENDING)]))


def test_what_was_made_behind_a_superseded_record_is_found_but_need_not_be_asked_for():
    before, behind = record("", "charge", 1, seq=1), record("", "charge", 3, seq=3)
    replay = Replay([before, behind], kept=3)
    assert replay.find(before.call, before.digest, differs) is before
    assert replay.find(CallId("", "charge", 2), "d", differs) is None
    assert replay.left_out() == []
    check_all_claimed(replay)
    assert replay.find(behind.call, behind.digest, differs) is behind


def test_what_was_made_behind_a_superseded_record_with_other_arguments_is_made_anew():
    behind = record("", "report", 1, seq=3, digest="what the failure left")
    replay = Replay([record("", "charge", 1, seq=1), behind], kept=3)
    assert replay.find(behind.call, "what the success gave", differs) is None
    assert [left.call.name for left in replay.unclaimed()] == ["charge"]


def test_what_the_present_generation_made_is_held_to():
    kept, behind, own = record("", "a", 1, seq=1), record("", "b", 1, seq=3), record("", "c", 1, seq=4)
    replay = Replay([kept, behind, own], kept=3)
    assert [left.call.name for left in replay.left_out()] == ["a", "c"]
    with pytest.raises(NonDeterminism, match="other arguments"):
        replay.find(own.call, "other", differs)


@given(seqs=st.sets(st.integers(1, 40), min_size=1), kept=st.integers(0, 40))
def test_only_what_lies_between_the_first_gap_and_the_last_record_kept_may_be_left_out(seqs, kept):
    gap = next(seq for seq in range(1, 50) if seq not in seqs)
    replay = Replay([record("", f"step {seq}", 1, seq=seq) for seq in sorted(seqs)], kept)
    assert {left.seq for left in replay.left_out()} == {seq for seq in seqs if not gap < seq <= kept}


def test_what_was_made_before_a_superseded_record_must_be_asked_for():
    replay = Replay([record("", "charge", 1, seq=1), record("", "bill", 1, seq=3)], kept=3)
    with pytest.raises(NonDeterminism, match="charge#1"):
        check_all_claimed(replay)
