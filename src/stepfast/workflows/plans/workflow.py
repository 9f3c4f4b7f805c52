"""A plan as a workflow: what an app starts and a worker executes."""

from __future__ import annotations

from asyncio import events
from functools import cached_property
from typing import Any

from stepfast.kernel.durations import Duration
from stepfast.kernel.plan_control import Ties
from stepfast.kernel.retry import Retry
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.functions import Bindable, Workflow
from stepfast.workflows.limits import check_limit
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.plans.frame import Frame
from stepfast.workflows.plans.interpreter import Interpreter
from stepfast.workflows.plans.ordering import ties_of
from stepfast.workflows.plans.plan import Use

DIGEST_SHOWN = 12


class PlanWorkflow(Workflow):
    """A workflow whose code is the interpreter of its plan; its arguments are `inputs` and `config`."""

    made_of: Bindable | None = None
    """What another app makes a workflow of its own of."""

    def __init__(
        self,
        frame: Frame,
        arguments: ArgumentsCodec,
        result: ValueCodec,
        *,
        queue: str | None = None,
        priority: int = 0,
        timeout: Duration | None = None,
        retry: Retry | None = None,
        place: str = "",
    ) -> None:
        plan = frame.plan
        timeout_ms = check_limit("The timeout of a workflow", timeout)
        super().__init__(self.interpret, plan.name, plan.version, queue, priority, timeout_ms, retry)
        self.kind = "template" if frame.is_plain else "graph"
        self.digest = plan.digest or None
        self.frame = frame
        self.arguments = arguments
        self.result = result
        self._place = place or f"plan {plan.name}"

    @property
    def place(self) -> str:
        return self._place

    @property
    def calls_elsewhere(self) -> list[tuple[str, str]]:
        """The executors that its steps call as runs of their own, each with the queue that those stand in."""
        queued = ((step.verb, step.queue) for step in self.frame.plan if step.queue is not None)
        return [(verb.executor, queue) for verb, queue in queued if isinstance(verb, Use)]

    @cached_property
    def ties(self) -> Ties:
        """How its steps hang together, for commands that are about one of them."""
        return ties_of(self.frame.plan)

    def misfit_of(self, step: str, output: Any) -> str | None:
        """Why a person cannot put JSON in the place of a step's output; None: they can, as far as is known here."""
        # Of a step that is done for many items, the output of all is no single one.
        found = next((each for each in self.frame.plan if step in (each.id, f"{each.id}#1") and not each.each), None)
        return None if found is None else self.frame.misfit_of(found, output)

    async def interpret(self, inputs: Any, config: dict[str, Any] | None = None) -> Any:
        """Walk the plan, inside a run."""
        loop = events._get_running_loop()
        assert isinstance(loop, RunLoop)
        return await Interpreter(self.frame, loop, inputs, config or {}).run()
