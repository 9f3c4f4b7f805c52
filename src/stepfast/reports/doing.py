"""What was done: the picture, and each step with its attempts, what went into it and what came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepfast.kernel.decisions import CallId
from stepfast.kernel.reconstruction import Reconstruction
from stepfast.kernel.states import StepState
from stepfast.kernel.views import StepView
from stepfast.reports.blocks import Block, Paragraph, Section, Table, Words, strong
from stepfast.reports.graph import drawn
from stepfast.reports.summary import error_line, more, value_block
from stepfast.reports.texts import Times, span
from stepfast.reports.words import step_name

MAX_ROWS = 300
MAX_DETAILED = 60

_EMPTY = frozenset({"", "{}", "[]", "null", '{"args": [], "kwargs": {}}', '{"args":[],"kwargs":{}}', "[[],{}]"})


def picture(found: Reconstruction) -> Section:
    """The steps and their order at a glance."""
    picture, left_out = drawn(found.definition, found.steps)
    if not picture.nodes:
        return Section("Steps at a glance", [Paragraph("No step is recorded.")])
    blocks: list[Block] = [picture]
    if left_out:
        blocks.append(more(left_out, "step"))
    return Section("Steps at a glance", blocks)


def steps(found: Reconstruction, times: Times) -> Section:
    """Every record in a table, then the values of those that count."""
    records = list(_told(found.steps))
    blocks: list[Block] = [
        Paragraph(
            "A step that was tried several times has a row for each attempt that was recorded. What is superseded was "
            "done again later, and counts no more."
        ),
        Table(
            "Steps",
            ("No.", "Step", "State", "Attempt", "Began", "Took", "Note"),
            [_row(step, times) for step in records[:MAX_ROWS]],
        ),
    ]
    if len(records) > MAX_ROWS:
        blocks.append(more(len(records) - MAX_ROWS, "record"))
    return Section("Steps", [*blocks, *_details(records)])


# Records that only say how the code went on.
_NOTES = frozenset({"borne", "command"})
# What was asked and answered stands with the decisions.
_ASKING = frozenset({"ask", "review"})


def _told(steps: Sequence[StepView]) -> Iterator[StepView]:
    """The records that say something to people: of a wait that is over, its end."""
    last = {(step.call, step.generation): step.seq for step in steps}
    for step in steps:
        is_over = step.state is StepState.WAITING and last[step.call, step.generation] != step.seq
        if step.kind not in _NOTES and not is_over:
            yield step


def _row(step: StepView, times: Times) -> tuple[Words, ...]:
    notes = [f"superseded by generation {step.superseded_by}"] if step.superseded_by is not None else []
    if step.error is not None:
        notes.append(error_line(step.error))
    if step.kind == "given":
        notes.append("output given by hand")
    state = strong(step.state) if step.state is StepState.FAILED else str(step.state)
    if step.state is StepState.PENDING and step.error is not None:
        state = "failed, to be tried again"
    return (
        *(str(step.seq), step_name(step.call.address), state, str(step.attempt)),
        *(times.moment(step.started_at), span(step.ended_at - step.started_at), "; ".join(notes)),
    )


def _details(records: Sequence[StepView]) -> Iterator[Block]:
    newest: dict[CallId, StepView] = {step.call: step for step in records if step.superseded_by is None}
    with_values = [step for step in newest.values() if _has_values(step)]
    for step in with_values[:MAX_DETAILED]:
        yield Section(step_name(step.call.address), list(_values(step)))
    if len(with_values) > MAX_DETAILED:
        yield Paragraph(
            f"The values of {len(with_values) - MAX_DETAILED:,} more steps are in the JSON form of the reconstruction."
        )


def _has_values(step: StepView) -> bool:
    return step.kind not in _ASKING and (step.input not in _EMPTY or (step.value or "") not in _EMPTY)


def _values(step: StepView) -> Iterator[Block]:
    if step.input not in _EMPTY:
        yield value_block("Given", step.input)
    if step.value is not None and step.value not in _EMPTY:
        yield value_block("Output", step.value)
    if step.error is not None:
        yield Paragraph(("Error: ", error_line(step.error)))
