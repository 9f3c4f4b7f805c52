"""Joins of a plan: how many of several must come to a good end, and what they give together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from stepfast.kernel.errors import JoinFailed
from stepfast.workflows.joins import Join
from stepfast.workflows.plans.places import told_error
from stepfast.workflows.plans.plan import JoinRule

Key = str


def join_of(rule: JoinRule, total: int) -> Join:
    """The rule as numbers; one that so many can never meet is refused here, before anything begins."""
    match rule.kind:
        case "all":
            return Join(total, total, 0)
        case "settled":
            # One more than there are, so that it is never met before all have ended.
            return Join(total + 1, total, total, settles=True)
        case "quorum":
            return _needing(math.ceil(total * rule.number / 100), total)
        case "any":
            return _possible(1, total, "any")
        case "first":
            return _possible(int(rule.number), total, f"first: {int(rule.number)}")


def _possible(need: int, total: int, told: str) -> Join:
    if need > total:
        raise JoinFailed(f"The join ({told}) needs {need} of {total}, and can never be met.")
    return _needing(need, total)


def _needing(need: int, total: int) -> Join:
    return Join(need, total, total - need)


@dataclass(slots=True)
class Tally:
    """The ends of items or branches, counted toward a join."""

    join: Join
    outputs: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, BaseException] = field(default_factory=dict)

    @property
    def is_decided(self) -> bool:
        """Whether the join is met, can no longer be met, or all have ended."""
        good, bad, join = len(self.outputs), len(self.errors), self.join
        return good >= join.need or bad > join.spare or good + bad >= join.total

    @property
    def is_met(self) -> bool:
        return self.join.settles or len(self.outputs) >= self.join.need

    def check(self, what: str) -> None:
        """Raise when the join was not met; the first failure is the cause."""
        if self.is_met:
            return
        first = self.errors[min(self.errors)]
        raise JoinFailed(
            f"{what}: {len(self.errors)} of {self.join.total} failed, and {self.join.need} had to come to a good end. "
            f"The first failed with {type(first).__name__}: {first}"
        ) from first

    def output(self, keys: list[Key]) -> dict[str, Any]:
        """What the join gives, in the order of the items."""
        left = [key for index, key in enumerate(keys) if index not in self.outputs and index not in self.errors]
        failed = [{"key": keys[index], **told_error(self.errors[index])} for index in sorted(self.errors)]
        return {"results": [self.outputs[index] for index in sorted(self.outputs)], "failed": failed, "cancelled": left}

    def summary(self) -> dict[str, int]:
        """What is recorded of it: the results are in the records of the items."""
        ended = len(self.outputs) + len(self.errors)
        return {
            "completed": len(self.outputs),
            "failed": len(self.errors),
            "cancelled": self.join.total - ended,
        }
