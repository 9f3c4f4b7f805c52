"""The order of a block's steps: what each waits for, worked out once for all runs of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stepfast.kernel.plan_control import Ties, resting_on
from stepfast.workflows.plans.plan import (
    Block,
    Do,
    OnFailure,
    Parallel,
    Plan,
    PlanStep,
    Switch,
    inner_blocks,
    own_formulas,
    steps_read,
    steps_told,
    walk,
)


@dataclass(frozen=True, slots=True)
class Order:
    """How a block is walked: how many steps each waits for, and which wait for it."""

    steps: dict[str, PlanStep]
    waits: dict[str, int]
    followers: dict[str, tuple[str, ...]]
    first: tuple[str, ...]
    reads: dict[str, frozenset[str]]
    """The steps, here or further out, whose outputs each refers to: without one of them it cannot be done."""


class Orders:
    """The orders of all blocks of a plan."""

    def __init__(self, plan: Plan) -> None:
        # By identity: a block's equality would compare everything in it.
        self._orders = {id(block): _order(block) for block in _blocks(plan.block)}
        self._reads = {id(step): steps_read(step) for step in plan}
        self._sees = {id(step): self._reads[id(step)] | steps_told(step) for step in plan}

    def of(self, block: Block) -> Order:
        return self._orders[id(block)]

    def reads(self, step: PlanStep) -> frozenset[str]:
        """The steps whose outputs a step refers to."""
        return self._reads[id(step)]

    def sees(self, step: PlanStep) -> frozenset[str]:
        """The steps of which a step wants to know anything: their outputs, or how they ended."""
        return self._sees[id(step)]


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for step in block.steps:
        for inner in inner_blocks(step):
            yield from _blocks(inner)


def _order(block: Block) -> Order:
    home = {inner.id: step.id for step in block.steps for inner in _with_inner(step)}
    before = {step.id: _before(step, home) for step in block.steps}
    if block.is_sequence:
        for earlier, later in zip(block.steps, block.steps[1:], strict=False):
            before[later.id].add(earlier.id)
    followers: dict[str, list[str]] = {step.id: [] for step in block.steps}
    for step in block.steps:
        for needed in before[step.id]:
            followers[needed].append(step.id)
    return Order(
        steps={step.id: step for step in block.steps},
        waits={step.id: len(before[step.id]) for step in block.steps},
        followers={needed: tuple(waiting) for needed, waiting in followers.items()},
        first=tuple(step.id for step in block.steps if not before[step.id]),
        reads={step.id: steps_read(step) for step in block.steps},
    )


def dependencies(block: Block) -> dict[str, frozenset[str]]:
    """What each step of a block waits for, of the same block."""
    home = {inner.id: step.id for step in block.steps for inner in _with_inner(step)}
    return {step.id: frozenset(_before(step, home)) for step in block.steps}


def _before(step: PlanStep, home: dict[str, str]) -> set[str]:
    named = {*step.needs, *steps_read(step), *steps_told(step)}
    named.update(need for block in inner_blocks(step) for inner in walk(block) for need in inner.needs)
    # What stands further out has ended before this block began.
    return {home[name] for name in named if name in home} - {step.id}


def _with_inner(step: PlanStep) -> Iterator[PlanStep]:
    yield step
    for block in inner_blocks(step):
        yield from walk(block)


def ties_of(plan: Plan) -> Ties:
    """How the steps of a plan hang together, for commands that are about one of them."""
    steps = {step.id: step for step in plan}
    inside = {step.id: frozenset(each.id for each in _with_inner(step)) - {step.id} for step in steps.values()}
    around = dict(_around(plan.block, ()))
    repeating = [step.id for step in steps.values() if step.each is not None or step.loop is not None]
    handling = {inner.id for step in steps.values() for handler in step.catch for inner in walk(handler.block)}
    return Ties(
        followers=_followers(plan, steps),
        inside=inside,
        around=around,
        undoes={
            step.id: inside[step.id] | {step.id} if is_compound(step) else frozenset(steps)
            for step in steps.values()
            if step.on_failure is OnFailure.COMPENSATE
        },
        fans=frozenset(step.id for step in steps.values() if step.each is not None and step.loop is None),
        many=frozenset(handling.union(*(inside[step_id] for step_id in repeating))),
    )


def dependents(plan: Plan, step_id: str) -> frozenset[str]:
    """The steps that rest on a step, directly or not, with those inside these and inside itself."""
    return resting_on(ties_of(plan), step_id) - {step_id}


def is_compound(step: PlanStep) -> bool:
    """Whether a step is nothing but others, or one for each item."""
    return isinstance(step.verb, Do | Parallel | Switch) or step.each is not None


def _followers(plan: Plan, steps: dict[str, PlanStep]) -> dict[str, frozenset[str]]:
    followers: dict[str, set[str]] = {step_id: set() for step_id in steps}
    for step in steps.values():
        for name in _named(step) & steps.keys() - {step.id}:
            followers[name].add(step.id)
        if step.loop is not None:
            for inner in _with_inner(step):
                # Every round goes by the one before it.
                followers[inner.id].add(step.id)
    for block in _blocks(plan.block):
        for earlier, later in zip(block.steps, block.steps[1:], strict=False):
            followers[earlier.id].update({later.id} if block.is_sequence else ())
    for step in steps.values():
        # What was done instead of a step is what its followers rest on. Outer steps come first.
        for handler in step.catch:
            for inner in walk(handler.block):
                followers[inner.id] |= followers[step.id]
    return {step_id: frozenset(found - {step_id}) for step_id, found in followers.items()}


def _named(step: PlanStep) -> set[str]:
    references = (reference for formula in own_formulas(step) for reference in formula.references)
    return {*step.needs, *(reference[1] for reference in references if len(reference) > 1 and reference[0] == "steps")}


def _around(block: Block, outer: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for step in block.steps:
        yield step.id, outer
        handlers = [handler.block for handler in step.catch]
        for inner in inner_blocks(step):
            is_handler = any(inner is handler for handler in handlers)
            yield from _around(inner, outer if is_handler else (*outer, step.id))
