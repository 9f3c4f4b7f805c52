"""Reviews of a plan: before a step, after it, in its place, and where something that it requires does not hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from stepfast.kernel.reviews import ItemKind, Verdict
from stepfast.workflows.branches import Branch
from stepfast.workflows.plans.frame import as_json
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import Ask, Formula, Gate, PlanStep
from stepfast.workflows.plans.walking import begin
from stepfast.workflows.review_calls import Reviewed
from stepfast.workflows.reviewing import review
from stepfast.workflows.transformations.values import Derivation

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter

ANYTHING: Mapping[str, Any] = {}

# What can be said of a step that has not begun.
BEFORE = [Verdict.CONTINUE, Verdict.REJECT, Verdict.RETRY, Verdict.ESCALATE]
AFTER = [Verdict.CONTINUE, Verdict.REJECT, Verdict.CORRECT, Verdict.RETRY, Verdict.ESCALATE]

Verdicts = tuple[Any, bool]
"""The output that counts, and whether that is the end of it; else the step is done again."""

Stage = Callable[[PlanStep, Place, Branch, Any], Awaitable[Verdicts]]


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
            answer = await self.review(branch, title, None, {"verdicts": BEFORE}, ItemKind.BLOCKED)
            if answer.verdict == Verdict.CONTINUE:
                return

    async def before(self, step: PlanStep, place: Place, branch: Branch, gate: Gate) -> None:
        """Have a person let a step begin."""
        while gate.when is None or self._interpreter.holds(step, "when", gate.when, place.names):
            terms = {"verdicts": BEFORE, **gate.terms}
            title = self._title(gate.title, place.names, f"May step {step.id} begin?")
            answer = await self.review(branch, title, None, terms, gate.reason)
            if answer.verdict == Verdict.CONTINUE:
                return

    async def after(self, step: PlanStep, place: Place, branch: Branch, output: Any) -> Verdicts:
        """Have the output of a step checked, and looked at by people where that is asked for; then what it writes.

        What a person has put in its place goes by every policy that has not seen it: who was asked about one of them
        decides on that one alone.
        """
        let: dict[str, Any] = {}
        guards = self._interpreter.guards
        checks = (partial(guards.output, let=let), partial(guards.writing, let=let))
        stages: tuple[Stage, ...] = (checks[0], self._marked, self._gated, checks[1])
        while True:
            given = output
            for stage in stages:
                output, is_final = await stage(step, place, branch, output)
                if not is_final:
                    return output, False
            if output is given:
                return output, True
            stages = checks

    async def _marked(self, step: PlanStep, place: Place, branch: Branch, output: Any) -> Verdicts:
        if not is_marked(output):
            return output, True
        gate = Gate(reason=output.reason) if isinstance(output, Derivation) else Gate()
        return await self._look_at(step, place, branch, gate, output)

    async def _gated(self, step: PlanStep, place: Place, branch: Branch, output: Any) -> Verdicts:
        gate = step.after
        if gate is None or not self._is_wanted(step, gate, {**place.names, "output": as_json(output)}):
            return output, True
        return await self._look_at(step, place, branch, gate, output)

    def _is_wanted(self, step: PlanStep, gate: Gate, names: Mapping[str, Any]) -> bool:
        return gate.when is None or self._interpreter.holds(step, "when", gate.when, names)

    async def _look_at(self, step: PlanStep, place: Place, branch: Branch, gate: Gate, output: Any) -> Verdicts:
        names = {**place.names, "output": as_json(output)}
        title = self._title(gate.title, names, f"Look at the output of step {step.id}")
        return await self.judged(step, branch, title, output, {"verdicts": AFTER, **gate.terms}, gate.reason)

    async def judged(
        self, step: PlanStep, branch: Branch, title: str, output: Any, terms: Mapping[str, Any], kind: str
    ) -> Verdicts:
        """Have a person say what is to become of an output."""
        frame = self._interpreter.frame
        schema = output.correction if isinstance(output, Derivation) else frame.output_schema(step)
        answer = await self.review(branch, title, output, terms, kind, schema)
        if answer.verdict == Verdict.CORRECT and isinstance(output, Derivation):
            return output.corrected(answer.value), True
        if answer.verdict == Verdict.CORRECT:
            return frame.read_output(step, answer.value), True
        return output, answer.verdict != Verdict.RETRY

    async def ask(self, step: PlanStep, place: Place, verb: Ask) -> Any:
        """A step that is a question; `retry` has the steps done again whose outputs it shows."""
        branch = Branch(self._interpreter.branch.context, place.path_of(step.id))
        turn = 1
        while True:
            title = self._title(verb.title, place.names, step.id)
            show = verb.show.evaluate(place.names)
            answer = await self.review(branch, title, show, verb.terms, ItemKind.REVIEW_REQUIRED, verb.schema)
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

    async def review(
        self,
        branch: Branch,
        title: str,
        show: Any,
        terms: Mapping[str, Any],
        kind: str,
        schema: Mapping[str, Any] | None = ANYTHING,
    ) -> Reviewed[Any]:
        """Ask a person, with the path of what it is about."""
        corrects = Verdict.CORRECT in terms.get("verdicts", ())
        hint = dict(schema) if schema is not None and (corrects or schema) else None

        async def ask() -> Reviewed[Any]:
            return await review(title, show=as_json(show), type=hint, kind=str(kind), **terms)

        answer: Reviewed[Any] = await begin(self._interpreter.loop, ask(), branch.path, like=branch)
        return answer


MAX_TITLE = 200
