"""The syntax of RE2's regular expressions, as far as a search that answers yes or no can use it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import NoReturn

from stepfast.workflows.expressions.problems import Failed
from stepfast.workflows.expressions.unicode import Ranges, cases, ranges_of_script

MAX_PATTERN = 1_000
_MAX_REPEAT = 1_000
_MAX_NESTING = 50
_HIGHEST = 0x10FFFF


class Part:
    """A part of a pattern."""


@dataclass(frozen=True)
class Characters(Part):
    """One character out of a set."""

    ranges: Ranges = ()
    categories: tuple[tuple[str, bool], ...] = ()
    """General categories of Unicode by the beginning of their names, and whether they are meant or all others."""
    negated: bool = False
    any_case: bool = False

    def has(self, character: str) -> bool:
        forms = cases(character) if self.any_case else (character,)
        return any(map(self._lists, forms)) != self.negated

    def _lists(self, character: str) -> bool:
        code = ord(character)
        if any(low <= code <= high for low, high in self.ranges):
            return True
        category = unicodedata.category(character) if self.categories else ""
        # RE2 counts what is not assigned among no category.
        category = "" if category == "Cn" else category
        return any(category.startswith(name) == meant for name, meant in self.categories)


@dataclass(frozen=True)
class Sequence(Part):
    """Parts one after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Choice(Part):
    """One of several parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Repeat(Part):
    """A part at least `low` and at most `high` times."""

    part: Part
    low: int
    high: int | None


@dataclass(frozen=True)
class Place(Part):
    """A condition on where we are; the signs are those of the pattern, with `(?m)` in front of those for lines."""

    sign: str


@dataclass(frozen=True)
class _Flags:
    any_case: bool = False
    lines: bool = False
    dot_all: bool = False


_FLAG_NAMES = {"i": "any_case", "m": "lines", "s": "dot_all"}
_FLAGS = re.compile(r"([imsU]*)(?:-([imsU]+))?([:)])")
_GROUP_NAME = re.compile(r"P?<([A-Za-z_][A-Za-z0-9_]*)>")
# A number with a zero in front counts nothing, and is plain text.
_COUNT = re.compile(r"\{(0|[1-9]\d{0,8})(?:(,)(0|[1-9]\d{0,8})?)?\}", re.ASCII)
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_PROPERTY = re.compile(r"[pP](?:\{(\^?)(\w+)\}|([A-Z]))", re.ASCII)
_HEX = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\})")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_CATEGORY = re.compile(r"L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfso]?")

_DIGITS: Ranges = ((48, 57),)
_WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Ranges = ((9, 10), (12, 13), (32, 32))
_PERL = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_POSIX_CLASSES: dict[str, Ranges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGITS,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _WORDS,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}


def is_word(character: str) -> bool:
    """Whether it counts for `\\b`."""
    return len(character) == 1 and (character == "_" or (character.isascii() and character.isalnum()))


def read_pattern(text: str) -> Part:
    """The parts of a pattern; what RE2 does not have, or cannot have in linear time, is refused."""
    if len(text) > MAX_PATTERN:
        raise Failed(f"the pattern has {len(text):,} characters; allowed are {MAX_PATTERN:,}")
    return _PatternReader(text).whole()


def _complement(ranges: Ranges) -> Ranges:
    gaps, next_free = [], 0
    for low, high in sorted(ranges):
        if low > next_free:
            gaps.append((next_free, low - 1))
        next_free = max(next_free, high + 1)
    if next_free <= _HIGHEST:
        gaps.append((next_free, _HIGHEST))
    return tuple(gaps)


def _spelled_out(characters: Characters) -> Characters:
    """A set as one of the members of another, which cannot be all but something."""
    if not characters.negated:
        return characters
    ranges = _complement(characters.ranges) if characters.ranges else ()
    return Characters(ranges, tuple((name, not meant) for name, meant in characters.categories))


class _PatternReader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.nesting = 0
        self.flags = _Flags()

    def whole(self) -> Part:
        part = self.choice()
        if self.at < len(self.text):
            self.refuse("a ')' closes nothing")
        return part

    def refuse(self, reason: str) -> NoReturn:
        raise Failed(f"the pattern is not one of RE2: {reason} (at character {self.at + 1})")

    def next_is(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if not self.next_is(text):
            return False
        self.at += len(text)
        return True

    def take_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def choice(self) -> Part:
        parts = [self.sequence()]
        while self.take("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self) -> Part:
        parts: list[Part] = []
        while self.at < len(self.text) and not self.next_is("|") and not self.next_is(")"):
            if self.take("\\Q"):
                parts.extend(self.literal_text())
                if parts:
                    parts.append(self.repeated(parts.pop()))
            elif not self.take("\\E"):
                parts.append(self.repeated(self.atom()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def literal_text(self) -> list[Part]:
        end = self.text.find("\\E", self.at)
        stop = len(self.text) if end < 0 else end
        quoted = self.text[self.at : stop]
        self.at = stop
        self.take("\\E")
        return [self.single(ord(character)) for character in quoted]

    def repeated(self, part: Part) -> Part:
        bounds = self.bounds()
        if bounds is None:
            return part
        self.take("?")
        if self.bounds() is not None:
            self.refuse("a repeat cannot be repeated without brackets around it")
        return Repeat(part, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.take(sign):
                return low, high
        count = self.take_match(_COUNT)
        if count is None:
            return None
        low = int(count[1])
        highest = low if not count[2] else int(count[3]) if count[3] else None
        if max(low, highest or 0) > _MAX_REPEAT or (highest is not None and highest < low):
            self.refuse(f"a repeat must lie between 0 and {_MAX_REPEAT:,}, the lower number first")
        return low, highest

    def atom(self) -> Part:
        sign = self.text[self.at]
        if sign in "*+?" or _COUNT.match(self.text, self.at):
            self.refuse(f"nothing stands before '{sign}'")
        self.at += 1
        match sign:
            case "(":
                return self.group()
            case "[":
                return self.bracketed()
            case ".":
                return Characters(((0, _HIGHEST),) if self.flags.dot_all else ((0, 9), (11, _HIGHEST)))
            case "^":
                return Place("(?m)^" if self.flags.lines else "\\A")
            case "$":
                return Place("(?m)$" if self.flags.lines else "\\z")
            case "\\":
                return self.escape()
            case _:
                return self.single(ord(sign))

    def single(self, code: int) -> Part:
        return Characters(((code, code),), any_case=self.flags.any_case)

    def group(self) -> Part:
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            self.refuse("it is nested too deeply")
        outer = self.flags
        if self.take("?") and not self.take_match(_GROUP_NAME) and self.flagged():
            self.nesting -= 1
            return Sequence(())
        part = self.choice()
        if not self.take(")"):
            self.refuse("a '(' is not closed")
        self.flags = outer
        self.nesting -= 1
        return part

    def flagged(self) -> bool:
        """Sets flags; whether they are for all that follows, rather than for a group."""
        match = self.take_match(_FLAGS)
        if match is None:
            self.refuse("it has no lookaround, backreferences, conditions or atomic groups")
        on = {_FLAG_NAMES[name]: True for name in match[1] if name in _FLAG_NAMES}
        off = {_FLAG_NAMES[name]: False for name in match[2] or "" if name in _FLAG_NAMES}
        self.flags = replace(self.flags, **on, **off)
        return match[3] == ")"

    def escape(self) -> Part:
        if self.at >= len(self.text):
            self.refuse("a backslash stands at the end")
        sign = self.text[self.at]
        if sign in "AzbB":
            self.at += 1
            return Place(f"\\{sign}")
        several = self.escaped_set()
        if several is not None:
            return replace(several, any_case=self.flags.any_case)
        return self.single(self.escaped_code())

    def escaped_set(self) -> Characters | None:
        sign = self.text[self.at]
        if sign.lower() in _PERL:
            self.at += 1
            return Characters(_PERL[sign.lower()], negated=sign.isupper())
        if sign not in "pP":
            return None
        match = self.take_match(_PROPERTY)
        name = (match[2] or match[3]) if match else ""
        if match is None:
            self.refuse("a property of Unicode is written like \\pL or \\p{Greek}")
        negated = (sign == "P") != bool(match[1])
        if _CATEGORY.fullmatch(name):
            return Characters(categories=((name, True),), negated=negated)
        script = ((0, _HIGHEST),) if name == "Any" else ranges_of_script(name)
        if script is None:
            self.refuse("of Unicode's properties it has general categories and scripts, such as \\p{Lu} and \\p{Greek}")
        return Characters(script, negated=negated)

    def escaped_code(self) -> int:
        sign = self.text[self.at]
        if sign in _CONTROLS:
            self.at += 1
            return _CONTROLS[sign]
        number = self.take_match(_HEX)
        if number:
            code = int(number[1] or number[2], 16)
            return code if code <= _HIGHEST else self.refuse("there is no such character")
        octal = self.take_match(_OCTAL)
        if octal:
            return int(octal[0], 8)
        if not sign.isascii() or sign.isalnum():
            self.refuse("it has no backreferences" if sign.isdigit() else f"\\{sign} is no escape sequence")
        self.at += 1
        return ord(sign)

    def bracketed(self) -> Part:
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        categories: list[tuple[str, bool]] = []
        is_first = True
        while is_first or not self.next_is("]"):
            if self.at >= len(self.text):
                self.refuse("a '[' is not closed")
            found = self.class_item()
            ranges.extend(found.ranges)
            categories.extend(found.categories)
            is_first = False
        self.at += 1
        return Characters(tuple(ranges), tuple(categories), negated, self.flags.any_case)

    def class_item(self) -> Characters:
        posix = self.take_match(_POSIX)
        if posix:
            if posix[2] not in _POSIX_CLASSES:
                self.refuse(f"there is no class [:{posix[2]}:]")
            ranges = _POSIX_CLASSES[posix[2]]
            return Characters(_complement(ranges) if posix[1] else ranges)
        if self.next_is("\\") and self.at + 1 < len(self.text):
            self.at += 1
            several = self.escaped_set()
            if several is not None:
                return _spelled_out(several)
            self.at -= 1
        low = self.class_code()
        high = low
        if self.next_is("-") and not self.next_is("-]") and self.at + 1 < len(self.text):
            self.at += 1
            high = self.class_code()
        if high < low:
            self.refuse("a range must have its lower end first")
        return Characters(((low, high),))

    def class_code(self) -> int:
        self.at += 1
        if self.text[self.at - 1] != "\\":
            return ord(self.text[self.at - 1])
        if self.at >= len(self.text):
            self.refuse("a backslash stands at the end")
        return self.escaped_code()
