"""Reviews of a plan: before a step, after it, in its place, and where something that it requires does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepfast.kernel.errors import Invalid, StepFailed
from stepfast.kernel.reviews import ItemKind, Verdict
from stepfast.workflows.branches import Branch
from stepfast.workflows.plans.frame import as_json
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import Ask, Formula, Gate, PlanStep, Policy
from stepfast.workflows.plans.walking import begin
from stepfast.workflows.review_calls import Reviewed
from stepfast.workflows.reviewing import review

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter

ANYTHING: Mapping[str, Any] = {}

# What can be said of a step that has not begun.
BEFORE = [Verdict.CONTINUE, Verdict.REJECT, Verdict.RETRY, Verdict.ESCALATE]
AFTER = [Verdict.CONTINUE, Verdict.REJECT, Verdict.CORRECT, Verdict.RETRY, Verdict.ESCALATE]

Verdicts = tuple[Any, bool]
"""The output that counts, and whether that is the end of it; else the step is done again."""


def is_marked(output: Any) -> bool:
    """Whether an executor has marked its output: a person is to look at it."""
    return isinstance(output, Mapping) and output.get("review_required") is True


class Gates:
    """Asks people about the steps of one run."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter

    async def require(self, step: PlanStep, place: Place, branch: Branch) -> None:
        """Hold a step back until what it requires holds, or a person lets it go on."""
        assert step.require is not None
        while not self._interpreter.holds(step, "require", step.require, place.names):
            title = f"Step {step.id} is blocked: what it requires does not hold"
            answer = await self._review(branch, title, None, {"verdicts": BEFORE}, ItemKind.BLOCKED)
            if answer.verdict == Verdict.CONTINUE:
                return

    async def before(self, step: PlanStep, place: Place, branch: Branch, gate: Gate) -> None:
        """Have a person let a step begin."""
        while gate.when is None or self._interpreter.holds(step, "when", gate.when, place.names):
            terms = {"verdicts": BEFORE, **gate.terms}
            title = self._title(gate.title, place.names, f"May step {step.id} begin?")
            answer = await self._review(branch, title, None, terms, gate.reason)
            if answer.verdict == Verdict.CONTINUE:
                return

    async def after(self, step: PlanStep, place: Place, branch: Branch, output: Any) -> Verdicts:
        """Have the output of a step checked, and looked at by people where that is asked for."""
        for policy in step.policies:
            output, is_final = await self._keep_to(step, place, branch, policy, output)
            if not is_final:
                return output, False
        if is_marked(output):
            gate = Gate(title=None)
            output, is_final = await self._look_at(step, place, branch, gate, output)
            if not is_final:
                return output, False
        gate_after = step.after
        if gate_after is None or not self._is_wanted(step, gate_after, {**place.names, "output": as_json(output)}):
            return output, True
        return await self._look_at(step, place, branch, gate_after, output)

    def _is_wanted(self, step: PlanStep, gate: Gate, names: Mapping[str, Any]) -> bool:
        return gate.when is None or self._interpreter.holds(step, "when", gate.when, names)

    async def _keep_to(self, step: PlanStep, place: Place, branch: Branch, policy: Policy, output: Any) -> Verdicts:
        names = {**place.names, "output": as_json(output)}
        verbs = self._interpreter.verbs
        found = await begin(
            self._interpreter.loop, verbs.use(step, policy.check, names, policy.id), branch.path, like=branch
        )
        if not isinstance(found, Mapping) or not isinstance(found.get("ok"), bool):
            raise Invalid(f"Policy {policy.id} answers {found!r}; it must say {{'ok': true}} or {{'ok': false}}.")
        if found["ok"]:
            return output, True
        reason = str(found.get("reason", ""))
        if policy.conflict == "fail":
            raise StepFailed(f"Policy {policy.id} refuses the output of step {step.id}: {reason}", type_name="Refused")
        title = f"Policy {policy.id} refuses the output of step {step.id}: {reason}"[:MAX_TITLE]
        return await self._judged(step, branch, title, output, {"verdicts": AFTER}, ItemKind.POLICY_CONFLICT)

    async def _look_at(self, step: PlanStep, place: Place, branch: Branch, gate: Gate, output: Any) -> Verdicts:
        names = {**place.names, "output": as_json(output)}
        title = self._title(gate.title, names, f"Look at the output of step {step.id}")
        return await self._judged(step, branch, title, output, {"verdicts": AFTER, **gate.terms}, gate.reason)

    async def _judged(
        self, step: PlanStep, branch: Branch, title: str, output: Any, terms: Mapping[str, Any], kind: str
    ) -> Verdicts:
        frame = self._interpreter.frame
        answer = await self._review(branch, title, output, terms, kind, frame.output_schema(step))
        if answer.verdict == Verdict.CORRECT:
            return frame.read_output(step, answer.value), True
        return output, answer.verdict != Verdict.RETRY

    async def ask(self, step: PlanStep, place: Place, verb: Ask) -> Any:
        """A step that is a question; `retry` has the steps done again whose outputs it shows."""
        branch = Branch(self._interpreter.branch.context, place.path_of(step.id), self._interpreter.branch.now)
        turn = 1
        while True:
            title = self._title(verb.title, place.names, step.id)
            show = verb.show.evaluate(place.names)
            answer = await self._review(branch, title, show, verb.terms, ItemKind.REVIEW_REQUIRED, verb.schema)
            if answer.verdict != Verdict.RETRY:
                return answer.value
            turn += 1
            await self._again(step, place, turn)

    async def _again(self, step: PlanStep, place: Place, turn: int) -> None:
        interpreter = self._interpreter
        reads = interpreter.frame.orders.reads(step)
        for earlier in interpreter.frame.plan:
            if earlier.id in reads and earlier.id in place.steps:
                path = place.path_of(step.id, f"~{turn}")
                inner = place.inside(None, path, {}, place.steps)
                place.completed(earlier.id, await begin(interpreter.loop, interpreter.item(earlier, inner), path))

    def _title(self, formula: Formula | None, names: Mapping[str, Any], otherwise: str) -> str:
        return (otherwise if formula is None else str(formula.evaluate(names)))[:MAX_TITLE]

    async def _review(
        self,
        branch: Branch,
        title: str,
        show: Any,
        terms: Mapping[str, Any],
        kind: str,
        schema: Mapping[str, Any] | None = ANYTHING,
    ) -> Reviewed[Any]:
        corrects = Verdict.CORRECT in terms.get("verdicts", ())
        hint = dict(schema) if schema is not None and (corrects or schema) else None

        async def ask() -> Reviewed[Any]:
            return await review(title, show=as_json(show), type=hint, kind=str(kind), **terms)

        answer: Reviewed[Any] = await begin(self._interpreter.loop, ask(), branch.path, like=branch)
        return answer


MAX_TITLE = 200
