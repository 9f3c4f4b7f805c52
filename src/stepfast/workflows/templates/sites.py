"""The places of a template where something is computed: what stands there, and what it may speak of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from stepfast.workflows.expressions import Binding
from stepfast.workflows.plans.plan import Reference
from stepfast.workflows.templates.models import StepForm
from stepfast.workflows.templates.problems import Path

GLOBAL = ("inputs", "steps", "run", "tenant")
"""Names that are known everywhere."""
LOCAL = ("output", "error", "round", "assets", "writes")
"""Names that are known in some places."""
RESERVED = (*GLOBAL, *LOCAL, "config")
"""Names that no item can have."""


class Origin(NamedTuple):
    """What a name of some places stands for: an item, output or round of a step, its error, or assets."""

    kind: Literal["item", "output", "round", "error", "asset", "assets", "writes"]
    step: Path = ()


Names = Mapping[str, Origin]


class Want(Enum):
    """What a value must be, for the place where it stands."""

    ANYTHING = "anything"
    CONDITION = "true or false"
    ITEMS = "a list"
    SPAN = "a duration"
    TEXT = "text"
    KEY = "text or a number"
    ARGUMENTS = "a map of names to values"


@dataclass(frozen=True, slots=True)
class Site:
    """One such place; `step` is the path of the step that it belongs to."""

    path: Path
    value: Any
    binding: Binding
    step: Path
    names: Names
    want: Want = Want.ANYTHING


@dataclass(slots=True)
class Stand:
    """A step where it stands: its form, the step it is inside of, and the names that it sees."""

    form: StepForm
    path: Path
    owner: Path | None
    names: Names = field(default_factory=dict)


def texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text in a value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from texts(each, (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from texts(each, (*path, number))


def find(site: Site, reference: Reference) -> tuple[Path, int | None]:
    """Where a value speaks of something: the path of the text, and the place in it."""
    for length in range(len(reference), 0, -1):
        pattern = _pattern(reference[:length])
        for path, text in texts(site.value, site.path):
            if "${" in text and (found := pattern.search(text)):
                return path, found.start()
    return site.path, None


def _pattern(reference: Reference) -> re.Pattern[str]:
    first, *rest = (re.escape(part) for part in reference)
    fields = "".join(rf"\s*(?:\.\s*{part}\b|\[\s*r?['\"]{part}['\"]\s*\])" for part in rest)
    return re.compile(rf"(?<![\w.]){first}\b{fields}")
