"""Read the parts of a Markdown page that can be held to account: code blocks, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")


@dataclass(frozen=True)
class Block:
    """A fenced block of code; `line` is that of its first line of content."""

    language: str
    text: str
    line: int
    not_run: bool


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order, also those inside lists."""
    tokens = _tokens(page)
    before = [None, *tokens]
    return [_block(token, previous) for previous, token in zip(before, tokens, strict=False) if token.type == "fence"]


def links(page: Path) -> list[tuple[int, str]]:
    """The line and target of every link and image; those in code do not count."""
    return [
        (token.map[0] + 1 if token.map else 1, str(target))
        for token in _tokens(page)
        for child in token.children or []
        if (target := child.attrs.get("href") or child.attrs.get("src"))
    ]


def anchors(page: Path) -> set[str]:
    """The fragments by which a page's headings can be reached."""
    tokens = _tokens(page)
    return {_slug(text.content) for heading, text in pairwise(tokens) if heading.type == "heading_open"}


def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


def _block(fence: Token, previous: Token | None) -> Block:
    marked = previous is not None and _NOT_RUN.fullmatch(previous.content.strip()) is not None
    first_line = fence.map[0] + 2 if fence.map else 1
    return Block(fence.info.strip(), fence.content, first_line, marked)


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
