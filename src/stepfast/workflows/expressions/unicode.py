"""What Unicode says of characters: the scripts they belong to, and those that differ in case only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

Ranges = tuple[tuple[int, int], ...]

# Letters of which there are more than a small and a capital one; and two that have no partner in all languages.
_ORBITS = (
    "Kk\u212a Ss\u017f \u00b5\u039c\u03bc \u00c5\u00e5\u212b \u01c4\u01c5\u01c6 \u01c7\u01c8\u01c9 "
    "\u01ca\u01cb\u01cc \u01f1\u01f2\u01f3 \u0345\u0399\u03b9\u1fbe \u0392\u03b2\u03d0 \u0395\u03b5\u03f5 "
    "\u0398\u03b8\u03d1\u03f4 \u039a\u03ba\u03f0 \u03a0\u03c0\u03d6 \u03a1\u03c1\u03f1 \u03a3\u03c2\u03c3 "
    "\u03a6\u03c6\u03d5 \u03a9\u03c9\u2126 \u0412\u0432\u1c80 \u0414\u0434\u1c81 \u041e\u043e\u1c82 "
    "\u0421\u0441\u1c83 \u0422\u0442\u1c84\u1c85 \u042a\u044a\u1c86 \u0462\u0463\u1c87 \u1c88\ua64a\ua64b "
    "\u1e60\u1e61\u1e9b \u00df\u1e9e \u0131 \u0130"
)
_BY_LETTER = {letter: tuple(orbit) for orbit in _ORBITS.split() for letter in orbit}


def cases(character: str) -> tuple[str, ...]:
    """The character, and those that differ from it in case only."""
    orbit = _BY_LETTER.get(character)
    if orbit is not None:
        return orbit
    return tuple(form for form in {character, character.lower(), character.upper()} if len(form) == 1)


def ranges_of_script(name: str) -> Ranges | None:
    """The characters of a script, such as Greek; nothing where there is no such script."""
    line = _scripts().get(name)
    return None if line is None else tuple(_range(each) for each in line.split())


def _range(written: str) -> tuple[int, int]:
    low, _, high = written.partition("-")
    return int(low, 16), int(high or low, 16)


@cache
def _scripts() -> Mapping[str, str]:
    text = resources.files(__package__).joinpath("scripts.txt").read_text("utf-8")
    lines = (line.partition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: ranges for name, _, ranges in lines}
