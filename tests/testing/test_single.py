"""One step alone: its body as a run would call it."""

from __future__ import annotations

from datetime import date

import pytest

from stepfast import Invalid, current_run, progress, step
from stepfast.testing import run_step
from tests.support.workflows import say


@step
async def book(day: date, seats: list[int]) -> dict[str, str]:
    seats.append(99)
    progress(1, 2)
    return {"day": str(day), "run": current_run().workflow}


@step
def add(first: int, second: int = 1) -> int:
    return first + second


async def test_a_body_runs_with_its_place_known_and_cannot_change_what_it_was_given():
    seats = [1, 2]
    assert await run_step(book, date(2026, 5, 1), seats) == {"day": "2026-05-01", "run": "book"}
    assert seats == [1, 2]


async def test_a_def_step_runs_in_a_thread_of_its_own():
    assert await run_step(add, 1, second=2) == 3


async def test_an_error_of_the_body_comes_as_it_is():
    @step
    async def fail() -> None:
        raise ConnectionError("away")

    with pytest.raises(ConnectionError, match="away"):
        await run_step(fail)


async def test_a_result_that_no_run_could_store_is_refused():
    @step
    async def give() -> object:
        return object()

    with pytest.raises(Invalid, match="cannot be stored"):
        await run_step(give)


@pytest.mark.parametrize("given", [len, say, "book", None])
async def test_what_is_no_step_is_refused(given):
    with pytest.raises(Invalid, match="is no step: mark the function with @step"):
        await run_step(given)
