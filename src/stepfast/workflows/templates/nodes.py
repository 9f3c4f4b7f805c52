"""The parts of a template with their places in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepfast.workflows.templates.problems import INVALID, Pass, Path, Problem

Scalar = str | int | float | bool | None


class Mark(NamedTuple):
    """A place in the text: `offset` in characters from its beginning, `line` and `column` from 1; 0 is none."""

    offset: int = 0
    line: int = 0
    column: int = 0


NOWHERE = Mark()


@dataclass(slots=True)
class Node:
    """One value, where it begins and ends, and how it is written: plain, in quotes, or as a block."""

    mark: Mark
    content: Scalar | list[Node] | dict[str, Node]
    end: int = 0
    style: str = ""
    keys: dict[str, Mark] = field(default_factory=dict)

    def plain(self) -> Any:
        """The value as JSON has it."""
        if isinstance(self.content, dict):
            return {name: node.plain() for name, node in self.content.items()}
        if isinstance(self.content, list):
            return [node.plain() for node in self.content]
        return self.content

    def child(self, name: str | int) -> Node | None:
        """The part of a name or number, if there is one."""
        if isinstance(self.content, dict) and isinstance(name, str):
            return self.content.get(name)
        if isinstance(self.content, list) and isinstance(name, int) and 0 <= name < len(self.content):
            return self.content[name]
        return None


@dataclass(slots=True)
class Document:
    """A template as it was read: its parts, and the text that they are places in."""

    name: str
    root: Node
    text: str = ""

    def mark(self, path: Path, *, at_key: bool = False, offset: int | None = None) -> Mark:
        """Where a part stands, or its key; with an offset a place inside a text. Missing parts are at their owner's."""
        owner, node = self.root, self.root
        for position, part in enumerate(path):
            inner = node.child(part)
            if inner is None:
                return node.mark
            if at_key and position == len(path) - 1 and isinstance(part, str):
                return node.keys.get(part, inner.mark)
            owner, node = node, inner
        if offset is not None and isinstance(node.content, str) and self.text:
            return self._inside(node, node.content, offset)
        return node.mark if node.mark != NOWHERE else owner.mark

    def has(self, path: Path) -> bool:
        """Whether there is a part at a path."""
        node: Node | None = self.root
        for part in path:
            node = None if node is None else node.child(part)
        return node is not None

    def problem(
        self,
        found_by: Pass,
        path: Path,
        message: str,
        hint: str = "",
        *,
        at_key: bool = False,
        offset: int | None = None,
        code: str = INVALID,
    ) -> Problem:
        """A fault of a part of this document."""
        mark = self.mark(path, at_key=at_key, offset=offset)
        return Problem(found_by, path, message, hint, code, self.name, mark.line, mark.column)

    def _inside(self, node: Node, value: str, offset: int) -> Mark:
        index = _source_index(self.text[node.mark.offset : node.end], node.style, value, offset)
        if index is None:
            return node.mark
        return mark_at(self.text, node.mark.offset + index)


def canonical(source: Mapping[str, Any]) -> str:
    """Data as the text that equal data share."""
    return json.dumps(source, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def mark_at(text: str, index: int) -> Mark:
    """Line and column of a place in a text."""
    before = text[:index].replace("\r\n", " \n").replace("\r", "\n")
    return Mark(index, before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


def _source_index(raw: str, style: str, value: str, offset: int) -> int | None:
    """Where the character at an offset of a value stands in the text that it was read from.

    Whatever YAML does with a text, it keeps the characters that are no blanks, and their order: these are counted.
    """
    before = sum(1 for character in value[:offset] if not character.isspace())
    seen = 0
    for index, is_blank in _units(raw, style):
        if is_blank:
            continue
        if seen == before:
            return index
        seen += 1
    return None


def _units(raw: str, style: str) -> Iterator[tuple[int, bool]]:
    """Where each character of a value begins in its text, and whether it is a blank."""
    if style == "'":
        return _quoted(raw, _SINGLE)
    if style == '"':
        return _quoted(raw, _DOUBLE)
    begin = raw.find("\n") + 1 if style in ("|", ">") else 0
    return ((index, raw[index].isspace()) for index in range(begin, len(raw)))


_SINGLE = re.compile(r"''|[^']", re.DOTALL)
_DOUBLE = re.compile(r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\\r?\n|\\.|[^\"\\]", re.DOTALL)
# Escapes of blanks, and the end of a line that is escaped.
_BLANKS = re.compile(r"\\[ tnrvfLPN_]|\\\t|\\\r?\n|\\x(?:09|0[aA-dD]|20|85|[aA]0)|\\u00(?:09|0[aA-dD]|20|85|[aA]0)")


def _quoted(raw: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, bool]]:
    for found in pattern.finditer(raw, 1, max(len(raw) - 1, 1)):
        yield found.start(), found[0].isspace() or _BLANKS.fullmatch(found[0]) is not None
