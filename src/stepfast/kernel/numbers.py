"""Whole numbers that people give: limits, versions, moments."""

from __future__ import annotations

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown

# What every store and driver can hold.
MAX_NUMBER = 2**53 - 1
MAX_PRIORITY = 1_000_000


def written(text: str) -> int | None:
    """The number that a text writes in plain digits, None for any other text; `MAX_NUMBER` stands for larger ones."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) <= len(str(MAX_NUMBER)) else MAX_NUMBER


def check_whole(what: str, number: object, lowest: int, highest: int = MAX_NUMBER) -> int:
    """Refuse what is no whole number, or lies outside these bounds."""
    if isinstance(number, bool) or not isinstance(number, int) or not lowest <= number <= highest:
        raise Invalid(f"{what} is {shown(number)}; use a whole number between {lowest:,} and {highest:,}.")
    return number


def is_count(value: object) -> bool:
    """Whether something is a number of things, one at least."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def check_priority(what: str, priority: object) -> int:
    """Refuse what no line is ordered by."""
    return check_whole(what, priority, -MAX_PRIORITY, MAX_PRIORITY)


def check_share(what: str, share: object) -> float:
    """Refuse what is no share of a whole."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise Invalid(f"{what} is {shown(share)}; use a number between 0 and 1.")
    return float(share)
