"""What can be wrong with an expression: in its text, before it runs, and while it runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from itertools import islice

_MOST_COMPARED = 200
_LONGEST_COMPARED = 100


class ExpressionProblem(Exception):
    """A fault in the text of an expression, with the place where it stands."""

    def __init__(self, message: str, start: int, end: int, hint: str = "") -> None:
        super().__init__(message, start, end, hint)
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def moved(self, distance: int) -> ExpressionProblem:
        """The same fault in a longer text that begins earlier."""
        return ExpressionProblem(self.message, self.start + distance, self.end + distance, self.hint)


class Failed(Exception):
    """An operation that has no result for these values; `&&` and `||` may do without it.

    A reason that takes long to put into words is a function: most failures inside a walk over a list are never told.
    """

    def __init__(self, reason: str | Callable[[], str]) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason if isinstance(self.reason, str) else self.reason()


class Exhausted(Exception):
    """The cost budget of one evaluation is used up; nothing inside the expression can make up for that."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known name as a hint, or nothing; of very many names only the first are looked at."""
    candidates = [each for each in islice(known, _MOST_COMPARED) if len(each) <= _LONGEST_COMPARED]
    nearest = difflib.get_close_matches(name, candidates, 1) if len(name) <= _LONGEST_COMPARED else []
    return f"Did you mean '{nearest[0]}'?" if nearest else ""
