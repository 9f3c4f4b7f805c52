"""How the steps of a plan hang together, as far as commands go by it: which records belong to a step or rest on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import Invalid
from stepfast.kernel.plan_rules import BORNE
from stepfast.kernel.states import STEP_ENDED

if TYPE_CHECKING:
    from stepfast.kernel.commands import LockedRun, StepMark

# A path is made of ids, each with the key of an item or the number of a round, which never contain a bracket.
SEGMENT = re.compile(r"([^.\[\]]+)(?:\[([^\]]*)\])?")
UNDO = ".undo"
CHILDREN = "children"
"""The kind of the records of steps that are runs of their own."""


@dataclass(frozen=True, slots=True)
class Ties:
    """The steps of a plan by their ids, those inside others too."""

    followers: Mapping[str, frozenset[str]]
    """Those that need a step, read it, or ask how it ended."""
    inside: Mapping[str, frozenset[str]]
    """Those that stand inside a step, at any depth."""
    around: Mapping[str, tuple[str, ...]]
    """Those that a step stands inside of, from outside in; without those whose failure it handles."""
    undoes: Mapping[str, frozenset[str]]
    """Of each step that compensates: the steps that its failure may have had undone."""
    fans: frozenset[str]
    """Those that are done for every item of a list, each item by itself."""
    many: frozenset[str]
    """Those that are done many times, for they stand inside a step with items or rounds, or handle a failure."""

    def __contains__(self, step_id: str) -> bool:
        return step_id in self.followers


class Chosen(NamedTuple):
    """The step that a command is about; with the path of one of its items or rounds only that is meant."""

    step_id: str
    path: str = ""
    kind: str = ""
    """Of the record that was named."""


class Reach(NamedTuple):
    """What goes when a step goes: steps whole, and what others around them did since."""

    whole: frozenset[str]
    touched: frozenset[str]


def owner_of(call: CallId) -> str:
    """The id of the step that a call belongs to."""
    segments = _segments(call.path)
    if segments and segments[-1][1] is None:
        # The path of a step's own: its gates and policies, whatever these are called.
        return segments[-1][0]
    return call.name.partition(".")[0]


def _segments(path: str) -> list[tuple[str, str | None]]:
    return [(found[1], found[2]) for found in SEGMENT.finditer(path)]


def calls_of(steps: Sequence[StepMark], ties: Ties, chosen: Chosen, *, with_rest: bool = True) -> set[CallId]:
    """The calls of a step, and of all that rests on it; what stands beside it is not among them."""
    own = Reach(ties.inside[chosen.step_id] | {chosen.step_id}, frozenset())
    return _calls(steps, ties, _reach(steps, ties, chosen.step_id) if with_rest else own, chosen.path)


def calls_after(steps: Sequence[StepMark], ties: Ties, failing: Sequence[CallId]) -> set[CallId]:
    """Calls that failed, and all that rests on their steps; what else these did, such as other items, stays."""
    broken = {owner_of(call) for call in failing} & ties.followers.keys()
    notes = {mark.call for mark in steps if mark.kind == BORNE and owner_of(mark.call) in broken}
    found = notes.union(failing)
    for step_id in broken:
        whole, touched = _reach(steps, ties, step_id)
        found |= _calls(steps, ties, Reach(whole - {step_id} - ties.inside[step_id], touched))
    return found


def is_undo(call: CallId) -> bool:
    """Whether a call has taken a step back."""
    return call.name.endswith(UNDO)


def undone_by(calls: Iterable[CallId]) -> set[str]:
    """The steps that some of these calls have undone."""
    return {owner_of(call) for call in calls if is_undo(call)}


def given_call(run: LockedRun, chosen: Chosen, ties: Ties) -> CallId:
    """The call that stands for a step, or for one of its items, when a person gives its output."""
    step_id, path, kind = chosen
    segments = _segments(path)
    if segments and segments[-1] == (step_id, None):
        path = path[: -len(step_id)].rstrip(".")
    if not path and step_id in ties.many:
        raise Invalid(
            f"Step {step_id!r} of run {run.run_id} is done many times, or for a failure: say which by its address, as "
            f"`stepfast runs show {run.run_id}` has it."
        )
    if kind == CHILDREN and segments and segments[-1][0] == step_id:
        raise Invalid(
            f"The items of step {step_id!r} of run {run.run_id} are runs of their own: skip the step as a whole, with "
            f"the output of all."
        )
    return CallId(path, step_id, 1)


def _calls(steps: Sequence[StepMark], ties: Ties, reach: Reach, path: str = "") -> set[CallId]:
    begun = min((mark.seq for mark in steps if _is_of(mark.call, reach.whole)), default=0)
    ended_before = {mark.call for mark in steps if mark.seq < begun and mark.state in STEP_ENDED}
    item = _segments(path)
    return {
        call
        for call in {mark.call for mark in steps}
        if not _is_beside(call, item, ties)
        and (_is_of(call, reach.whole) or (owner_of(call) in reach.touched and call not in ended_before))
    }


def resting_on(ties: Ties, step_id: str) -> frozenset[str]:
    """A step, and those that rest on it, directly or not, with all that is inside them."""
    return _reach((), ties, step_id).whole


def _reach(steps: Sequence[StepMark], ties: Ties, step_id: str) -> Reach:
    undone = undone_by(mark.call for mark in steps)
    whole: set[str] = set()
    touched: set[str] = set()
    pending = [step_id]
    while pending:
        one = pending.pop()
        if one in whole:
            continue
        whole.add(one)
        touched.update(ties.around[one])
        pending += ties.inside[one]
        for ended in (one, *ties.around[one]):
            pending += ties.followers[ended]
            # What was undone is not there any more, though it is recorded as done.
            pending += undone & ties.undoes.get(ended, frozenset())
    return Reach(frozenset(whole), frozenset(touched - whole))


def _is_of(call: CallId, whole: frozenset[str]) -> bool:
    return owner_of(call) in whole or any(step_id in whole for step_id, _ in _segments(call.path))


def _is_beside(call: CallId, item: Sequence[tuple[str, str | None]], ties: Ties) -> bool:
    """Whether a call belongs to another item than the chosen one."""
    for (step_id, key), (chosen_id, chosen_key) in zip(_segments(call.path), item, strict=False):
        if step_id != chosen_id:
            return False
        if key != chosen_key:
            return step_id in ties.fans
    return False
