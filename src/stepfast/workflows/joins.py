"""How many of several children, or items, must come to a good end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from stepfast.kernel.errors import Invalid
from stepfast.workflows.failures import mark_beside, marked_calls

T = TypeVar("T")

JoinSpec = Literal["all", "any", "settled"] | int | str


@dataclass(frozen=True, slots=True)
class Join:
    """How many are needed of how many, and how many may fail; it is decided at the latest when all have ended.

    With `settles` it gives an outcome for each that has ended, else as many results as are needed; a `single` one bare.
    """

    need: int
    total: int
    spare: int
    settles: bool = False
    single: bool = False

    def without(self, good: int) -> Join:
        """What is left of it when so many have come to a good end; failures so far are forgiven."""
        left = self.total - good
        spare = left if self.settles else self.total - self.need
        return Join(self.need - good, left, spare, self.settles, self.single)

    def of_page(self, size: int) -> Join:
        """The join of some of its items: decided when that alone decides the whole, or when all of them have ended."""
        return Join(min(self.need, size), size, min(self.spare, size), settles=True)


ONE = Join(1, 1, 0, single=True)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """How one item ended, where all were to settle."""

    ok: bool
    value: T | None = None
    error: BaseException | None = None


class Tally:
    """The outcomes of items as they come, counted toward a join."""

    def __init__(self, join: Join) -> None:
        self.join = join
        self.outcomes: dict[int, Outcome[Any]] = {}
        self.good = 0
        """How many of them came to a good end."""

    def add(self, outcomes: Mapping[int, Outcome[Any]]) -> None:
        """Count items that have ended."""
        self.outcomes.update(outcomes)
        self.good += sum(outcome.ok for outcome in outcomes.values())

    @property
    def is_decided(self) -> bool:
        """Whether the join is met, can no longer be met, or all have ended."""
        join, ended = self.join, len(self.outcomes)
        return self.good >= join.need or ended - self.good > join.spare or ended >= join.total

    @property
    def ended(self) -> list[tuple[int, Outcome[Any]]]:
        """What has ended, in the items' order."""
        return sorted(self.outcomes.items(), key=lambda item: item[0])

    def result(self) -> Any:
        """What the join gives, in the items' order; raises the first failure of one that was not met."""
        ended = [outcome for _, outcome in self.ended]
        if self.join.settles:
            return ended
        good = [outcome.value for outcome in ended if outcome.ok]
        if len(good) < self.join.need:
            first, *others = [outcome.error for outcome in ended if outcome.error is not None]
            raise mark_beside(first, (call for other in others for call in marked_calls(other)))
        return good[0] if self.join.single else good[: self.join.need]


def join_of(spec: JoinSpec, total: int) -> Join:
    """The join that people write as "all", "any", "settled", a number or a percentage."""
    if spec == "all":
        return Join(total, total, 0)
    if spec == "settled":
        # One more than there are, so that it is never met before all have ended.
        return Join(total + 1, total, total, settles=True)
    if spec == "any":
        return _checked(1, total, spec, single=True)
    if isinstance(spec, int) and not isinstance(spec, bool):
        return _checked(spec, total, spec)
    return _checked(_share(spec, total), total, spec)


def _share(spec: object, total: int) -> int:
    try:
        share = float(str(spec).removesuffix("%"))
    except ValueError:
        share = -1.0
    if not str(spec).endswith("%") or not 0 < share <= 100:
        raise Invalid(f'join is {spec!r}; allowed are "all", "any", "settled", a number, or a percentage like "90%".')
    return math.ceil(total * share / 100)


def _checked(need: int, total: int, spec: object, single: bool = False) -> Join:
    if not 0 <= need <= total:
        raise Invalid(f"join={spec!r} of {total} items can never be met. Ask for fewer, or for none of nothing.")
    return Join(need, total, total - need, single=single)
