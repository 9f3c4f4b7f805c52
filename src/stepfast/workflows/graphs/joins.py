"""Joins as people write them in Python, as rules of a plan."""

from __future__ import annotations

from typing import Literal

from stepfast.kernel.errors import InvalidDefinition
from stepfast.kernel.texts import shown
from stepfast.workflows.joins import JoinSpec
from stepfast.workflows.plans.plan import JoinRule

OnExtra = Literal["cancel", "ignore"]


def join_rule(spec: JoinSpec, on_extra: OnExtra = "cancel") -> JoinRule:
    """The rule for "all", "any", "settled", a number, or a percentage."""
    match spec:
        case "all":
            return JoinRule("all", 0, on_extra)
        case "any":
            return JoinRule("any", 0, on_extra)
        case "settled":
            return JoinRule("settled", 0, on_extra)
        case bool():
            raise _refused(spec)
        case int() if spec > 0:
            return JoinRule("first", spec, on_extra)
        case str():
            return JoinRule("quorum", _share(spec), on_extra)
        case _:
            raise _refused(spec)


def _share(spec: str) -> float:
    try:
        share = float(spec.removesuffix("%"))
    except ValueError:
        raise _refused(spec) from None
    if not spec.endswith("%") or not 0 < share <= 100:
        raise _refused(spec)
    return share


def _refused(spec: object) -> InvalidDefinition:
    return InvalidDefinition(
        f'join is {shown(spec)}; allowed are "all", "any", "settled", a number from 1 on, or a percentage like "90%".'
    )
