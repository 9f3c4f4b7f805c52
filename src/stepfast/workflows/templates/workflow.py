"""A template as what an app starts and a worker executes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepfast.kernel.errors import StepfastError
from stepfast.workflows.codec import ValueCodec
from stepfast.workflows.inputs import AssetsOf
from stepfast.workflows.plans.checking import uses_of
from stepfast.workflows.plans.config import checked
from stepfast.workflows.plans.frame import FindExecutor, FindWorkflow, Frame
from stepfast.workflows.plans.plan import Plan
from stepfast.workflows.plans.workflow import PlanWorkflow
from stepfast.workflows.templates.arguments import CONFIG, FOUND_AT_START, TemplateArguments

if TYPE_CHECKING:
    from stepfast.workflows.templates.loading import Template


class TemplateWorkflow(PlanWorkflow):
    """The workflow of a template, with the executors and workflows of one app."""

    def __init__(
        self, template: Template, executors: FindExecutor, workflows: FindWorkflow, *, is_dry: bool = False
    ) -> None:
        self.template = template
        frame = Frame(template.plan, executors, workflows, is_plain=True, is_dry=is_dry)

        def check_config(given: Any) -> None:
            checked(template.plan, given, _known(template.plan, executors))

        self.inputs = TemplateArguments(template.name, template.inputs, check_config)
        result = ValueCodec(Any, f"the result of workflow {template.name!r}")
        super().__init__(frame, self.inputs, result, place=template.file)

    @property
    def finds_inputs(self) -> bool:
        """Whether some of its inputs are found when a run starts, and so must be looked up before."""
        return any(each.kind in FOUND_AT_START for each in self.template.inputs.values())

    async def look_up(self, args: tuple[Any, ...], keywords: dict[str, Any], assets: AssetsOf) -> dict[str, Any]:
        """The arguments of a start, with what was found in the place of what was asked for."""
        there = assets._replace(assets=None) if self.frame.is_dry else assets
        return {**await self.inputs.resolve(args, keywords, there), CONFIG: keywords.get(CONFIG)}

    def given_text(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """What a caller gave, whatever was found for it."""
        return self.inputs.given_text(args, keywords)

    @property
    def content(self) -> str:
        """What was written, as canonical JSON."""
        return self.template.content


def _known(plan: Plan, find: FindExecutor) -> Mapping[str, Any]:
    """The executors of a plan that are known here; another process may have the others."""
    found: dict[str, Any] = {}
    for use in (use for step in plan for use in uses_of(step)):
        try:
            found[use.executor] = find(use.executor)
        except StepfastError:
            continue
    return found
