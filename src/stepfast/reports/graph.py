"""The picture of a run: its plan with what became of each step, or, of a function, its steps in their order."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from stepfast.kernel.decisions import CallId
from stepfast.kernel.definitions import DefinitionKind, DefinitionView
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.plan_control import owner_of
from stepfast.kernel.states import StepState
from stepfast.kernel.texts import counted
from stepfast.kernel.views import StepView
from stepfast.reports.blocks import Node, Picture
from stepfast.reports.texts import name

MAX_NODES = 60
MAX_ARROWS = 200
# More arrows than these between two layers of a function's steps say nothing any more.
MAX_BETWEEN = 12
NOT_DONE = "not done"

_WORST_FIRST = (
    StepState.FAILED,
    StepState.RUNNING,
    StepState.WAITING,
    StepState.CANCELLED,
    StepState.COMPLETED,
    StepState.SKIPPED,
)


# The records of a question to people, and of its answer.
_ASKING = frozenset({"ask", "review"})


class Drawn(NamedTuple):
    """A picture, and how many steps there was no room for."""

    picture: Picture
    left_out: int


def drawn(definition: DefinitionView | None, steps: Sequence[StepView]) -> Drawn:
    """The picture of a run by its definition; without one, or where that cannot be read, by what was done."""
    standing = [step for step in steps if step.superseded_by is None]
    found = None if definition is None else _by_definition(definition, standing)
    return found or _of_function(standing)


def _by_definition(definition: DefinitionView, steps: Sequence[StepView]) -> Drawn | None:
    """The picture of a plan; None for a content that is none, as somebody may have changed it."""
    try:
        found = _of_plan(_described(definition), steps)
    except (StepfastError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return found if found.picture.nodes else None


def _described(definition: DefinitionView) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(definition.content)
    if definition.kind is DefinitionKind.GRAPH:
        return content
    # Slow to import, and needed for templates alone.
    from stepfast.workflows.plans.describing import describe
    from stepfast.workflows.templates.loading import load_template

    return describe(load_template(content, name=definition.name).plan)


class Becoming(NamedTuple):
    """What became of all calls of a step."""

    state: str
    detail: str


def _became(calls: Iterable[StepView]) -> Becoming:
    newest = _counted({step.call: step for step in calls})
    states = [step.state for step in newest.values()]
    if not states:
        return Becoming(NOT_DONE, "")
    state = next((each for each in _WORST_FIRST if each in states), states[-1])
    attempts = max(step.attempt for step in newest.values())
    if len(states) > 1:
        return Becoming(state, f"{states.count(state)} of {counted(len(states), 'call')}")
    return Becoming(state, counted(attempts, "attempt") if attempts > 1 else "")


def _counted(newest: dict[CallId, StepView]) -> dict[CallId, StepView]:
    """The calls that make a step up: its items, if any; else its own, without what belongs to it; else the last."""
    items = {call: step for call, step in newest.items() if call.path.endswith("]")}
    own = {call: step for call, step in newest.items() if step.kind not in _ASKING and "." not in call.name}
    return items or own or dict(list(newest.items())[-1:])


class Layout:
    """Puts the steps of a plan into layers, those inside others below them."""

    def __init__(self, steps: Sequence[StepView]) -> None:
        self.nodes: list[Node] = []
        self.arrows: list[tuple[int, int]] = []
        self.left_out = 0
        self._calls: dict[str, list[StepView]] = defaultdict(list)
        for step in steps:
            self._calls[owner_of(step.call)].append(step)

    def block(self, view: dict[str, Any], layer: int, depth: int) -> tuple[int, list[int], list[int]]:
        """Place a block: the layer below it, the places of what begins in it, and of what ends it."""
        steps = {str(step["id"]): step for step in view.get("steps", ())}
        ends: dict[str, list[int]] = {}
        firsts: list[int] = []
        for row in view.get("layers", ()):
            below = layer + 1
            for step_id in row:
                if step_id not in steps:
                    continue
                step = steps[step_id]
                if len(self.nodes) >= MAX_NODES:
                    self.left_out += 1 + _size(step)
                    continue
                bottom, place, last = self._step(step, layer, depth)
                before = [end for need in step.get("after", ()) for end in ends.get(need, ())]
                self.arrows += [(end, place) for end in before]
                firsts += [] if before else [place]
                ends[step_id], below = last, max(below, bottom)
            layer = below
        followed = {need for step in steps.values() for need in step.get("after", ())}
        return layer, firsts, [end for step_id, last in ends.items() if step_id not in followed for end in last]

    def _step(self, step: dict[str, Any], layer: int, depth: int) -> tuple[int, int, list[int]]:
        became = _became(self._calls.get(str(step["id"]), ()))
        place, below, last = len(self.nodes), layer + 1, list[int]()
        self.nodes.append(Node(name(step["id"]), *became, layer, depth))
        for inner in _inner(step):
            bottom, firsts, ends = self.block(inner, layer + 1, depth + 1)
            self.arrows += [(place, first) for first in firsts]
            below, last = max(below, bottom), last + ends
        inside = [node.state for node in self.nodes[place + 1 :]]
        if became.state == NOT_DONE and inside:
            self.nodes[place] = self.nodes[place]._replace(state=_of_inside(inside))
        return below, place, last or [place]


def _of_inside(states: Sequence[str]) -> str:
    """What became of a step that is nothing but the steps inside it."""
    done = [state for state in states if state != NOT_DONE]
    return next((each for each in _WORST_FIRST if each in done), NOT_DONE)


def _inner(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "steps" in step:
        yield step
    yield from step.get("cases", ())
    yield from step.get("catch", ())


def _size(step: dict[str, Any]) -> int:
    return sum(1 + _size(each) for block in _inner(step) for each in block.get("steps", ()))


def _of_plan(view: dict[str, Any], steps: Sequence[StepView]) -> Drawn:
    layout = Layout(steps)
    layout.block(view, 0, 0)
    title = "The plan of the run, and what became of each step. An arrow leads to what comes after."
    return Drawn(Picture(title, layout.nodes, layout.arrows[:MAX_ARROWS]), layout.left_out)


def _of_function(steps: Sequence[StepView]) -> Drawn:
    """Steps by name in the order in which they began; what overlapped stands side by side."""
    named: dict[str, list[StepView]] = defaultdict(list)
    for step in steps:
        named[step.call.name].append(step)
    groups = sorted(named.items(), key=lambda item: (min(step.started_at for step in item[1]), item[1][0].seq))
    nodes, layer, until = list[Node](), 0, 0
    for title, calls in groups[:MAX_NODES]:
        if nodes and min(step.started_at for step in calls) >= until:
            layer += 1
        until = max(until, *(step.ended_at for step in calls))
        nodes.append(Node(name(title), *_became(calls), layer))
    about = "The steps of the run in the order in which they began; those side by side overlapped."
    return Drawn(Picture(about, nodes, list(_between(nodes))[:MAX_ARROWS]), max(0, len(groups) - MAX_NODES))


def _between(nodes: Sequence[Node]) -> Iterator[tuple[int, int]]:
    layers: dict[int, list[int]] = defaultdict(list)
    for place, node in enumerate(nodes):
        layers[node.layer].append(place)
    for layer, places in layers.items():
        pairs = [(before, after) for before in places for after in layers.get(layer + 1, ())]
        yield from pairs if len(pairs) <= MAX_BETWEEN else pairs[:1]
