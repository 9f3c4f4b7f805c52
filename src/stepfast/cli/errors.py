"""Errors for people: what was raised, what it came from, and where in the code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import stepfast
from stepfast.cli.output import put
from stepfast.cli.printing import say, shortened, visible
from stepfast.cli.shapes import error_line_of, parsed
from stepfast.kernel.states import RunState
from stepfast.kernel.views import RunView, StepView
from stepfast.workflows.failures import RECORDED

T = TypeVar("T")

# What is longer is cut: the end of a traceback says most, and the beginning of a message.
SHOWN_LINES = 40
SHOWN_MESSAGE_LINES = 10
SHOWN_LENGTH = 500
SHOWN_PARTS = 10
SHOWN_ERRORS = 4

_PLACE = '  File "'
_OF_GROUP = ("  + ", "  | ")
_IN_GROUP = "  +-+-"
_RECORDED = RECORDED.rstrip()
# As they are installed, here or where it was raised: people's own folders may be called stepfast, too.
_HERE = re.escape(str(Path(stepfast.__file__).parent))
_STEPFAST = rf"(?:{_HERE}|[^\"]*-packages[/\\]stepfast)[/\\](?:workflows|engine|worker)"
_PYTHON = r"[^\"]*[/\\](?:python3[^/\\\"]*|[Ll]ib)[/\\](?:asyncio|concurrent[/\\]futures)"
_ENGINE = re.compile(rf'  File "(?:{_STEPFAST}|{_PYTHON})[/\\][^"]*", line')


class ShownError(NamedTuple):
    """A stored error, and whose it is."""

    of: str
    text: str


def errors_of(run: RunView, steps: Sequence[StepView]) -> list[ShownError]:
    """What a run has failed with, and what its steps came to last where that is not the same; the newest step first."""
    # Nothing was raised where somebody has called a run off.
    raised = None if run.state is RunState.CANCELLED else run.error
    own = [] if raised is None else [ShownError("the run", raised)]
    told = {str(part.get("step")) for _, part in _parts(parsed(raised))}
    newest = {step.call: step for step in steps if step.superseded_by is None}
    failed = [step for step in newest.values() if step.error is not None and step.call.address not in told]
    failed.sort(key=lambda step: step.seq, reverse=True)
    return own + [ShownError(f"step {step.call.address}", step.error or "") for step in failed]


def print_errors(errors: Sequence[ShownError]) -> None:
    """Each error in one line, those that it came from below it, and then their tracebacks."""
    cut = Cut()
    for error in cut.first(errors, SHOWN_ERRORS):
        put()
        for line in _lines(error, cut):
            put(visible(line))
    if cut.has_cut:
        say("Of the errors only a part is shown; `-o json` has all.")


class Cut:
    """Shortens texts, and knows whether it has."""

    def __init__(self) -> None:
        self.has_cut = False

    def line(self, text: str) -> str:
        self.has_cut |= len(text) > SHOWN_LENGTH
        return shortened(text, SHOWN_LENGTH)

    def traceback(self, lines: list[str]) -> list[str]:
        """The last places, and the beginning of what is said there: a long message leaves room for the places."""
        end = _end_of_places(lines)
        places, said = lines[:end], lines[end:]
        if len(places) > SHOWN_LINES:
            self.has_cut, places = True, ["  ...", *places[-SHOWN_LINES:]]
        if len(said) > SHOWN_MESSAGE_LINES:
            self.has_cut, said = True, [*said[:SHOWN_MESSAGE_LINES], "  ..."]
        return places + said

    def first(self, items: Sequence[T], number: int) -> Sequence[T]:
        self.has_cut |= len(items) > number
        return items[:number]


def _lines(error: ShownError, cut: Cut) -> Iterator[str]:
    whole = parsed(error.text)
    if not isinstance(whole, dict):
        yield cut.line(f"Error of {error.of}: {whole}")
        return
    parts = cut.first(list(_parts(whole)), SHOWN_PARTS)
    for relation, part in parts:
        said = error_line_of(part)
        yield cut.line(f"{relation} {said}" if relation else f"Error of {error.of}: {said}")
    for _, part in parts:
        # What has a line alone has said it above.
        traceback = _own_traceback(part)
        if len(traceback) > 1:
            yield ""
            # A traceback has no other ends of lines than these; what a message has besides is written as an escape.
            yield from map(cut.line, cut.traceback(_without_engine(traceback)))


def _own_traceback(part: dict[str, Any]) -> list[str]:
    """The traceback of an error, without those of the errors in it, which have their own."""
    lines = str(part.get("traceback") or "").strip("\n").split("\n")
    while part.get("inner") and any(line.startswith(_OF_GROUP) for line in lines):
        own = itertools.takewhile(lambda line: not line.startswith(_IN_GROUP), lines)
        lines = [line[len(_OF_GROUP[0]) :] if line.startswith(_OF_GROUP) else line for line in own]
    recorded = lines.index(_RECORDED) + 1 if _RECORDED in lines else 0
    # An error that came out of a record and was raised nowhere since has only the places of then.
    return lines if any(line.startswith(_PLACE) for line in lines[:recorded]) else lines[recorded:]


def _end_of_places(traceback: list[str]) -> int:
    """Where the last place in code ends and the message begins; the end of all if no place is found, as of groups."""
    last = max((number for number, line in enumerate(traceback) if line.startswith(_PLACE)), default=len(traceback))
    behind = (number for number in range(last + 1, len(traceback)) if not traceback[number].startswith("    "))
    return next(behind, len(traceback))


def _without_engine(traceback: list[str]) -> list[str]:
    """A traceback with the places in people's own code alone; the engine's lie between them."""
    kept: list[str] = []
    is_engine = False
    for line in traceback:
        if not line.startswith("    "):
            is_engine = _ENGINE.match(line) is not None
        if not is_engine:
            kept.append(line)
    # What was raised by the engine itself has no other places.
    return kept if any(line.startswith(_PLACE) for line in kept) else traceback


def _parts(error: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """An error, the errors in it if it is a group, and what it was caused by; how each belongs to those above.

    What a group has in it is indented, so that a cause stands right below what it caused.
    """
    # A list and no calls of itself: what was put there by other means may be nested deeper than calls can be.
    left: list[tuple[str, str, Any]] = [("", "", error)]
    while left:
        indent, relation, part = left.pop()
        if not isinstance(part, dict):
            continue
        yield indent + relation, part
        left.append((indent, "caused by", part.get("cause")))
        inner = part.get("inner")
        left += [(f"{indent}  ", "with", each) for each in reversed(inner if isinstance(inner, list) else [])]
