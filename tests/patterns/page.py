"""The page of control-flow patterns, as its tests see it: the blocks of each pattern, by its number."""

from __future__ import annotations

import re
import types
from dataclasses import dataclass, field
from typing import Any

from tools.generate_docs import ROOT
from tools.pages import Block, blocks

PAGE = ROOT / "docs" / "reference" / "patterns.md"
PATTERNS = range(1, 44)

_HEADING = re.compile(r"### WCP-(\d+) (\S.*)")
_PREPARED = re.compile(r"# tasks\.py\n")


@dataclass
class Pattern:
    """One pattern of the page."""

    number: int
    name: str
    meaning: str = ""
    blocks: list[Block] = field(default_factory=list)

    @property
    def template(self) -> str | None:
        """Its template, if it is written as one."""
        return next((block.text for block in self.blocks if block.language == "yaml"), None)

    @property
    def is_run(self) -> bool:
        """Whether there is something to run."""
        return bool(self.blocks)


def patterns() -> dict[int, Pattern]:
    """Every pattern of the page, in its order."""
    found: dict[int, Pattern] = {}
    fenced = {block.line: block for block in blocks(PAGE)}
    pattern: Pattern | None = None
    for line, text in enumerate(PAGE.read_text().splitlines(), start=1):
        if heading := _HEADING.fullmatch(text):
            pattern = Pattern(int(heading[1]), heading[2])
            assert pattern.number not in found
            found[pattern.number] = pattern
        elif pattern is not None and line in fenced:
            pattern.blocks.append(fenced[line])
        elif pattern is not None and not pattern.blocks and text and not text.startswith(("`", "#")):
            pattern.meaning += text + " "
    return found


def module_of(pattern: Pattern) -> types.ModuleType:
    """The Python of one pattern as a module; its first blocks are those that all patterns share."""
    module = types.ModuleType("patterns_page")
    first = min(block.line for each in patterns().values() for block in each.blocks)
    shared = [block for block in blocks(PAGE) if block.line < first and not _PREPARED.match(block.text)]
    for block in (*shared, *pattern.blocks):
        if block.language == "python":
            run_block(block, module.__dict__)
    return module


def run_block(block: Block, namespace: dict[str, Any]) -> None:
    """Run one block; a traceback shows the page's own lines."""
    code = compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec", dont_inherit=True)
    exec(code, namespace)
