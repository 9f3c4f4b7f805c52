"""What makes a plan impossible, whoever wrote it: all of it at once, as data."""

from __future__ import annotations

import difflib
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from stepfast.kernel.texts import shown
from stepfast.workflows.plans.ordering import dependencies
from stepfast.workflows.plans.plan import (
    Block,
    Parallel,
    Plan,
    PlanStep,
    Use,
    inner_blocks,
    own_formulas,
    walk,
)

MAX_ID = 200
MAX_LOOKS = 50
MAX_COMPARED = 2_000
# An id is a part of the paths that records have, and a name in expressions.
USABLE_ID = re.compile(r"[^\W\d][\w-]*")


class Problem(NamedTuple):
    """Something about a step that cannot be, and what to do about it."""

    step: str
    message: str
    hint: str = ""
    number: int = -1
    """Which step it is, in the order they are written: two may have one id. -1 is the plan itself."""

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}".rstrip() if self.hint else f"{self.message}."


def problems_of(plan: Plan, executors: Collection[str] | None = None) -> list[Problem]:
    """Everything that is wrong with a plan, in the order its steps are written; `executors` are the names there are."""
    found = [
        *bad_ids(plan),
        *duplicate_ids(plan),
        *missing_needs(plan),
        *missing_references(plan),
        *out_of_reach(plan),
        *cycles(plan),
        *ties_in_groups(plan),
    ]
    if executors is not None:
        found += unknown_executors(plan, executors)
    return sorted(found, key=lambda problem: problem.number)


def bad_ids(plan: Plan) -> Iterator[Problem]:
    """Ids that records and expressions could not name."""
    for index, step in enumerate(plan):
        if len(step.id) > MAX_ID or not USABLE_ID.fullmatch(step.id):
            hint = f"Use 1 to {MAX_ID} letters, digits, '_' and '-', beginning with a letter."
            yield Problem(step.id, f"the id {shown(step.id)} cannot be used", hint, index)


def duplicate_ids(plan: Plan) -> Iterator[Problem]:
    """Ids that more than one step has; each but the first is a problem."""
    seen: set[str] = set()
    for index, step in enumerate(plan):
        if step.id in seen:
            yield Problem(step.id, f"two steps have the id {step.id!r}", "Give one of them another.", index)
        seen.add(step.id)


def missing_needs(plan: Plan) -> Iterator[Problem]:
    """Steps that are needed, and are not there."""
    known = Names(step.id for step in plan)
    for index, step in enumerate(plan):
        for need in step.needs:
            if need not in known:
                told = f"step {step.id!r} needs {need!r}, which does not exist"
                yield Problem(step.id, told, known.nearest(need), index)


def missing_references(plan: Plan) -> Iterator[Problem]:
    """Steps whose outputs are read, and that are not there."""
    known = Names(step.id for step in plan)
    for index, step in enumerate(plan):
        # One that it needs as well is told of already.
        for name in sorted(name for name in _named(step) - set(step.needs) if name not in known):
            told = f"step {step.id!r} reads the output of {name!r}, which does not exist"
            yield Problem(step.id, told, known.nearest(name), index)


def out_of_reach(plan: Plan) -> Iterator[Problem]:
    """Steps that are done once for each item or round, named where nobody could say which of them is meant."""
    hidden = {inner.id: owners for inner, owners in _with_repeating_owners(plan.block, ())}
    within = {id(step): owners for step, owners in _with_repeating_owners(plan.block, ())}
    for index, step in enumerate(plan):
        for name in sorted({*step.needs, *_named(step)}):
            owners = hidden.get(name, ())
            if owners != within[id(step)][: len(owners)]:
                told = f"step {step.id!r} names {name!r}, which is done many times inside {owners[-1]!r}"
                yield Problem(step.id, told, f"Name {owners[-1]!r}, whose output has all of them.", index)


def cycles(plan: Plan) -> Iterator[Problem]:
    """Steps that wait for each other, each such ring named in full; and steps that wait for what they stand in."""
    numbers = {id(step): index for index, step in enumerate(plan)}
    for block in blocks_of(plan.block):
        steps = {step.id: step for step in block.steps}
        for ring in rings(_ties(block)):
            told = f"steps wait for each other: {' -> '.join(ring)}"
            yield Problem(ring[0], told, "Take one of these ties out.", numbers[id(steps[ring[0]])])
    for index, step in enumerate(plan):
        if step.id in step.needs:
            yield Problem(step.id, f"step {step.id!r} needs itself", "", index)
        for inner in _inside(step):
            if step.id in (*inner.needs, *_named(inner)):
                told = f"step {inner.id!r} waits for {step.id!r}, and is a part of it"
                yield Problem(inner.id, told, "Name the step inside it that is meant.", numbers[id(inner)])


def ties_in_groups(plan: Plan) -> Iterator[Problem]:
    """Steps of one parallel group of which one waits for the other, directly or through others."""
    numbers = {id(step): index for index, step in enumerate(plan)}
    for block, members in _groups(plan):
        steps = {step.id: step for step in block.steps}
        for path in _ties_between(members, dependencies(block)):
            told = f"step {path[0]!r} waits for {path[-1]!r}, and both are in one parallel group ({' -> '.join(path)})"
            yield Problem(path[0], told, "Take one of them out of the group.", numbers[id(steps[path[0]])])


