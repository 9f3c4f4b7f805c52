"""What a report consists of, before it has a form: sections, sentences, tables, values and one picture.

All texts in here are plain. Whoever gives them a form escapes them, all of them, in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Style(StrEnum):
    """How a few words stand out."""

    PLAIN = "plain"
    STRONG = "strong"
    CODE = "code"


class Span(NamedTuple):
    """A few words in one style."""

    text: str
    style: Style = Style.PLAIN


Words: TypeAlias = str | Span | tuple[str | Span, ...]
"""A sentence, or a part of one."""


class Paragraph(NamedTuple):
    """A sentence or more."""

    words: Words


class Alarm(NamedTuple):
    """A sentence that no reader may miss."""

    words: Words


class Bullets(NamedTuple):
    """Sentences below each other."""

    items: Sequence[Words]


class Facts(NamedTuple):
    """Names, and what is known under each."""

    rows: Sequence[tuple[str, Words]]


class Table(NamedTuple):
    """Rows below a head; `about` says what they are, for those who hear it read aloud."""

    about: str
    head: Sequence[str]
    rows: Sequence[Sequence[Words]]


class Value(NamedTuple):
    """A value as text of several lines, under a title; `note` says what of it is not shown."""

    title: str
    text: str
    note: str = ""


class Node(NamedTuple):
    """A step in the picture; `layer` is how many must come before it, and `depth` how deep it is within others."""

    id: str
    state: str
    detail: str
    layer: int
    depth: int = 0


class Picture(NamedTuple):
    """The steps of a run and their order; an arrow is a pair of places in `nodes`."""

    title: str
    nodes: Sequence[Node]
    arrows: Sequence[tuple[int, int]]


class Section(NamedTuple):
    """A part of a report with a title of its own."""

    title: str
    blocks: Sequence[Block]


Block: TypeAlias = Paragraph | Alarm | Bullets | Facts | Table | Value | Picture | Section


class Document(NamedTuple):
    """A whole report: the title, what stands below it before the first section, and the sections."""

    title: str
    summary: Sequence[Block]
    sections: Sequence[Section]
    footer: str


def code(text: object) -> Span:
    """A name or an id, in letters that show each character."""
    return Span(str(text), Style.CODE)


def strong(text: object) -> Span:
    """Words that carry weight."""
    return Span(str(text), Style.STRONG)


def spans(words: Words) -> tuple[Span, ...]:
    """The parts of a sentence, each with its style."""
    if isinstance(words, Span):
        return (words,)
    if isinstance(words, str):
        return (Span(words),)
    return tuple(Span(part) if isinstance(part, str) else part for part in words)
