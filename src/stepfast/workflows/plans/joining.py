"""Joins of a plan: how many of several must come to a good end, and what they give together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stepfast.kernel.errors import JoinFailed
from stepfast.workflows.joins import Join, Tally
from stepfast.workflows.plans.places import told_error
from stepfast.workflows.plans.plan import JoinRule


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


class PlanTally(Tally):
    """The ends of items or branches, and what a step that waits for them gives."""

    def check(self, what: str) -> None:
        """Raise when the join was not met; the first failure is the cause."""
        if self.join.settles or self.good >= self.join.need:
            return
        failed = self._failed()
        _, first = failed[0]
        raise JoinFailed(
            f"{what}: {len(failed)} of {self.join.total} failed, and {self.join.need} had to come to a good end. "
            f"The first failed with {type(first).__name__}: {first}"
        ) from first

    def output(self, keys: Sequence[str], left_alone: bool) -> dict[str, Any]:
        """What the join gives, in the order of the items; those that go on are in none of its lists."""
        results = [outcome.value for _, outcome in self.ended if outcome.ok]
        failed = [{"key": keys[index], **told_error(error)} for index, error in self._failed()]
        return {"results": results, "failed": failed, "cancelled": [keys[each] for each in self._left(left_alone)]}

    def summary(self, left_alone: bool) -> dict[str, int]:
        """What is recorded of it: the results are in the records of the items."""
        bad = len(self.outcomes) - self.good
        return {"completed": self.good, "failed": bad, "cancelled": len(self._left(left_alone))}

    def _failed(self) -> list[tuple[int, BaseException]]:
        return [(index, outcome.error) for index, outcome in self.ended if outcome.error is not None]

    def _left(self, left_alone: bool) -> list[int]:
        return [] if left_alone else [index for index in range(self.join.total) if index not in self.outcomes]
