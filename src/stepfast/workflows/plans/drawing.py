"""A plan as a picture, in the language of Mermaid."""

from __future__ import annotations

from collections.abc import Iterator

from stepfast.workflows.plans.describing import VERBS, describe, layers
from stepfast.workflows.plans.ordering import dependencies
from stepfast.workflows.plans.plan import (
    Ask,
    Block,
    Do,
    Emit,
    Fail,
    Parallel,
    Plan,
    PlanStep,
    Receive,
    RunChild,
    Sleep,
    Switch,
    Use,
    steps_read,
)

__all__ = ["describe", "layers", "mermaid"]

# How the verbs are drawn; what has none of its own is a plain box.
SHAPES = {
    Ask: ("{{", "}}"),
    Switch: ("{", "}"),
    Sleep: ("([", "])"),
    Receive: ("([", "])"),
    RunChild: ("[[", "]]"),
    Fail: (">", "]"),
}
LONGEST_LABEL = 60


def mermaid(plan: Plan) -> str:
    """The plan as a Mermaid flowchart: a dotted arrow is an order without data, a box what some steps make up."""
    return "\n".join(["flowchart TD", *Drawing(plan).lines(plan.block, 1)]) + "\n"


class Drawing:
    """One picture; steps have numbers in it, for their ids may be words of Mermaid's own."""

    def __init__(self, plan: Plan) -> None:
        self._numbers: dict[str, str] = {}
        for step in plan:
            self._numbers.setdefault(step.id, f"s{len(self._numbers)}")

    def lines(self, block: Block, depth: int) -> Iterator[str]:
        """The steps of a block, and the arrows between them."""
        groups = {step.group for step in block.steps if step.group}
        for step in block.steps:
            if not step.group:
                yield from self._step(step, depth)
            elif step.group in groups:
                groups.discard(step.group)
                members = [each for each in block.steps if each.group == step.group]
                yield from self._group(members, depth)
        yield from self._arrows(block, depth)

    def _group(self, members: list[PlanStep], depth: int) -> Iterator[str]:
        yield f'{"  " * depth}subgraph {self._numbers[members[0].id]}g["side by side"]'
        for step in members:
            yield from self._step(step, depth + 1)
        yield f"{'  ' * depth}end"

    def _step(self, step: PlanStep, depth: int) -> Iterator[str]:
        name, margin = self._numbers[step.id], "  " * depth
        blocks = list(_boxes(step))
        if not blocks:
            opening, closing = SHAPES.get(type(step.verb), ("[", "]"))
            yield f'{margin}{name}{opening}"{label(step)}"{closing}'
        else:
            yield f'{margin}subgraph {name}["{label(step)}"]'
            for number, (title, block) in enumerate(blocks):
                yield from self._box(f"{name}b{number}", title, block, depth + 1)
            yield f"{margin}end"
        for number, handler in enumerate(step.catch):
            caught = f"on {', '.join(handler.errors) or 'any error'}"
            yield from self._box(f"{name}c{number}", caught, handler.block, depth)
            yield f"{margin}{name} -.->|{_escaped(caught)}| {name}c{number}"

    def _box(self, name: str, title: str, block: Block, depth: int) -> Iterator[str]:
        if not title:
            yield from self.lines(block, depth)
            return
        yield f'{"  " * depth}subgraph {name}["{_escaped(title)}"]'
        yield from self.lines(block, depth + 1)
        yield f"{'  ' * depth}end"

    def _arrows(self, block: Block, depth: int) -> Iterator[str]:
        follows = zip(block.steps, block.steps[1:], strict=False) if block.is_sequence else ()
        before = {later.id: earlier.id for earlier, later in follows}
        waits = dependencies(block)
        for step in block.steps:
            read = steps_read(step)
            for need in sorted({*waits[step.id], *([before[step.id]] if step.id in before else ())}):
                arrow = "-->" if need in read or need == before.get(step.id) else "-.->"
                yield f"{'  ' * depth}{self._numbers[need]} {arrow} {self._numbers[step.id]}"


def label(step: PlanStep) -> str:
    """What is written into a step's box."""
    lines = [_escaped(step.id), _escaped(_does(step))]
    if step.each is not None:
        lines.append("for each item")
    if step.loop is not None:
        lines.append("again and again")
    return "<br/>".join(line for line in lines if line)


def _does(step: PlanStep) -> str:
    match step.verb:
        case Use(executor=executor):
            return "" if executor.rpartition(".")[2] == step.id else executor
        case RunChild(workflow=workflow):
            return f"run {workflow}"
        case Emit(event=event):
            return f"emit {event}"
        case _:
            return VERBS[type(step.verb)]


def _boxes(step: PlanStep) -> Iterator[tuple[str, Block]]:
    match step.verb:
        case Do(block):
            yield "", block
        case Parallel(branches):
            yield "", Block(branches)
        case Switch(cases):
            for number, case in enumerate(cases, 1):
                yield "otherwise" if case.when is None else f"case {number}", case.block
        case _:
            return


def _escaped(text: str) -> str:
    """A text that Mermaid, and the page it is shown in, take for nothing but text."""
    short = text if len(text) <= LONGEST_LABEL else f"{text[:LONGEST_LABEL]}..."
    return "".join(each if each.isalnum() or each in " _-.,'" else f"#{ord(each)};" for each in short)
