"""Policies of a graph's steps: what they are asked with, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stepfast.kernel.errors import InvalidDefinition, StepfastError
from stepfast.workflows.graphs.drafts import Draft, PolicyDraft
from stepfast.workflows.graphs.formulas import optional_formula
from stepfast.workflows.limits import Limits, check_limit
from stepfast.workflows.plans.checking import Problem
from stepfast.workflows.plans.frame import BESIDE, FindExecutor
from stepfast.workflows.plans.plan import SEEN_BY_POLICIES, Plan, PlanStep, Policy, Use

if TYPE_CHECKING:
    from stepfast.workflows.graphs.compiling import Compiler


def policies_of(compiler: Compiler, draft: Draft, policies: Iterable[PolicyDraft]) -> tuple[Policy, ...]:
    """The policies of a step."""
    return tuple(_policy(compiler, draft, policy) for policy in policies)


def _policy(compiler: Compiler, draft: Draft, policy: PolicyDraft) -> Policy:
    if policy.before is not None and not draft.touches(policy.before):
        compiler.refuse(*_idle(policy.id, draft.id, policy.before))
    return compiler.in_item(draft, SEEN_BY_POLICIES[policy.before], lambda: _compiled(compiler, policy))


def check_policies(plan: Plan, executors: FindExecutor) -> None:
    """Refuse policies before what a step does not do, of steps that use what only the app knows."""
    found = [
        Problem(step.id, *_idle(policy.id, step.id, policy.before))
        for step in plan
        for policy in step.policies
        if policy.before is not None and _is_idle(step, policy.before, executors)
    ]
    if found:
        told = "\n".join(f"- {problem}" for problem in found)
        raise InvalidDefinition(f"Graph {plan.name!r} cannot be used as it is:\n{told}")


def _is_idle(step: PlanStep, before: str, executors: FindExecutor) -> bool:
    if (step.reads if before == "read" else step.writes) or not isinstance(step.verb, Use):
        return False
    try:
        return executors(step.verb.executor).body.apart is None
    except StepfastError:
        # Of what is not known here nobody can say that it is no transformation.
        return False


def _idle(policy: str, step: str, before: str) -> tuple[str, str]:
    told = f"policy {policy!r} is asked before step {step!r} {before}s, and that has no {before}s="
    return told, f"Say which assets it {before}s, or take the policy out."


def _compiled(compiler: Compiler, policy: PolicyDraft) -> Policy:
    limits = Limits(check_limit("the timeout of a policy", policy.timeout))
    when = optional_formula(policy.when, compiler)
    return Policy(policy.id, _check(compiler, policy), policy.conflict, policy.before, when, limits, dict(policy.terms))


def _check(compiler: Compiler, policy: PolicyDraft) -> Use:
    if policy.before is not None or policy.check.inputs:
        return compiler.use(policy.check, beside=BESIDE)
    if isinstance(policy.check.target, str):
        told = f"policy {policy.id!r} has the check {policy.check.target!r}: say what it is given, in arguments={{...}}"
        raise InvalidDefinition(told)
    return compiler.use_of_output(policy.check.target)
