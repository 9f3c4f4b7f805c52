"""Policies of a plan: checks by executors before a step reads, of what it gave, and before it writes.

One that cannot answer lets nothing through: whatever comes of a check but a clear yes is a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepfast.kernel.decisions import CallId
from stepfast.kernel.error_kinds import mark_transient
from stepfast.kernel.errors import PolicyConflict
from stepfast.kernel.reviews import ItemKind, Verdict
from stepfast.workflows.branches import Branch
from stepfast.workflows.failures import mark
from stepfast.workflows.loop import current_branch_of
from stepfast.workflows.plans.answers import done_with, refusal_in, unchecked
from stepfast.workflows.plans.frame import as_json
from stepfast.workflows.plans.gates import AFTER, BEFORE, MAX_TITLE, Verdicts
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import PlanStep, Policy
from stepfast.workflows.plans.walking import begin
from stepfast.workflows.transformations.values import Derivation, writes_of

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter

FINDS = "finds"
"""The kind of call that finds what a step would read."""

Let = dict[str, Any]
"""The output that each policy has nothing against, or that a person has let by it."""


class Refusal(NamedTuple):
    """Why a policy does not let a step go on, and the call that said so."""

    reason: str
    call: CallId
    error: Exception | None = None


def guards(step: PlanStep, what: Literal["read", "write"] | None) -> bool:
    """Whether a policy is asked before a step reads or writes, or, for None, about its output."""
    return any(policy.before == what for policy in step.policies)


class Guards:
    """Has the policies of one run's steps checked."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._by_people: dict[tuple[str, str, str], dict[str, None]] = {}

    def let_by_people(self, step: PlanStep, place: Place, what: Literal["read", "write"]) -> list[str] | None:
        """The policies that a person has let a step read, or write, against: the app's of that id do not ask again.

        In the order in which people did so; None where there are no such, as in most runs.
        """
        return [*self._by_people.get((place.path, step.id, what), ())] or None

    def _note_person(self, step: PlanStep, place: Place, policy: Policy, has_let: bool) -> None:
        known = self._by_people.setdefault((place.path, step.id, str(policy.before)), {})
        known.pop(policy.id, None)
        if has_let:
            known[policy.id] = None

    async def before_reading(
        self, step: PlanStep, place: Place, branch: Branch, assets: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Let a step read these assets, or raise; False: a person wants to have them looked up and checked anew."""
        names = {**place.names, "assets": list(assets)}
        what = f"that step {step.id} {done_with('read', assets)}"
        for policy in _those(step, "read"):
            self._note_person(step, place, policy, has_let=False)
            refusal = await self._refusal(step, policy, names, branch)
            if refusal is None:
                continue
            # Whoever retries the run has the assets looked up anew, and the check made for what is there then.
            found = current_branch_of(self._interpreter.loop).last_call(f"{step.id}.{FINDS}")
            branch.context.note_handler(found, (refusal.call,))
            title = _told(policy, what, refusal)
            show = {"policy": policy.id, "step": step.id, "reason": refusal.reason, "assets": list(assets)}
            terms = {"verdicts": BEFORE, **policy.terms}
            answer = await self._interpreter.gates.review(branch, title, show, terms, ItemKind.POLICY_CONFLICT)
            if answer.verdict == Verdict.RETRY:
                return False
            self._note_person(step, place, policy, has_let=True)
        return True

    async def output(self, step: PlanStep, place: Place, branch: Branch, output: Any, let: Let) -> Verdicts:
        """Have what a step gave checked."""
        for policy in _those(step, None):
            if policy.id in let and let[policy.id] is output:
                continue
            names = {**place.names, "output": as_json(output)}
            refusal = await self._refusal(step, policy, names, branch)
            if refusal is not None:
                what = f"the output of step {step.id}"
                output, is_final = await self._judged(step, policy, branch, _told(policy, what, refusal), output)
                if not is_final:
                    return output, False
            let[policy.id] = output
        return output, True

    async def writing(self, step: PlanStep, place: Place, branch: Branch, output: Any, let: Let) -> Verdicts:
        """Have what a step is about to write checked; a correction is of its output, and what is written follows."""
        assets = self._interpreter.assets
        if not step.writes and not isinstance(output, Derivation):
            return output, True
        for policy in _those(step, "write"):
            if policy.id in let and let[policy.id] is output:
                continue
            self._note_person(step, place, policy, has_let=False)
            names = assets.names_at_end(step, place, output)
            writes = [*derived_writes(output), *assets.to_write(step, names)]
            refusal = await self._refusal(step, policy, {**names, "writes": writes}, branch)
            if refusal is not None:
                what = f"that step {step.id} {done_with('write', writes)}"
                output, is_final = await self._judged(step, policy, branch, _told(policy, what, refusal), output)
                if not is_final:
                    return output, False
                self._note_person(step, place, policy, has_let=True)
            let[policy.id] = output
        return output, True

    async def _judged(self, step: PlanStep, policy: Policy, branch: Branch, title: str, output: Any) -> Verdicts:
        terms = {"verdicts": AFTER, **policy.terms}
        return await self._interpreter.gates.judged(step, branch, title, output, terms, ItemKind.POLICY_CONFLICT)

    async def _refusal(
        self, step: PlanStep, policy: Policy, names: Mapping[str, Any], branch: Branch
    ) -> Refusal | None:
        """Ask a policy; None: it has nothing against it."""
        interpreter = self._interpreter
        try:
            if policy.when is not None and not interpreter.holds(step, "when", policy.when, names):
                return None
            check = interpreter.verbs.use(step, policy.check, names, policy.id)
            found = await begin(interpreter.loop, check, branch.path, like=branch)
        except Exception as error:  # noqa: BLE001 - a check that cannot be made is no yes, whatever the reason
            return Refusal(unchecked(error), branch.last_call(policy.id), error)
        return _said(found, branch.last_call(policy.id))


def derived_writes(output: Any) -> Iterator[dict[str, Any]]:
    """What a transformation is about to write, as policies see it."""
    yield from writes_of(output) if isinstance(output, Derivation) else ()


def _said(found: Any, call: CallId) -> Refusal | None:
    reason = refusal_in(found)
    return None if reason is None else Refusal(reason, call)


def _told(policy: Policy, what: str, refusal: Refusal) -> str:
    """The conflict in words, for the person who is asked; raised where nobody is to be."""
    told = f"Policy {policy.id} refuses {what}: {refusal.reason}"
    if policy.conflict == "review":
        return told[:MAX_TITLE]
    conflict = PolicyConflict(told)
    if refusal.error is None:
        # Whoever retries the run has the check made again.
        raise mark(conflict, refusal.call)
    raise mark_transient(conflict) from refusal.error


def _those(step: PlanStep, before: Literal["read", "write"] | None) -> Iterator[Policy]:
    return (policy for policy in step.policies if policy.before == before)
