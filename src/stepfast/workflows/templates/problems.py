"""What is wrong with a template: each fault with its place, and all of them at once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from stepfast.kernel.errors import InvalidDefinition
from stepfast.kernel.executor_errors import NoExecutor
from stepfast.kernel.texts import shown

Path = tuple[str | int, ...]
"""The way to a part of a template: `("steps", 0, "with", "uri")`."""

Pass = Literal["yaml", "schema", "references", "expressions", "limits"]

INVALID = InvalidDefinition.code
NO_EXECUTOR = NoExecutor.code

# A file that is wrong in every line is mended from its first lines.
MAX_PROBLEMS = 1_000
MAX_SHOWN = 60


class Problem(NamedTuple):
    """One fault of a template; `line` and `column` count from 1, and are 0 where the template is no text."""

    found_by: Pass
    path: Path
    message: str
    hint: str = ""
    code: str = INVALID
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer; "/" for the whole."""
        return pointer_of(self.path)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}: {self.pointer}: {self.message}{hint}"

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "code": self.code,
            "pass": self.found_by,
            "file": self.file,
            "line": self.line or None,
            "column": self.column or None,
            "pointer": self.pointer,
            "message": self.message,
            "hint": self.hint or None,
        }


class TemplateInvalid(InvalidDefinition):
    """A template with faults; `problems` has all of them, in the order of their places."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        ordered = sorted(problems, key=lambda each: (each.file, each.line, each.column))
        self.problems = tuple(dict.fromkeys(ordered))
        super().__init__("\n".join(_told(self.problems)))


def _told(problems: Sequence[Problem]) -> Iterable[str]:
    yield from map(str, problems[:MAX_PROBLEMS])
    if len(problems) > MAX_PROBLEMS:
        yield f"{problems[0].file}: and {len(problems) - MAX_PROBLEMS:,} more"


def pointer_of(path: Path) -> str:
    """A path as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path) or "/"


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was likely meant, as a hint; nothing if there is none."""
    # Nobody means a name by a text of a thousand characters, and to look for it would take long.
    found = difflib.get_close_matches(name, list(known), 1) if len(name) <= MAX_SHOWN else []
    return f"Did you mean {found[0]!r}?" if found else ""


def told(value: object) -> str:
    """A value of a template, for a message, as it is written there."""
    if isinstance(value, str) or not isinstance(value, list | dict | bool | None):
        return shown(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def named(name: object) -> str:
    """A name of somebody's, for a message; of a long one only the beginning."""
    text = str(name)
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")
