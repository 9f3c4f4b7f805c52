"""Ids that sort by the moment they were made."""

from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RANDOM_BITS, Ids

MOMENTS = st.lists(st.integers(1_700_000_000_000, 1_700_000_000_900), min_size=2, max_size=50)
BITS = st.integers(0, 2**RANDOM_BITS - 1)


@given(moments=MOMENTS, data=st.data())
def test_ids_of_one_maker_grow_whatever_the_clock_does_within_a_second(moments, data):
    ids = Ids()
    made = [ids.next(Instant(moment), data.draw(BITS)) for moment in moments]
    assert made == sorted(set(made))


def test_a_clock_that_was_set_back_by_an_hour_is_followed():
    ids = Ids()
    late = ids.next(Instant(1_700_003_600_000), 1)
    assert ids.next(Instant(1_700_000_000_000), 1) < late
