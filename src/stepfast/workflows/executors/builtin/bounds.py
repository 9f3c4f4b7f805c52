"""The limits of built-in executors, by their configs."""

from __future__ import annotations

from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid

LONGEST_S = 24 * 3_600.0


def timeout_s(given: float | str) -> float:
    """The time limit that a config gives, in seconds; refused when it is none."""
    span_s = span_ms(given, "timeout") / 1_000
    if not 0 < span_s <= LONGEST_S:
        raise Invalid(f"timeout is {given!r}; it must be longer than nothing, and a day at most.")
    return span_s


def timeout_problems(given: float | str) -> list[str]:
    """What is wrong with a time limit, for the check of a config."""
    try:
        timeout_s(given)
    except Invalid as error:
        return [f"timeout: {error}"]
    return []


def refuse(problems: list[str]) -> None:
    """Refuse a config that was given past its check."""
    if problems:
        raise Invalid(f"The config does not fit: {'; '.join(problems)}")


def bound_problems(name: str, number: int, lowest: int, highest: int) -> list[str]:
    """What is wrong with a number of a config."""
    if lowest <= number <= highest:
        return []
    return [f"{name}: it is {number:,}; it must lie between {lowest:,} and {highest:,}."]
