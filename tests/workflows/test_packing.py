"""Describing an error is quick whatever it carries, for the event loop of a worker stands still meanwhile."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stepfast.workflows.failures import describe

Make = Callable[[], BaseException]


def carrying(**attributes: object) -> ValueError:
    error = ValueError("x")
    vars(error).update(attributes)
    return error


def caused_by(cause: BaseException) -> RuntimeError:
    error = RuntimeError("outer")
    error.__cause__ = cause
    return error


def shared_parts(levels: int = 60) -> list[Any]:
    """A list that takes no room, and twice as long to be written out with every level."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value, value]
    return value


def calls_to_describe(make: Make) -> int:
    """How many functions are called to describe an error: a count of what would else be measured as time."""
    error = make()
    calls: Counter[str] = Counter()
    describe(ValueError("whatever is done once for all errors"))
    sys.setprofile(lambda _frame, event, _function: calls.update([event]))
    try:
        describe(error)
    finally:
        sys.setprofile(None)
    return calls["call"] + calls["c_call"]


# Made within the tests: a test that fails would else try to write them out.
VAST: dict[str, Make] = {
    "rows": lambda: carrying(rows=[[number, "name", 1.5] for number in range(100_000)]),
    "shared": lambda: carrying(shared=shared_parts()),
    "texts": lambda: carrying(**{f"text {number}": "v" * 3_000 for number in range(200)}),
    "lists": lambda: carrying(**{f"numbers {number}": list(range(10)) for number in range(1_000)}),
    "many rows": lambda: carrying(**{f"rows {number}": list(range(4_000)) for number in range(100)}),
    "attributes": lambda: carrying(**{f"number {number}": number for number in range(100_000)}),
    "argument": lambda: ValueError(list(range(1_000_000))),
    "arguments": lambda: ValueError(*range(1_000_000)),
    "dict": lambda: ValueError(dict.fromkeys(range(1_000_000))),
    "shared argument": lambda: ValueError(shared_parts()),
    "shared key": lambda: KeyError(shared_parts()),
    "shared in a cause": lambda: caused_by(ValueError(shared_parts())),
    "shared in a group": lambda: ExceptionGroup("all", [ValueError(shared_parts()) for _ in range(10)]),
}


@pytest.mark.parametrize("make", VAST.values(), ids=VAST)
def test_an_error_that_carries_or_says_much_is_described_without_a_look_at_all_of_it(make):
    assert calls_to_describe(make) < 500_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: carrying(body="é" * 10_000_000),
        lambda: carrying(body=b"x" * 20_000_000),
        lambda: ValueError("é" * 10_000_000),
    ],
    ids=["text", "bytes", "message"],
)
def test_a_long_text_is_cut_before_anything_is_made_of_it(make):
    error = make()
    describe(ValueError("whatever is done once for all errors"))
    tracemalloc.start()
    try:
        is_kept = describe(error).restorable
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert is_kept
    assert most_bytes < 2_000_000


def test_an_error_that_says_too_much_says_its_beginning_and_how_much_was_left_out():
    try:
        raise ValueError(list(range(1_000_000)))
    except ValueError as error:
        failure = describe(error)
    assert failure.message.startswith("[0, 1, 2, ")
    assert failure.message.endswith(" more left out ...']")
    assert failure.traceback.startswith("Traceback (most recent call last):\n  File ")
    assert "\nValueError: [0, 1, 2, " in failure.traceback


def test_an_argument_that_contains_itself_is_told_as_python_tells_it():
    value: list[Any] = []
    value.append(value)
    assert describe(ValueError(value)).message == "[[...]]"
