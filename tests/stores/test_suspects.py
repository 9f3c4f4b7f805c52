"""How many runs a worker may hold beside a suspect, and how many suspects it may take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.suspects import company, room_beside, suspect_rooms


@given(concurrency=st.integers(1, 10_000), held=st.lists(st.integers(0, 20), max_size=50))
def test_a_worker_never_holds_more_than_its_most_suspicious_run_allows(concurrency, held):
    room = room_beside(held, len(held), concurrency)
    assert room == 0 or len(held) + room <= min(
        (company(crashes, concurrency) for crashes in held), default=concurrency
    )


@given(concurrency=st.integers(1, 10_000), held=st.lists(st.integers(0, 20), max_size=50))
def test_no_suspect_is_taken_into_larger_company_than_its_own(concurrency, held):
    for level, room in enumerate(suspect_rooms(held, len(held), concurrency), start=1):
        assert room == 0 or len(held) + room <= company(level, concurrency)


@given(concurrency=st.integers(1, 10_000))
def test_enough_crashes_leave_a_run_alone(concurrency):
    assert company(8, concurrency) == 1
