"""Policies of a graph's steps: what they are asked with, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stepfast.kernel.errors import InvalidDefinition
from stepfast.workflows.graphs.drafts import Draft, PolicyDraft
from stepfast.workflows.graphs.formulas import formula_of
from stepfast.workflows.limits import Limits, check_limit
from stepfast.workflows.plans.frame import BESIDE
from stepfast.workflows.plans.plan import SEEN_BY_POLICIES, Policy, Use

if TYPE_CHECKING:
    from stepfast.workflows.graphs.compiling import Compiler


def policies_of(compiler: Compiler, draft: Draft, policies: Iterable[PolicyDraft]) -> tuple[Policy, ...]:
    """The policies of a step."""
    return tuple(_policy(compiler, draft, policy) for policy in policies)


def _policy(compiler: Compiler, draft: Draft, policy: PolicyDraft) -> Policy:
    if policy.before is not None and not draft.touches(policy.before):
        told = f"policy {policy.id!r} is asked before step {draft.id!r} {policy.before}s, and that has no"
        compiler.refuse(f"{told} {policy.before}s=", f"Say which assets it {policy.before}s, or take the policy out.")
    return compiler.in_item(draft, SEEN_BY_POLICIES[policy.before], lambda: _compiled(compiler, policy))


def _compiled(compiler: Compiler, policy: PolicyDraft) -> Policy:
    limits = Limits(check_limit("the timeout of a policy", policy.timeout))
    when = None if policy.when is None else formula_of(policy.when, compiler)
    return Policy(policy.id, _check(compiler, policy), policy.conflict, policy.before, when, limits, dict(policy.terms))


def _check(compiler: Compiler, policy: PolicyDraft) -> Use:
    if policy.before is not None or policy.check.inputs:
        return compiler.use(policy.check, beside=BESIDE)
    if isinstance(policy.check.target, str):
        told = f"policy {policy.id!r} has the check {policy.check.target!r}: say what it is given, in arguments={{...}}"
        raise InvalidDefinition(told)
    return compiler.use_of_output(policy.check.target)
