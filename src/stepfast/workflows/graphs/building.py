"""What a graph consists of while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepfast.kernel.errors import InvalidDefinition
from stepfast.kernel.texts import shown
from stepfast.workflows.graphs.compiled import CompiledGraph
from stepfast.workflows.graphs.drafts import Draft, GraphStep, Group, MakeVerb, StepOptions
from stepfast.workflows.plans.checking import Problem
from stepfast.workflows.plans.workflow import PlanWorkflow

Steps = GraphStep[Any] | Sequence[GraphStep[Any]]
Part = GraphStep[Any] | Group | Sequence[GraphStep[Any]]


class Builder:
    """Steps as they are added to a graph, and what is found wrong with them meanwhile."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.drafts: list[Draft] = []
        self.problems: list[Problem] = []
        """What was found wrong while it was written."""
        self._groups = 0
        self._compiled: CompiledGraph | None = None
        self._workflow: PlanWorkflow | None = None
        self._is_used = False

    def _add(self, name: str, make: MakeVerb, options: StepOptions, hint: Callable[[], Any]) -> GraphStep[Any]:
        draft = Draft(name, make, options, hint)
        self.add(draft)
        return GraphStep(self, draft)

    def add(self, draft: Draft) -> None:
        """Take a step that has been written."""
        self._changed()
        self.drafts.append(draft)

    def _changed(self) -> None:
        if self._is_used:
            raise InvalidDefinition(
                f"Graph {self.name!r} is in use by an app and cannot be changed. Add its steps where it is defined, "
                f"or make a graph of another version."
            )
        self._compiled = None

    def _refuse(self, draft: Draft, message: str, hint: str) -> None:
        self.problems.append(Problem(draft.id, message, hint))

    def _refuse_empty(self, what: str, hint: str) -> None:
        self.problems.append(Problem("", f"{what!r} has no steps", hint))

    def _own(self, step: GraphStep[Any]) -> Draft:
        self._changed()
        if not isinstance(step, GraphStep):
            raise InvalidDefinition(
                f"{shown(step)} is no step of a graph: give what graph.stage or graph.use returned."
            )
        if step.graph is not self:
            hint = "Put together steps of one graph only."
            self._refuse(step.draft, f"step {step.id!r} belongs to graph {step.graph.name!r}", hint)
        return step.draft

    def _all_own(self, part: Part) -> list[Draft]:
        if isinstance(part, GraphStep):
            return [self._own(part)]
        return [self._own(step) for step in (part.steps if isinstance(part, Group) else part)]

    def _adopted(self, steps: Steps, home: str) -> tuple[Draft, ...]:
        drafts = self._all_own(steps)
        for draft in drafts:
            if draft.home is not None:
                told = f"step {draft.id!r} is a part of {draft.home!r} and of {home!r}"
                self._refuse(draft, told, "It can be a part of one only.")
            draft.home = home
        return tuple(drafts)
