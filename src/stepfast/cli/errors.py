"""Errors for people: what was raised, what it came from, and where in the code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from stepfast.cli.printing import say, shortened, visible
from stepfast.cli.shapes import error_line_of, parsed
from stepfast.kernel.states import RunState
from stepfast.kernel.views import RunView, StepView

T = TypeVar("T")

# What is longer is cut: the end of a traceback says most.
SHOWN_LINES = 40
SHOWN_LENGTH = 500
SHOWN_PARTS = 10
SHOWN_ERRORS = 4


class ShownError(NamedTuple):
    """A stored error, and whose it is."""

    of: str
    text: str


def errors_of(run: RunView, steps: Sequence[StepView]) -> list[ShownError]:
    """What a run has failed with, and what its steps came to last where that is not the same; the newest step first."""
    # Nothing was raised where somebody has called a run off.
    raised = None if run.state is RunState.CANCELLED else run.error
    own = [] if raised is None else [ShownError("the run", raised)]
    told = {part.get("step") for _, part in _parts(parsed(raised))}
    newest = {step.call: step for step in steps if step.superseded_by is None}
    failed = [step for step in newest.values() if step.error is not None and step.call.address not in told]
    failed.sort(key=lambda step: step.seq, reverse=True)
    return own + [ShownError(f"step {step.call.address}", step.error or "") for step in failed]


def print_errors(errors: Sequence[ShownError]) -> None:
    """Each error in one line, those that it came from below it, and then their tracebacks."""
    cut = Cut()
    for error in cut.first(errors, SHOWN_ERRORS):
        click.echo()
        for line in _lines(error, cut):
            click.echo(visible(line))
    if cut.has_cut:
        say("Of the errors only a part is shown; `-o json` has all.")


class Cut:
    """Shortens texts, and knows whether it has."""

    def __init__(self) -> None:
        self.has_cut = False

    def line(self, text: str) -> str:
        self.has_cut |= len(text) > SHOWN_LENGTH
        return shortened(text, SHOWN_LENGTH)

    def last(self, lines: list[str]) -> list[str]:
        if len(lines) <= SHOWN_LINES:
            return lines
        self.has_cut = True
        return ["  ...", *lines[-SHOWN_LINES:]]

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
        traceback = str(part.get("traceback") or "").strip("\n").split("\n")
        if traceback != [""]:
            yield ""
            # A traceback has no other ends of lines than these; what a message has besides is written as an escape.
            yield from map(cut.line, cut.last(traceback))


def _parts(error: Any, relation: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """An error, the errors in it if it is a group, and what it was caused by; how each belongs to the one above."""
    if not isinstance(error, dict):
        return
    yield relation, error
    for inner in error.get("inner") or ():
        yield from _parts(inner, "with")
    yield from _parts(error.get("cause"), "caused by")
