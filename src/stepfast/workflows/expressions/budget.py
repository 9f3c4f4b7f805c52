"""What one evaluation may cost, counted in steps and never in time, so that a replay comes to the same end."""

from __future__ import annotations

from stepfast.workflows.expressions.problems import Exhausted

BUDGET = 1_000_000
"""Of parts of an expression that are evaluated, or of values that are looked at."""

# Copying texts and lists is that much quicker than evaluating.
COPIED_AT_ONCE = 16

# A list of one number: the cheapest thing in Python that several functions can count down.
Meter = list[int]


def new_meter() -> Meter:
    """A full budget."""
    return [BUDGET]


def spend(meter: Meter, cost: int) -> None:
    """Take something from the budget, or refuse when it does not hold that much."""
    meter[0] -= cost
    if meter[0] < 0:
        raise Exhausted(f"it costs more than the {BUDGET:,} steps that an expression may take")


def spend_copy(meter: Meter, size: int) -> None:
    """The same for that many characters, bytes or items that are copied or compared."""
    spend(meter, size // COPIED_AT_ONCE + 1)
