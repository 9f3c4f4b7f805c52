"""How many of several children, or items, must come to a good end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from stepfast.kernel.errors import Invalid

T = TypeVar("T")

JoinSpec = Literal["all", "any", "settled"] | int | str


@dataclass(frozen=True, slots=True)
class Join:
    """How many are needed of how many; with `settles` all must have ended, well or not."""

    need: int
    total: int
    settles: bool = False
    single: bool = False

    @property
    def spare(self) -> int:
        """How many may fail before it can no longer be met."""
        return self.total if self.settles else self.total - self.need


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """How one item ended, where all were to settle."""

    ok: bool
    value: T | None = None
    error: BaseException | None = None


def join_of(spec: JoinSpec, total: int) -> Join:
    """The join that people write as "all", "any", "settled", a number or a percentage."""
    if spec == "all":
        return Join(total, total)
    if spec == "settled":
        return Join(total + 1, total, settles=True)
    if spec == "any":
        return _checked(Join(1, total, single=True), spec)
    if isinstance(spec, int) and not isinstance(spec, bool):
        return _checked(Join(spec, total), spec)
    return _checked(Join(_share(spec, total), total), spec)


def _share(spec: object, total: int) -> int:
    try:
        share = float(str(spec).removesuffix("%"))
    except ValueError:
        share = -1.0
    if not str(spec).endswith("%") or not 0 < share <= 100:
        raise Invalid(f'join is {spec!r}; allowed are "all", "any", "settled", a number, or a percentage like "90%".')
    return math.ceil(total * share / 100)


def _checked(join: Join, spec: object) -> Join:
    if not 0 <= join.need <= join.total or (join.total == 0 and spec in ("any",)):
        raise Invalid(f"join={spec!r} of {join.total} items can never be met. Ask for fewer, or for none of nothing.")
    return join
