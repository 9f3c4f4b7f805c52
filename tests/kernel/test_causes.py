"""What equal failures have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.causes import GROUP_DIGITS, SHAPE_LENGTH, group_id, is_group_id, shape_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 refused", "order 18 refused"),
        ("took 1.5 s", "took 12:30 s"),
        ("no user 'ann'", "no user 'ben'"),
        ('no user "ann"', 'no user "ben"'),
        ("no run 0198c1f2-7c1b-7d3a-9c56-0d4f6b8a1e22", "no run 01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22"),
        ("at 0x7f23b6b7ce10", "at 0x7f23b6baf990"),
        ("commit 9a9e471f0 is gone", "commit 7002697ab is gone"),
        ("refused\nbecause of 1", "refused\nfor another reason"),
    ],
)
def test_what_differs_between_equal_failures_is_left_out(one, other):
    assert shape_of("ValueError", one) == shape_of("ValueError", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ValueError", "no"), ("KeyError", "no")),
        (("ValueError", "no card"), ("ValueError", "no bank")),
        (("ValueError", "no", "charge#1"), ("ValueError", "no", "ship#1")),
        (("ValueError", "no", "charge#1"), ("ValueError", "no")),
    ],
)
def test_other_failures_have_another_shape(one, other):
    assert shape_of(*one) != shape_of(*other)


@pytest.mark.parametrize("step", ["charge#1", "charge#22", "1/charge#1", "1.20.3/charge#4"])
def test_a_step_is_told_by_its_name_alone(step):
    assert shape_of("ValueError", "no", step) == "charge: ValueError: no"


@given(st.text(), st.text(), st.none() | st.text())
def test_a_shape_has_bounds_and_is_no_group_id(error_type, message, step):
    shape = shape_of(error_type, message, step)
    assert len(shape) <= SHAPE_LENGTH
    assert not is_group_id(shape)


def test_a_group_is_named_by_all_that_its_items_share():
    names = [group_id("failed", "order", "a"), group_id("failed", "mail", "a"), group_id("blocked", "order", "a")]
    assert len({*names, group_id("failed", "order", "a")}) == 3
    assert [is_group_id(name) for name in names] == [True] * 3
    assert {len(name) for name in names} == {GROUP_DIGITS}
