"""JSON from the command line: as arguments of a workflow, or as a value."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from stepfast.app import Stepfast
from stepfast.kernel.errors import Invalid
from stepfast.workflows.functions import Workflow

FORMS = "write it as JSON, as @file.json, or as - for stdin"
# What `app.start` takes for itself: a parameter of a workflow by one of these names must be given by its position.
OPTION_NAMES = frozenset(
    option.name
    for option in inspect.signature(Stepfast.start).parameters.values()
    if option.kind is inspect.Parameter.KEYWORD_ONLY
)


class Arguments(NamedTuple):
    """What a workflow is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def arguments_of(workflow: Workflow, text: str | None) -> Arguments:
    """A workflow's arguments: an array is positional, an object keywords, anything else the single argument."""
    if text is None:
        return Arguments((), {})
    value = json_of(text, "The input")
    if isinstance(value, list):
        return Arguments(tuple(value), {})
    return _by_position(workflow, value) if isinstance(value, dict) else Arguments((value,), {})


def json_of(text: str, what: str) -> Any:
    """The value of a JSON text, of a file that is named with @, or of what comes on stdin for `-`."""
    try:
        return json.loads(_content(text))
    except json.JSONDecodeError as error:
        raise Invalid(
            f"{what} is no JSON: {error.msg} at line {error.lineno}, column {error.colno}; {FORMS}. "
            "Text needs its quotation marks: '\"like this\"'."
        ) from None
    except RecursionError:
        raise Invalid(f"{what} is nested too deeply to be read.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{what} cannot be read: {error}; {FORMS}.") from None


def _content(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


def _by_position(workflow: Workflow, keywords: dict[str, Any]) -> Arguments:
    """Keywords moved to their positions, so that none is taken for an option of the start."""
    signature = inspect.signature(workflow.function)
    try:
        bound = signature.bind(**keywords)
    except TypeError as error:
        raise Invalid(f"The input does not fit workflow {workflow.name!r}: {error}. It takes {signature}.") from None
    bound.apply_defaults()
    if taken := OPTION_NAMES & bound.kwargs.keys():
        raise Invalid(
            f"Workflow {workflow.name!r} takes {min(taken)!r} by keyword alone, and a start has an option of that "
            "name. Name the parameter otherwise."
        )
    return Arguments(bound.args, bound.kwargs)
