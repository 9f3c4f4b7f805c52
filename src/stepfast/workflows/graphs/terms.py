"""What is said of a step beside what it does, looked at before any run: its options, the terms of its reviews."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, cast

from stepfast.kernel.errors import Invalid
from stepfast.kernel.numbers import is_count
from stepfast.kernel.retry import Retry
from stepfast.kernel.reviews import ItemKind, Verdict
from stepfast.kernel.texts import check_text, shown
from stepfast.workflows.graphs.assets import faults_of_assets
from stepfast.workflows.graphs.drafts import Draft, GateDraft, PolicyDraft, StepOptions
from stepfast.workflows.plans.gates import AFTER, BEFORE
from stepfast.workflows.questions import Terms, question_of
from stepfast.workflows.reviewing import review

KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "retry": (Retry, "a Retry(...)"),
    "priority": (int, "a whole number"),
    "queue": (str, "a text"),
    "before": (GateDraft, "a graph.gate(...)"),
    "after": (GateDraft, "a graph.gate(...)"),
    "description": (str, "a text"),
    "metadata": (Mapping, "a dict"),
}


def good_options(draft: Draft) -> tuple[StepOptions, list[str]]:
    """The options of a step that can be, and what is wrong with the others."""
    good, faults = dict(draft.options), list(_of_repeats(draft))
    for name, value in draft.options.items():
        found = [] if value is None else [*_faults(name, value)]
        if found:
            faults += found
            del good[name]
    return cast(StepOptions, good), faults


def _faults(name: str, value: object) -> Iterator[str]:
    if name == "policies":
        yield from _of_policies(value)
    elif name in ("reads", "writes"):
        yield from faults_of_assets(name, value)
    elif (fault := _fault(name, value)) is not None:
        yield fault


def _fault(name: str, value: object) -> str | None:
    kind, told = KINDS.get(name, (object, ""))
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return f"{name} is {shown(value)}; it must be {told}"
    if name == "estimate" and not callable(value):
        return f"estimate is {shown(value)}; it must be a function of `input` and `config`"
    try:
        if name == "queue" and isinstance(value, str):
            check_text("queue", value)
        if isinstance(value, GateDraft):
            check_terms({"verdicts": AFTER if name == "after" else BEFORE, **value.terms}, value.reason, {})
    except Invalid as error:
        return f"{name}: {str(error).rstrip('.')}"
    return None


def _of_policies(value: object) -> Iterator[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, PolicyDraft) for each in value):
        yield f"policies is {shown(value)}; it must be a list of graph.policy(...)"
        return
    for number, policy in enumerate(value):
        if policy.id in [each.id for each in value[:number]]:
            yield f"two policies have the id {shown(policy.id)}; give one of them another"
        for fault in _of_policy(policy):
            yield f"policy {shown(policy.id)}{fault}"


def _of_policy(policy: PolicyDraft) -> Iterator[str]:
    if policy.before not in (None, "read", "write"):
        yield f" has before={shown(policy.before)}; it can be 'read' or 'write'"
    if policy.conflict not in ("review", "fail"):
        yield f" has conflict={shown(policy.conflict)}; it can be 'review' or 'fail'"
    try:
        check_text("the id of a policy", policy.id)
        verdicts = BEFORE if policy.before == "read" else AFTER
        check_terms({"verdicts": verdicts, **policy.terms}, ItemKind.POLICY_CONFLICT, {})
    except Invalid as error:
        yield f": {str(error).rstrip('.')}"
        return
    if policy.conflict == "fail":
        for name in sorted(policy.terms):
            yield f" has {name}=, which means nothing where a conflict fails the step"
    elif policy.before == "read" and Verdict.CORRECT in policy.terms.get("verdicts", ()):
        yield " has the verdict 'correct', and before a read there is nothing to be corrected"


def _of_repeats(draft: Draft) -> Iterator[str]:
    if draft.each is not None and draft.each.at_once is not None and not is_count(draft.each.at_once):
        yield f"at_once is {shown(draft.each.at_once)}; it must be a whole number from 1 on"
    if draft.loop is not None and not is_count(draft.loop.most):
        yield f"most is {shown(draft.loop.most)}; it must be a whole number from 1 on"


def check_terms(terms: Mapping[str, Any], kind: str, schema: Mapping[str, Any] | None) -> None:
    """Refuse terms under which nobody could be asked."""
    defaults = inspect.signature(review).parameters
    filled = {name: terms.get(name, defaults[name].default) for name in Terms._fields}
    question_of("A title", None, schema, Terms(**{**filled, "kind": kind}))
