"""JSON from the command line: as arguments of a workflow, or as a value."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from stepfast.kernel.errors import Invalid
from stepfast.workflows.functions import Workflow

FORMS = "write it as JSON, as @file.json, or as - for stdin"


class Arguments(NamedTuple):
    """What a workflow is called with, each by its type hint."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def arguments_of(workflow: Workflow, text: str | None) -> Arguments:
    """A workflow's arguments: an array is positional, an object keywords, anything else the single argument."""
    value = [] if text is None else json_of(text, "The input")
    args = value if isinstance(value, list) else [] if isinstance(value, dict) else [value]
    given = workflow.arguments.from_json(args, value if isinstance(value, dict) else {})
    return Arguments(given.args, given.kwargs)


def json_of(text: str, what: str) -> Any:
    """The value of a JSON text, of a file that is named with @, or of what comes on stdin for `-`."""
    try:
        return json.loads(_content(text), parse_constant=_refuse_constant, parse_int=whole_numbers(what))
    except json.JSONDecodeError as error:
        trouble = error.msg.removesuffix(" at")  # some of Python's texts end so, for the place that follows
        raise Invalid(
            f"{what} is no JSON: {trouble} at line {error.lineno}, column {error.colno}; {FORMS}. "
            "Text needs its quotation marks: '\"like this\"'."
        ) from None
    except RecursionError:
        raise Invalid(f"{what} is nested too deeply to be read.") from None
    except (OSError, ValueError) as error:
        raise Invalid(f"{what} cannot be read: {error}; {FORMS}.") from None


def whole_numbers(what: str) -> Callable[[str], int]:
    """How whole numbers of a JSON text are read: those too long for Python are refused with a way out."""
    most = sys.get_int_max_str_digits()

    def read(text: str) -> int:
        digits = len(text.lstrip("-"))
        if 0 < most < digits:
            raise Invalid(
                f"{what} has a whole number of {digits:,} digits, and one of more than {most:,} cannot be read. "
                "Write it as text, in quotation marks."
            )
        return int(text)

    return read


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _content(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
