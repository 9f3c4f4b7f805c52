"""What all runs of a plan share: its order, and the bodies of the steps that it names."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from stepfast.kernel.errors import Invalid, NotFound
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.child_calls import ChildKind
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec, in_short
from stepfast.workflows.culprits import is_native
from stepfast.workflows.executors.schemas import output_schema
from stepfast.workflows.functions import Workflow
from stepfast.workflows.limits import UNLIMITED
from stepfast.workflows.plans.ordering import Orders
from stepfast.workflows.plans.plan import Plan, PlanStep, Use
from stepfast.workflows.policies import StepPolicy
from stepfast.workflows.step_calls import PlainStepCall, StepCall

if TYPE_CHECKING:
    from stepfast.workflows.transformations.running import Spec


class Executor(Protocol):
    """What a plan must know of an executor."""

    @property
    def name(self) -> str: ...

    @property
    def body(self) -> StepBody: ...


FindExecutor = Callable[[str], Executor]
"""The executor of a name; raises when there is none here."""

FindWorkflow = Callable[[str, int | None, str], Workflow]
"""The workflow that a tenant has of a name, and of a version, or else the newest; raises NotFound without one."""


class PlainResult(ValueCodec):
    """A result as formulas see it: checked and written by its own type, read as the JSON that it is."""

    def __init__(self, typed: ValueCodec) -> None:
        super().__init__(Any, typed.what)
        self._typed = typed

    def restore(self, value: Any) -> tuple[str, Any]:
        text, _ = self._typed.restore(value)
        return text, json.loads(text)

    def decode(self, text: str) -> Any:
        return json.loads(text)


# Of what an output must fit, where it does not.
MAX_SCHEMA = 500

BESIDE = ("config", "assets", "writes")
"""What an executor that has a parameter of this name is given without being told to."""


class Frame:
    """A plan made ready to be walked.

    `is_plain` says that its values are JSON, as a template's are; those of a graph in Python have their own types.
    """

    def __init__(
        self, plan: Plan, executors: FindExecutor, workflows: FindWorkflow, is_plain: bool, is_dry: bool = False
    ) -> None:
        self.plan = plan
        self.orders = Orders(plan)
        self.workflows = workflows
        self.is_plain = is_plain
        self.is_dry = is_dry
        """Whether steps give their mocks instead of being done."""
        self.simple = frozenset(id(step) for step in plan if is_simple(step) and plan.at_once is None and not is_dry)
        """The steps that can be done without a look at anything around them."""
        self._executors = executors
        self._bodies: dict[int, tuple[Use, StepBody]] = {}
        self._children: dict[int, tuple[Use, ChildKind | None]] = {}
        self._specs: dict[int, Spec] = {}

    def body(self, step: PlanStep, use: Use, name: str) -> StepBody:
        """The body of what a step uses, under the name that its records have."""
        known = self._bodies.get(id(use))
        if known is None:
            known = self._bodies[id(use)] = (use, self._made(step, use, name))
        return known[1]

    def _made(self, step: PlanStep, use: Use, name: str) -> StepBody:
        # A copy shares what is dear to make: the codecs of the executor's types.
        body = copy.copy(self._executors(use.executor).body)
        body.name = name
        body.queue = None
        body = (_policy(step) if use is step.verb else _policy_of_check(step, use)).governing(body)
        if self.is_plain:
            body.result = PlainResult(body.result)
        return body

    def output_schema(self, step: PlanStep) -> dict[str, Any]:
        """What a step gives, as far as its executor says: what a person puts in its place must be the same."""
        if not isinstance(step.verb, Use) or self.is_dry:
            return {}
        return output_schema(self._executors(step.verb.executor).body.function) or {}

    def read_output(self, step: PlanStep, value: Any) -> Any:
        """JSON that a person has put in the place of an output, as the steps behind it see that."""
        if self.is_plain or not isinstance(step.verb, Use):
            return value
        return self.body(step, step.verb, step.id).result.decode(json.dumps(value))

    def misfit_of(self, step: PlanStep, value: Any) -> str | None:
        """Why the steps behind one cannot read JSON in the place of its output; None: they can, or it is not known."""
        try:
            schema = json.dumps(self.output_schema(step))
        except NotFound:
            # Whoever has the executor will say.
            return None
        try:
            self.read_output(step, value)
        except Invalid as error:
            why = in_short(error.__cause__) if isinstance(error.__cause__, Exception) else str(error)
            return f"{why}. Give JSON that fits {schema[:MAX_SCHEMA]}."
        return None

    def child(self, step: PlanStep, use: Use) -> ChildKind | None:
        """What a step is a run of that a queue takes, its own or that of its executor; None: it is done in its run."""
        if use is not step.verb:
            return None
        known = self._children.get(id(use))
        if known is None:
            known = self._children[id(use)] = (use, self._made_child(step, use))
        return known[1]

    def _made_child(self, step: PlanStep, use: Use) -> ChildKind | None:
        body = self._executors(use.executor).body
        queue = step.queue or body.queue
        if queue is None and body.apart is None:
            return None
        if body.apart is not None:
            self._specs[id(use)] = cast("Spec", body.apart)
        result = PlainResult(body.result) if self.is_plain else body.result
        # In its parent's queue it has its parent's code: whoever can execute that has the executor too.
        code = None if queue is None else body.name
        terms = ("step", body.name, 0, code, queue, step.priority, body.arguments, result)
        return ChildKind(*terms, metadata=_metadata(_policy(step), body))

    def spec(self, use: Use) -> Spec | None:
        """What a transformation is that a step uses, once it is known what it is a run of; None for any other."""
        return self._specs.get(id(use))

    def call(self, use: Use, body: StepBody, scope: Mapping[str, Any], config: Mapping[str, Any]) -> StepCall:
        """The call of an executor's body with what its step gives it."""
        given = self._given(use, body.arguments, scope, config)
        return PlainStepCall(body, given) if self.is_plain else StepCall(body, (), given)

    def child_input(
        self,
        use: Use,
        child: ChildKind,
        scope: Mapping[str, Any],
        config: Mapping[str, Any],
        pinned: Mapping[str, Any] | None = None,
    ) -> str:
        """The input of an executor that is a run of its own; what is pinned takes the place of what is given."""
        given = {**self._given(use, child.arguments, scope, config), **(pinned or {})}
        return child.arguments.restore_json(given)[0] if self.is_plain else child.input_of((), given)

    def _given(
        self, use: Use, codec: ArgumentsCodec, scope: Mapping[str, Any], config: Mapping[str, Any]
    ) -> dict[str, Any]:
        given = use.inputs.evaluate(scope)
        if not isinstance(given, Mapping):
            raise Invalid(f"What {use.executor} is called with is no map of names to values, but {given!r}.")
        if type(given) is dict and not any(map(codec.knows, BESIDE)):
            return given
        beside: dict[str, Any] = {name: scope[name] for name in BESIDE if name in scope}
        beside["config"] = {**use.config, **config}
        added = {name: value for name, value in beside.items() if name not in given and codec.knows(name)}
        read = added if self.is_plain else {name: codec.read_one(name, value) for name, value in added.items()}
        return {**given, **read}


def _metadata(policy: StepPolicy, body: StepBody) -> str | None:
    """What is said of the runs of an executor."""
    if body.apart is None:
        return policy.text
    return json.dumps({**json.loads(policy.text or "{}"), **body.apart.metadata})


def _policy(step: PlanStep) -> StepPolicy:
    return StepPolicy(step.retry, step.limits)


def _policy_of_check(step: PlanStep, use: Use) -> StepPolicy:
    limits = next((policy.limits for policy in step.policies if policy.check is use), UNLIMITED)
    return StepPolicy(None, limits)


def is_bare(step: PlanStep) -> bool:
    """Whether a step, once or for one item, is nothing but the call of an executor."""
    around = (step.loop, step.before, step.after, step.reads, step.writes)
    return isinstance(step.verb, Use) and not any(around) and not step.policies and not step.catch


def is_simple(step: PlanStep) -> bool:
    """Whether a step is nothing but the call of an executor in its own run."""
    return is_bare(step) and not any((step.each, step.require, step.queue))


def as_json(value: Any) -> Any:
    """A value as people are shown it."""
    if is_native(value):
        return value
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)
