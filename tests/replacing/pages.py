"""The pages for those who come from another system: their tables, and the examples that belong to the rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools.pages import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "replacing").glob("*.md"))
OURS = "Stepfast"
NOT_YET = "not yet"
EXAMPLE = re.compile(r"# (?:S\d|theirs): (.+)$", re.MULTILINE)


class Cell(NamedTuple):
    """What stands in one place of a table."""

    text: str
    names: tuple[str, ...]
    """What is written as code."""
    links: tuple[str, ...]


class Row(NamedTuple):
    """Their names, ours, and what differs."""

    theirs: Cell
    ours: Cell
    differs: Cell
    line: int

    @property
    def is_there(self) -> bool:
        return not self.ours.text.startswith(NOT_YET)

    def __str__(self) -> str:
        return f"line {self.line}: {', '.join(self.theirs.names)}"


def rows(page: Path) -> list[Row]:
    """The rows of a page's tables that map names; others have no column `Stepfast` in second place."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text())
    found: list[Row] = []
    for table in _tables(tokens):
        head, *body = table
        if len(head) == 3 and head[1][0].text == OURS:
            found += [_row(line) for line in body]
    return found


def _row(line: list[tuple[Cell, int]]) -> Row:
    (theirs, number), (ours, _), (differs, _) = line
    return Row(theirs, ours, differs, number)


def examples(page: Path) -> set[str]:
    """The names of theirs that the code of a page says it shows."""
    texts = [block.text for block in blocks(page) if not block.not_run]
    return {name.strip() for text in texts for line in EXAMPLE.findall(text) for name in line.split(", ")}


def _tables(tokens: list[Token]) -> Iterator[list[list[tuple[Cell, int]]]]:
    table: list[list[tuple[Cell, int]]] = []
    for token in tokens:
        if token.type == "table_open":
            table = []
        elif token.type == "tr_open":
            table.append([])
            line = token.map[0] + 1 if token.map else 0
        elif token.type == "inline" and table and len(table[-1]) < 3 and token.level == _CELL_LEVEL:
            table[-1].append((_cell(token), line))
        elif token.type == "table_close":
            yield table


_CELL_LEVEL = 4
"""How deep the content of a cell stands: in table, head or body, row and cell."""


def _cell(token: Token) -> Cell:
    children = token.children or []
    names = tuple(child.content for child in children if child.type == "code_inline")
    links = tuple(str(child.attrs["href"]) for child in children if child.type == "link_open")
    text = "".join(child.content for child in children if child.type in ("text", "code_inline"))
    return Cell(text, names, links)
