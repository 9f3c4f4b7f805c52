"""The order of a block's steps: what each waits for, worked out once for all runs of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stepfast.workflows.plans.plan import Block, Plan, PlanStep, inner_blocks, steps_read, steps_told, walk


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
