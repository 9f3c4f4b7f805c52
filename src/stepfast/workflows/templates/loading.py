"""From a file, a text or data to a template that can be run; or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Protocol

from stepfast.workflows.plans.frame import FindExecutor, FindWorkflow
from stepfast.workflows.plans.plan import Plan
from stepfast.workflows.templates.arguments import TemplateArguments, TemplateInput
from stepfast.workflows.templates.described import Described, Executors
from stepfast.workflows.templates.nodes import Document, canonical
from stepfast.workflows.templates.problems import Problem, TemplateInvalid
from stepfast.workflows.templates.profile import MAX_BYTES, Unreadable, of_data, read_text, too_large
from stepfast.workflows.templates.workflow import TemplateWorkflow

SUFFIXES = (".yaml", ".yml", ".json")

BOM = b"\xef\xbb\xbf"
NAMELESS = "template"
"""What a template is called that came as text or data."""


class Listing(Protocol):
    """A registry of executors."""

    def list(self) -> Iterable[Described]: ...


@dataclass(frozen=True)
class Template:
    """A workflow that was written as data."""

    plan: Plan
    inputs: Mapping[str, TemplateInput]
    source: Mapping[str, Any]
    """What was written, as JSON."""
    digest: str
    file: str = NAMELESS
    arguments: TemplateArguments = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", TemplateArguments(self.plan.name, self.inputs))

    @property
    def name(self) -> str:
        """The name of the workflow."""
        return self.plan.name

    @property
    def version(self) -> int:
        return self.plan.version

    @property
    def identity(self) -> Hashable:
        """What tells it from others: its content."""
        return self.digest

    def bound(self, executors: FindExecutor, workflows: FindWorkflow) -> TemplateWorkflow:
        """The template as a workflow that finds executors and workflows where it is told to."""
        return TemplateWorkflow(self, executors, workflows)

    def queued(self) -> tuple[()]:
        """It brings no executors along."""
        return ()

    @property
    def content(self) -> str:
        """What was written, as canonical JSON: what is registered, and what the digest is of."""
        return canonical(self.source)


def load_template(
    given: FilePath | str | bytes | Mapping[str, Any],
    executors: Mapping[str, Described] | Listing | None = None,
    *,
    name: str | None = None,
) -> Template:
    """A template from a file, a text, its bytes or data; raises TemplateInvalid with all that is wrong.

    A text of one line that ends like a file's name is taken for one. Without `executors` their names, arguments and
    configs are not looked at.
    """
    # Slow to import, and needed only by those who have templates.
    from stepfast.workflows.templates.passes import Passes

    try:
        document, problems = _read(given, name)
    except Unreadable as unreadable:
        raise TemplateInvalid([unreadable.problem]) from None
    found = Passes(document, problems, _by_name(executors)).load()
    return Template(found.plan, found.inputs, found.source, found.plan.digest, document.name)


def _by_name(executors: Mapping[str, Described] | Listing | None) -> Executors | None:
    if executors is None or isinstance(executors, Mapping):
        return executors
    return {executor.name: executor for executor in executors.list()}


def _read(given: FilePath | str | bytes | Mapping[str, Any], name: str | None) -> tuple[Document, list[Problem]]:
    if isinstance(given, Mapping):
        return of_data(given, name or NAMELESS)
    if isinstance(given, bytes):
        return read_text(_decoded(given, name or NAMELESS), name or NAMELESS)
    if isinstance(given, FilePath) or _is_file_name(given):
        file = FilePath(given)
        return read_text(_file_text(file, name or str(file)), name or str(file))
    return read_text(given, name or NAMELESS)


def _is_file_name(text: str) -> bool:
    return text.endswith(SUFFIXES) and not set(text) & set("\n\r\0{}:") and text.isprintable()


def _file_text(file: FilePath, name: str) -> str:
    try:
        with file.open("rb") as opened:
            # One byte more than allowed tells a file that is too large, whatever its size is said to be.
            raw = opened.read(MAX_BYTES + len(BOM) + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreadable(Problem("yaml", (), f"the file cannot be read: {reason}", file=name)) from None
    if len(raw) > MAX_BYTES + len(BOM):
        raise Unreadable(too_large(max(file.stat().st_size, len(raw)), name))
    return _decoded(raw, name)


def _decoded(raw: bytes, name: str) -> str:
    if len(raw) > MAX_BYTES + len(BOM):
        raise Unreadable(too_large(len(raw), name))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        column = error.start - (raw[: error.start].rfind(b"\n") + 1) + 1
        fault = Problem("yaml", (), "the file is not UTF-8", "Save it as UTF-8", file=name, line=line, column=column)
        raise Unreadable(fault) from None
