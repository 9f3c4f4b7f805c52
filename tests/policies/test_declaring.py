"""How policies are written: what cannot be is told with its place, and plans show what is."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast.workflows.plans.describing import describe
from tests.templates.writing import executors, loaded, told


async def of_assets(assets: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": bool(assets)}


async def of_output(output: Any) -> dict[str, Any]:
    return {"ok": bool(output)}


async def of_writes(writes: list[dict[str, Any]], output: Any) -> dict[str, Any]:
    return {"ok": bool(writes)}


async def work() -> str:
    return "done"


KNOWN = executors(of_assets, of_output, of_writes, work)
HEAD = "stepfast: 1\nworkflow: test\npolicies:\n  - {id: p, %s}\n"
STEPS = """steps:
  - {id: reader, use: work, reads: {asset: a}}
  - {id: writer, use: work, writes: {asset: b}}
"""


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ("check: of_output", "/policies/0: policy 'p' guards no step (Name the steps in `on`)"),
        (
            "check: of_assets, before: read, on: [writer]",
            "/policies/0/on/0: policy 'p' is asked before 'writer' reads, and that has no `reads`",
        ),
        (
            "check: of_assets, before: write, on: [reader]",
            "/policies/0/on/0: policy 'p' is asked before 'reader' writes, and that has no `writes`",
        ),
        (
            "check: of_assets, before: read, on: [nobody]",
            "/policies/0/on/0: policy 'p' guards 'nobody', which does not",
        ),
        ("check: of_output, before: look, on: [reader]", "/policies/0/before: "),
        (
            'check: of_assets, before: read, when: "${ output == 1 }"',
            "/policies/0/when: `output` is not known here",
        ),
        (
            'check: of_assets, before: read, with: {assets: "${ writes }"}',
            "/policies/0/with/assets: `writes` is not known here (It is known in policies before a write)",
        ),
        (
            'check: of_assets, before: read, when: "${ assets[0].colour == 1 }"',
            "/policies/0/when: a map has no 'colour' here",
        ),
        (
            'check: of_assets, before: read, when: "${ size(assets) }"',
            "/policies/0/when: it gives int, and true or false",
        ),
        ("check: of_writes, before: write", "of_writes needs 'output', which is not given"),
        (
            "check: of_assets, before: read, role: privacy",
            "/policies/0/role: `role` means nothing where a conflict fails the step (Say `conflict: review`)",
        ),
        (
            "check: of_assets, before: read, conflict: review, verdicts: [continue, correct]",
            "/policies/0/verdicts: nothing is there yet that could be corrected",
        ),
        ("check: nobody, before: read", "/policies/0/check: there is no executor 'nobody'"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(policy, line):
    (found,) = told(HEAD % policy + STEPS, KNOWN)
    assert line in found


def test_a_policy_for_all_that_write_needs_one_that_does():
    (found,) = told(HEAD % "check: of_assets, before: write" + "steps: [{id: a, set: 1}]", KNOWN)[:1]
    assert "policy 'p' guards no step (None has `writes`)" in found


def test_a_plan_shows_the_policies_of_its_steps():
    policy = (
        'check: of_assets, before: read, when: "${ size(assets) > 1 }", timeout: 2s, conflict: review, role: privacy'
    )
    first, second = describe(loaded(HEAD % policy + STEPS, KNOWN).plan)["steps"]
    assert first["policies"] == [
        {
            "id": "p",
            "check": "of_assets",
            "conflict": "review",
            "before": "read",
            "when": "${ size(assets) > 1 }",
            "timeout_ms": 2_000,
            "role": "privacy",
        }
    ]
    assert "policies" not in second


def test_checks_have_the_timeout_of_all_executors_unless_they_say_otherwise():
    text = HEAD % "check: of_assets, before: read" + "defaults: {timeout: 1m}\n" + STEPS
    (policy,) = loaded(text, KNOWN).plan.block.steps[0].policies
    assert policy.limits.attempt_ms == 60_000