def unknown_executors(plan: Plan, executors: Collection[str]) -> Iterator[Problem]:
    """Executors that are called, and that nobody has registered."""
    known = Names(executors)
    for index, step in enumerate(plan):
        for use in uses_of(step):
            if use.executor not in known:
                told = f"step {step.id!r} uses {use.executor!r}, and there is no such executor"
                yield Problem(step.id, told, known.nearest(use.executor), index)


def uses_of(step: PlanStep) -> Iterator[Use]:
    """Every executor that a step itself calls: for what it does, for its policies, and to be undone."""
    if isinstance(step.verb, Use):
        yield step.verb
    if step.undo is not None:
        yield step.undo
    yield from (policy.check for policy in step.policies)


def blocks_of(block: Block) -> Iterator[Block]:
    """A block, and every block inside it; the branches of a parallel step are one too."""
    yield block
    for step in block.steps:
        for inner in inner_blocks(step):
            yield from blocks_of(inner)


class Names:
    """Names that there are, for whoever wrote another."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._known = set(self._names)
        # A comparison with every name takes long: a file that is wrong in each line must not take for ever to refuse.
        self._looks = MAX_LOOKS

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def nearest(self, name: str) -> str:
        """The question whether somebody meant the name that is most like theirs; nothing where none is."""
        self._looks -= 1
        if self._looks < 0:
            return ""
        found = difflib.get_close_matches(name, self._names[:MAX_COMPARED], 1)
        return f"Did you mean {found[0]!r}?" if found else ""


def rings(ties: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """For each knot of names that wait for each other, the shortest way round it: `[a, b, a]`."""
    order = {name: index for index, name in enumerate(ties)}
    for knot in knots(ties):
        yield _way_round(min(knot, key=order.__getitem__), knot, ties)


def knots(ties: Mapping[str, Collection[str]]) -> Iterator[set[str]]:
    """The sets of names of which each leads to every other (Tarjan's, without recursion: plans may be long)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in ties:
        pending = [] if root in numbers else [(root, iter(ties[root]))]
        while pending:
            name, onward = pending[-1]
            if name not in numbers:
                numbers[name] = lowest[name] = len(numbers)
                path.append(name)
                on_path.add(name)
            follower = next((tie for tie in onward if tie in ties), None)
            if follower is None:
                pending.pop()
                if pending:
                    above = pending[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == numbers[name]:
                    knot = _taken_from(path, name)
                    on_path -= knot
                    if len(knot) > 1:
                        yield knot
            elif follower not in numbers:
                pending.append((follower, iter(ties[follower])))
            elif follower in on_path:
                lowest[name] = min(lowest[name], numbers[follower])


def _taken_from(path: list[str], name: str) -> set[str]:
    cut = len(path) - 1
    while path[cut] != name:
        cut -= 1
    taken = set(path[cut:])
    del path[cut:]
    return taken


def _way_round(start: str, knot: set[str], ties: Mapping[str, Collection[str]]) -> list[str]:
    came_from: dict[str, str] = {}
    pending = deque([start])
    while start not in came_from:
        name = pending.popleft()
        for tie in sorted(ties[name]):
            if tie in knot and tie not in came_from:
                came_from[tie] = name
                pending.append(tie)
    ring = [start, came_from[start]]
    while ring[-1] != start:
        ring.append(came_from[ring[-1]])
    return ring[::-1]


def _turned(ties: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    turned: dict[str, set[str]] = {name: set() for name in ties}
    for name, onward in ties.items():
        for tie in onward:
            turned[tie].add(name)
    return turned


def _ties(block: Block) -> dict[str, set[str]]:
    ties = {name: set(before) for name, before in dependencies(block).items()}
    if block.is_sequence:
        for earlier, later in zip(block.steps, block.steps[1:], strict=False):
            ties[later.id].add(earlier.id)
    return ties


def _named(step: PlanStep) -> set[str]:
    """The steps that its own formulas speak of, in whatever way."""
    named = (reference for formula in own_formulas(step) for reference in formula.references)
    return {reference[1] for reference in named if len(reference) > 1 and reference[0] == "steps"} - {step.id}


def _inside(step: PlanStep) -> Iterator[PlanStep]:
    """The steps that it consists of; those that are done when it fails do wait for it."""
    for block in inner_blocks(replace(step, catch=())):
        yield from walk(block)


def _with_repeating_owners(block: Block, owners: tuple[str, ...]) -> Iterator[tuple[PlanStep, tuple[str, ...]]]:
    for step in block.steps:
        yield step, owners
        repeats = step.each is not None or step.loop is not None
        for inner in inner_blocks(step):
            yield from _with_repeating_owners(inner, (*owners, step.id) if repeats else owners)


def _groups(plan: Plan) -> Iterator[tuple[Block, list[str]]]:
    for block in blocks_of(plan.block):
        groups: dict[str, list[str]] = {}
        for step in block.steps:
            if step.group:
                groups.setdefault(step.group, []).append(step.id)
            if isinstance(step.verb, Parallel):
                yield Block(step.verb.branches), [branch.id for branch in step.verb.branches]
        yield from ((block, members) for members in groups.values())


def _ties_between(members: Iterable[str], before: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """For each member that waits for another one, the way that leads there."""
    own = set(members)
    after = _turned(before)
    onward: dict[str, str] = {}
    pending = deque(own)
    while pending:
        name = pending.popleft()
        for follower in sorted(after[name]):
            if follower in onward:
                continue
            onward[follower] = name
            if follower not in own:
                pending.append(follower)
    for member in sorted(own & onward.keys()):
        path = [member, onward[member]]
        while path[-1] not in own:
            path.append(onward[path[-1]])
        if path[-1] != member:
            yield path
