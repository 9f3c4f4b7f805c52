"""Search by a pattern in time that grows with the text and never explodes: all ways to match are followed at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from stepfast.workflows.expressions.budget import Meter, spend
from stepfast.workflows.expressions.patterns import (
    Characters,
    Choice,
    Part,
    Place,
    Repeat,
    Sequence,
    is_word,
    read_pattern,
)
from stepfast.workflows.expressions.problems import Failed

_MAX_SIZE = 2_000
_KEPT_PATTERNS = 128
_KEPT_MOVES = 2_000
# What is remembered of earlier searches makes a step cheap, but a budget must not depend on it.
_SEARCHED_AT_ONCE = 4

_START = ""
"""What stands before the first character, and after the last."""


def pattern_of(text: str) -> Pattern:
    """The pattern, ready to search; raises `Failed` for one that is not RE2's."""
    found = _known_pattern(text)
    if isinstance(found, str):
        raise Failed(found)
    return found


def metered_pattern(text: str, meter: Meter) -> Pattern:
    """The same where the pattern is part of what is evaluated; a bad one costs as much as the largest."""
    found = _known_pattern(text)
    spend(meter, (_MAX_SIZE if isinstance(found, str) else len(found.ways)) // _SEARCHED_AT_ONCE + 1)
    return pattern_of(text)


@lru_cache(_KEPT_PATTERNS)
def _known_pattern(text: str) -> Pattern | str:
    """The pattern, or why it is none."""
    try:
        return Pattern(read_pattern(text))
    except Failed as failure:
        return str(failure)


class Pattern:
    """A network of points; a search walks over the sets of points that can be reached, and remembers how."""

    def __init__(self, part: Part) -> None:
        self.tests: list[Characters | Place | None] = []
        self.ways: list[tuple[int, ...]] = []
        self.goal = self.point(None, ())
        self.entry = self.lead(part, self.goal)
        self.start = _Stand(frozenset({self.entry}), _START)
        self.known: dict[tuple[frozenset[int], str], _Stand] = {}
        self.moves = 0

    def is_in(self, text: str, meter: Meter) -> bool:
        """Whether any part of the text matches."""
        spend(meter, (len(text) + 1) * (len(self.ways) // _SEARCHED_AT_ONCE + 1))
        stand: _Stand | None = self.start
        for character in text:
            if stand is None:
                return True
            after = stand.moves.get(character, self.start)
            # The start is never come back to, so it can stand for what is not known yet.
            stand = self.move(stand, character) if after is self.start else after
        return stand is None or self.reach(stand, _START)[1]

    def point(self, test: Characters | Place | None, ways: tuple[int, ...]) -> int:
        if len(self.ways) >= _MAX_SIZE:
            raise Failed("the pattern is too large; repeat less in it")
        self.tests.append(test)
        self.ways.append(ways)
        return len(self.ways) - 1

    def lead(self, part: Part, then: int) -> int:
        """The point from which a part leads to another point."""
        match part:
            case Characters() | Place():
                return self.point(part, (then,))
            case Choice():
                return self.point(None, tuple([self.lead(each, then) for each in part.parts]))
            case Repeat():
                return self.lead_repeat(part, then)
            case Sequence():
                for each in reversed(part.parts):
                    then = self.lead(each, then)
                return then
            case _:
                raise AssertionError(part)

    def lead_repeat(self, repeat: Repeat, then: int) -> int:
        entry = then
        if repeat.high is None:
            entry = self.point(None, ())
            self.ways[entry] = (self.lead(repeat.part, entry), then)
        else:
            for _ in range(repeat.high - repeat.low):
                entry = self.point(None, (self.lead(repeat.part, entry), then))
        for _ in range(repeat.low):
            entry = self.lead(repeat.part, entry)
        return entry

    def move(self, stand: _Stand, character: str) -> _Stand | None:
        """Where a character leads; nowhere further (None) once something has matched."""
        points, is_done = self.reach(stand, character)
        after = None if is_done else self.stand_at(points, character)
        if self.moves >= _KEPT_MOVES:
            self.forget()
        stand.moves[character] = after
        self.moves += 1
        return after

    def stand_at(self, points: Iterable[int], character: str) -> _Stand:
        taken = frozenset(self.ways[point][0] for point in points if self.takes(point, character)) | {self.entry}
        # Only that much of the last character matters to what comes.
        last = "\n" if character == "\n" else "w" if is_word(character) else " "
        return self.known.setdefault((taken, last), _Stand(taken, last))

    def takes(self, point: int, character: str) -> bool:
        test = self.tests[point]
        return isinstance(test, Characters) and test.has(character)

    def reach(self, stand: _Stand, coming: str) -> tuple[set[int], bool]:
        """All points that can be reached without a character, and whether the goal is among them."""
        reached: set[int] = set()
        waiting = list(stand.points)
        while waiting:
            point = waiting.pop()
            if point in reached:
                continue
            reached.add(point)
            test = self.tests[point]
            if test is None or (isinstance(test, Place) and _is_at(test.sign, stand.last, coming)):
                waiting.extend(self.ways[point])
        return reached, self.goal in reached

    def forget(self) -> None:
        for stand in self.known.values():
            stand.moves.clear()
        self.known.clear()
        self.start.moves.clear()
        self.moves = 0


class _Stand:
    """Where a search stands: the points, and what kind of character was last."""

    __slots__ = ("last", "moves", "points")

    def __init__(self, points: frozenset[int], last: str) -> None:
        self.points = points
        self.last = last
        self.moves: dict[str, _Stand | None] = {}


def _is_at(sign: str, last: str, coming: str) -> bool:
    match sign:
        case "\\A":
            return last == _START
        case "\\z":
            return coming == _START
        case "(?m)^":
            return last in (_START, "\n")
        case "(?m)$":
            return coming in (_START, "\n")
        case "\\b":
            return is_word(last) != is_word(coming)
        case _:
            return is_word(last) == is_word(coming)
