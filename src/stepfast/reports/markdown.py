"""A report as Markdown: everything that comes from a run is escaped, and nothing in it is HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import assert_never

from stepfast.reports.blocks import (
    Alarm,
    Block,
    Bullets,
    Document,
    Facts,
    Paragraph,
    Picture,
    Section,
    Span,
    Style,
    Table,
    Value,
    Words,
    spans,
)

# What a code span can hold wherever it stands, also in a table.
_PLAIN_CODE = re.compile(r"[\w.:/@#+,()=\-]+(?: [\w.:/@#+,()=\-]+)*", re.ASCII)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_MARKS = frozenset("\\`*_[]~^$#!{}")
# What some readers make a link of by themselves.
_LINKS = re.compile(r":(?=//)|(?<=[wW]{3})\.|@|(?<=mailto):|(?<=xmpp):", re.IGNORECASE)
# What begins a list, a heading or a rule, where it stands at the beginning of a line.
_BEGINNING = re.compile(r"^(\s*)([-+=]|\d+(?=[.)]))")


def as_markdown(document: Document) -> str:
    """The whole report."""
    parts = [f"# {escaped(document.title)}", *_blocks(document.summary, 2)]
    for section in document.sections:
        parts += _block(section, 2)
    return "\n\n".join([*parts, "---", escaped(document.footer)]) + "\n"


def escaped(text: str) -> str:
    """A text that means itself and nothing else."""
    safe = "".join(_ENTITIES.get(each) or (f"\\{each}" if each in _MARKS else each) for each in text)
    safe = _LINKS.sub(lambda found: f"\\{found[0]}", safe)
    return _BEGINNING.sub(_without_meaning, safe)


def _without_meaning(found: re.Match[str]) -> str:
    # A number is escaped by what follows it: a backslash before a digit is a backslash.
    return f"{found[1]}{found[2]}\\" if found[2].isdigit() else f"{found[1]}\\{found[2]}"


def _words(words: Words) -> str:
    return "".join(_span(span) for span in spans(words))


def _span(span: Span) -> str:
    text = span.text.strip()
    if span.style is Style.CODE and _PLAIN_CODE.fullmatch(text):
        return f"`{text}`"
    if span.style is Style.STRONG and text and text == span.text:
        return f"**{escaped(text)}**"
    return escaped(span.text)


def _blocks(blocks: Sequence[Block], level: int) -> Iterator[str]:
    for block in blocks:
        yield from _block(block, level)


def _block(block: Block, level: int) -> Iterator[str]:
    match block:
        case Section(title, blocks):
            yield f"{'#' * min(level, 6)} {escaped(title)}"
            yield from _blocks(blocks, level + 1)
        case Paragraph(words):
            yield _words(words)
        case Alarm(words):
            yield f"> **Attention:** {_words(words)}"
        case Bullets(items):
            yield "\n".join(f"- {_words(item)}" for item in items)
        case Facts(rows):
            yield "\n".join(f"- **{escaped(name)}**: {_words(words)}" for name, words in rows)
        case Table(_, head, rows):
            yield _table(head, rows)
        case Value():
            yield from _value(block)
        case Picture():
            yield _drawn(block)
        case _:
            assert_never(block)


def _table(head: Sequence[str], rows: Sequence[Sequence[Words]]) -> str:
    lines = [
        f"| {' | '.join(escaped(name) for name in head)} |",
        f"|{' --- |' * len(head)}",
        *(f"| {' | '.join(_words(cell) for cell in row)} |" for row in rows),
    ]
    return "\n".join(lines)


def _value(value: Value) -> Iterator[str]:
    if value.title:
        yield f"{escaped(value.title)}:"
    # A fence is closed by one that is at least as long.
    longest = max((len(run) for run in re.findall("`+", value.text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text\n{value.text}\n{fence}"
    if value.note:
        yield escaped(value.note)


def _drawn(picture: Picture) -> str:
    lines = ["flowchart TD"]
    for number, node in enumerate(picture.nodes):
        label = f"{_quoted(node.id)}<br/>{_quoted(node.state)}"
        lines.append(f'  n{number}["{label}<br/>{_quoted(node.detail)}"]' if node.detail else f'  n{number}["{label}"]')
    lines += [f"  n{before} --> n{after}" for before, after in picture.arrows]
    return "\n".join(["```mermaid", *lines, "```"])


def _quoted(text: str) -> str:
    """A text within the quotes of a label: whatever Mermaid could take for its own is its number."""
    return "".join(each if each.isalnum() or each in " .,-_" else f"#{ord(each)};" for each in text)
