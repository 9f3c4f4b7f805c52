"""A graph that has been found good: its plan, and what it brings along."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stepfast.kernel.errors import ExecutorNotFound, InvalidDefinition, WorkflowNotFound
from stepfast.workflows.executors.executor import Executor, executor_of_step
from stepfast.workflows.functions import Workflow
from stepfast.workflows.graphs.compiling import Compiler, numbered
from stepfast.workflows.graphs.formulas import formula_of
from stepfast.workflows.graphs.starting import configurable
from stepfast.workflows.plans import frame
from stepfast.workflows.plans.checking import problems_of
from stepfast.workflows.plans.config import checked
from stepfast.workflows.plans.describing import digest_of
from stepfast.workflows.plans.plan import Plan
from stepfast.workflows.registry import DEFINED, DEFINED_STEPS

if TYPE_CHECKING:
    from stepfast.workflows.graphs.graph import Graph

Children = Mapping[tuple[str, int], Workflow]


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A plan with the executors and workflows that its graph names as objects; others are found by their names."""

    plan: Plan
    executors: Mapping[str, Executor]
    children: Children
    find_executor: frame.FindExecutor = field(default=lambda name: _defined_executor(name))
    find_workflow: frame.FindWorkflow = field(default=lambda name, version, _: _defined_workflow(name, version))

    def beside(
        self, executors: frame.FindExecutor | None = None, workflows: frame.FindWorkflow | None = None
    ) -> CompiledGraph:
        """The same, where others are found elsewhere."""
        return replace(
            self,
            find_executor=executors or self.find_executor,
            find_workflow=workflows or self.find_workflow,
        )

    def executor(self, name: str) -> frame.Executor:
        """The executor that a step calls."""
        own = self.executors.get(name)
        return self.find_executor(name) if own is None else own

    def workflow(self, name: str, version: int | None, tenant: str) -> Workflow:
        """The workflow that a step runs as a child."""
        own = None if version is None else self.children.get((name, version))
        return self.find_workflow(name, version, tenant) if own is None else own

    def check_config(self, given: Any) -> None:
        """Refuse a config that does not fit, with everything that is wrong with it."""
        checked(self.plan, given, configurable(self.plan, self.executor))


def compiled(graph: Graph[Any, Any], executors: Collection[str] | None = None) -> CompiledGraph:
    """The plan of a graph; everything that is wrong with it is raised at once."""
    compiler = Compiler(graph, graph.drafts)
    block = compiler.block(draft for draft in graph.drafts if draft.home is None)
    output = formula_of(graph.result, compiler) if graph.has_result else None
    described = (graph.description, graph.metadata, graph.at_once)
    plan = Plan(graph.name, graph.version, block, output, *described)
    names = None if executors is None else {*executors, *compiler.executors}
    order = {step.id: number for number, step in enumerate(plan)}
    problems = numbered([*graph.problems, *compiler.problems, *problems_of(plan, names)], order)
    if not graph.drafts:
        raise InvalidDefinition(f"Graph {graph.name!r} has no steps. Add some with @graph.stage or graph.use(...).")
    if problems:
        lines = "\n".join(dict.fromkeys(f"- {problem}" for problem in problems))
        raise InvalidDefinition(f"Graph {graph.name!r} cannot be used as it is:\n{lines}")
    return CompiledGraph(replace(plan, digest=digest_of(plan)), compiler.executors, compiler.children)


def _defined_executor(name: str) -> frame.Executor:
    step = DEFINED_STEPS.only(name)
    if step is None:
        raise ExecutorNotFound(f"No executor is named {name!r} here. Is the module that has it imported?")
    return executor_of_step(step)


def _defined_workflow(name: str, version: int | None) -> Workflow:
    found = [each for each in DEFINED if each.name == name and version in (None, each.version)]
    if not found:
        wanted = name if version is None else f"{name}@{version}"
        raise WorkflowNotFound(f"No workflow is named {wanted!r} here. Is the module that has it imported?")
    return max(found, key=lambda each: each.version)
