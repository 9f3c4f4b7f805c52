"""The tables of legal moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.errors import IllegalMove
from stepfast.kernel.states import ENDED, OPEN, RUN_MOVES, RunState, check_move, is_legal

STATES = st.sampled_from(list(RunState))
MOVES = st.sampled_from([move.name for move in RUN_MOVES])


@given(state=STATES, move=MOVES)
def test_a_move_is_refused_exactly_when_the_table_does_not_hold_it(state, move):
    sources = next(each.sources for each in RUN_MOVES if each.name == move)
    if state in sources:
        check_move("r", state, move)
    else:
        with pytest.raises(IllegalMove) as refused:
            check_move("r", state, move)
        assert refused.value.code == "E-RUN-003"


@given(state=st.sampled_from(sorted(ENDED)))
def test_an_ended_run_moves_only_by_opening_a_new_generation(state):
    legal = {move.name for move in RUN_MOVES if is_legal(state, move.name)}
    assert legal <= {"retry", "rerun", "skip", "rollback"}


def test_every_state_is_either_open_or_ended():
    assert set(RunState) == ENDED | OPEN
    assert not ENDED & OPEN


def test_every_open_state_can_be_cancelled():
    assert all(is_legal(state, "cancel") for state in OPEN)


def test_every_ended_state_can_be_reached():
    reached = set().union(*(move.targets for move in RUN_MOVES))
    assert reached >= ENDED


@given(state=STATES, move=MOVES)
def test_a_refusal_names_the_run_its_state_and_the_next_step(state, move):
    if is_legal(state, move):
        return
    with pytest.raises(IllegalMove) as refused:
        check_move("0198-abc", state, move)
    message = str(refused.value)
    assert "0198-abc" in message
    assert state in message
    assert "`stepfast runs" in message
