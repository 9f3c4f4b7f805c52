"""What a graph or a template compiles to: steps as data, with formulas for everything that a run decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from stepfast.kernel.retry import Retry
from stepfast.workflows.limits import UNLIMITED, Limits

Reference = tuple[str, ...]
"""A path from a name: `("steps", "parse", "output", "clauses")`."""

Scope = Mapping[str, Any]
"""What formulas see: `inputs`, `steps`, `run`, `tenant`, `config`, the names of items, `output`, `error`.

`steps` has an entry for every step that has ended: `{"state", "skipped", "failed"}`, with `output` if it completed,
`assets` if it has written some, and `error` (`{"type", "message", "code"}`) if it failed. `assets` are those that the
step at hand reads.
"""


class Formula(Protocol):
    """A value that a run computes from what it knows: an expression, a text with expressions in it, a constant."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """The paths that it reads."""
        ...

    def evaluate(self, scope: Scope) -> Any:
        """The value; the same for the same scope, always."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same in every run."""

    value: Any
    references: tuple[Reference, ...] = ()

    def evaluate(self, scope: Scope) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Computed:
    """A value that a function of Python's computes; it must be as pure as an expression."""

    function: Callable[[Scope], Any]
    references: tuple[Reference, ...] = ()

    def evaluate(self, scope: Scope) -> Any:
        return self.function(scope)


class OnFailure(StrEnum):
    """What a step's failure means for its run."""

    FAIL = "fail"
    CONTINUE = "continue"
    SKIP_DEPENDENTS = "skip_dependents"
    COMPENSATE = "compensate"


@dataclass(frozen=True, slots=True)
class JoinRule:
    """How many of several must come to a good end: `number` goes with `first`, and with `quorum` as a percentage."""

    kind: Literal["all", "any", "first", "quorum", "settled"] = "all"
    number: float = 0
    on_extra: Literal["cancel", "ignore"] = "cancel"


@dataclass(frozen=True, slots=True)
class Use:
    """Call an executor by its name; `config` is the template's own, merged with what the run's caller gave."""

    executor: str
    inputs: Formula
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunChild:
    """Run another workflow as a child, and have its result."""

    workflow: str
    inputs: Formula
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Do:
    """Steps of its own, one after the other; its output is the last one's."""

    block: Block


@dataclass(frozen=True, slots=True)
class Parallel:
    """Branches side by side; its output is `{results, failed, cancelled}` by the branches' names."""

    branches: tuple[PlanStep, ...]
    join: JoinRule = JoinRule()


@dataclass(frozen=True, slots=True)
class Case:
    """One way of a switch; without a condition it is taken when no other is."""

    when: Formula | None
    block: Block


@dataclass(frozen=True, slots=True)
class Switch:
    """The first case whose condition holds; with none the step is skipped."""

    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a person; the output is what was shown, or what the person made of it."""

    title: Formula
    show: Formula
    schema: Mapping[str, Any] | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of `review(...)`: role, assignee, verdicts, expires, on_expiry, quorum and so on."""


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for a signal; the output is its value."""

    signal: Formula
    timeout: Formula | None = None
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for a span of time."""

    duration: Formula


@dataclass(frozen=True, slots=True)
class Emit:
    """Write an event of the workflow's own."""

    event: str
    data: Formula


@dataclass(frozen=True, slots=True)
class Set:
    """Compute a value."""

    value: Formula


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail, with words of the author's."""

    message: Formula


Verb = Use | RunChild | Do | Parallel | Switch | Ask | Receive | Sleep | Emit | Set | Fail


@dataclass(frozen=True, slots=True)
class Each:
    """One step for every item of a list; with `key` an item keeps its record wherever it stands in the list."""

    items: Formula
    name: str = "item"
    key: Formula | None = None
    at_once: int | None = None
    join: JoinRule = JoinRule()


@dataclass(frozen=True, slots=True)
class While:
    """The step again and again, as long as the condition holds; `output` is that of the round before, null at first."""

    condition: Formula
    most: int = 1_000


@dataclass(frozen=True, slots=True)
class Gate:
    """A review before or after a step; without a condition always."""

    when: Formula | None = None
    reason: str = "review_required"
    title: Formula | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handler:
    """Steps instead of a step that failed; `errors` are names of error types or codes, none of them is all."""

    block: Block
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssetUse:
    """An asset that a step reads or writes; without `content` what it writes is its output."""

    asset: Formula
    media_type: str | None = None
    """What is written is of this type; what is read must be, or of this kind: `image/*`."""
    content: Formula | None = None
    metadata: Formula | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan: what it does, what it waits for, and what becomes of it when it cannot."""

    id: str
    verb: Verb
    needs: tuple[str, ...] = ()
    """Steps that must have ended well, or been skipped, before it; without a look at their outputs."""
    when: Formula | None = None
    require: Formula | None = None
    each: Each | None = None
    loop: While | None = None
    retry: Retry | None = None
    limits: Limits = UNLIMITED
    queue: str | None = None
    priority: int = 0
    before: Gate | None = None
    after: Gate | None = None
    undo: Use | None = None
    catch: tuple[Handler, ...] = ()
    on_failure: OnFailure = OnFailure.FAIL
    policies: tuple[Policy, ...] = ()
    mock: Any = None
    has_mock: bool = False
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    estimate: Formula | None = None
    """What it is likely to cost, computed before the run."""
    group: str = ""
    """Steps of one name were said to run side by side: none of them may wait for another."""
    reads: tuple[AssetUse, ...] = ()
    writes: tuple[AssetUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """A check of a step by an executor, whose output `{"ok": bool, "reason": str}` decides."""

    id: str
    check: Use
    conflict: Literal["review", "fail"] = "fail"
    before: Literal["read", "write"] | None = None
    """What the step does not do before it is let; None: end well, with the output that it has given."""
    when: Formula | None = None
    limits: Limits = UNLIMITED
    terms: Mapping[str, Any] = field(default_factory=dict)
    """Of the review that a conflict opens."""


SEEN_BY_POLICIES: Mapping[str | None, tuple[Literal["output", "assets", "writes"], ...]] = {
    None: ("output",),
    "read": ("assets",),
    "write": ("output", "assets", "writes"),
}
"""What a policy is asked about, by what it is asked before."""


@dataclass(frozen=True, slots=True)
class Block:
    """Steps that belong together; in a sequence each also needs the one before it."""

    steps: tuple[PlanStep, ...]
    is_sequence: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A workflow as data."""

    name: str
    version: int
    block: Block
    output: Formula | None = None
    """Without one the output is that of the last step that nothing follows, or of each such step by its id."""
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    at_once: int | None = None
    """How many steps of a run may be under way together."""
    digest: str = ""
    """Of its definition: what a run is pinned to."""

    def __iter__(self) -> Iterator[PlanStep]:
        """Every step, those inside others too, in the order they are written."""
        return walk(self.block)


def walk(block: Block) -> Iterator[PlanStep]:
    """Every step of a block, each before those inside it."""
    for step in block.steps:
        yield step
        for inner in inner_blocks(step):
            yield from walk(inner)


def inner_blocks(step: PlanStep) -> tuple[Block, ...]:
    """The blocks inside a step: what it does, its cases or branches, and what is done when it fails."""
    handlers = tuple(handler.block for handler in step.catch)
    match step.verb:
        case Do(block):
            return (block, *handlers)
        case Parallel(branches):
            return (Block(branches), *handlers)
        case Switch(cases):
            return (*(case.block for case in cases), *handlers)
        case _:
            return handlers


def own_formulas(step: PlanStep) -> Iterator[Formula]:
    """The formulas that must be known before a step can begin or end; not those of the steps inside it."""
    for formula in (step.when, step.require, step.estimate):
        if formula is not None:
            yield formula
    if step.each is not None:
        yield from (formula for formula in (step.each.items, step.each.key) if formula is not None)
    if step.loop is not None:
        yield step.loop.condition
    for gate in (step.before, step.after):
        if gate is not None:
            yield from (formula for formula in (gate.when, gate.title) if formula is not None)
    if step.undo is not None:
        yield step.undo.inputs
    for policy in step.policies:
        yield from (formula for formula in (policy.when, policy.check.inputs) if formula is not None)
    for used in (*step.reads, *step.writes):
        yield from (formula for formula in (used.asset, used.content, used.metadata) if formula is not None)
    yield from verb_formulas(step.verb)


def verb_formulas(verb: Verb) -> Iterator[Formula]:
    """The formulas of what a step does."""
    match verb:
        case Use(inputs=inputs) | RunChild(inputs=inputs):
            yield inputs
        case Switch(cases):
            yield from (case.when for case in cases if case.when is not None)
        case Ask(title=title, show=show):
            yield from (title, show)
        case Receive(signal=signal, timeout=timeout):
            yield signal
            if timeout is not None:
                yield timeout
        case Sleep(value) | Emit(data=value) | Set(value) | Fail(value):
            yield value
        case Do() | Parallel():
            return


def steps_read(step: PlanStep) -> frozenset[str]:
    """The ids of the steps whose outputs a step, or a step inside it, refers to."""
    found = set(_read(own_formulas(step)))
    inner: set[str] = set()
    for block in inner_blocks(step):
        for each in walk(block):
            inner.add(each.id)
            found.update(_read(own_formulas(each)))
    return frozenset(found - inner - {step.id})


def _read(formulas: Iterator[Formula]) -> Iterator[str]:
    for formula in formulas:
        told = set(_told(formula))
        for reference in formula.references:
            # `steps.x.skipped` and `.failed` only ask how it ended, which a step that merely needs it may do; and what
            # asks that before it reads the output has thought of what is to be done without one.
            if len(reference) > 1 and reference[0] == "steps" and reference[1] not in told:
                yield reference[1]


def _told(formula: Formula) -> Iterator[str]:
    for reference in formula.references:
        if len(reference) > 2 and reference[0] == "steps" and reference[2:3] in TELLING:
            yield reference[1]


TELLING = (("skipped",), ("failed",), ("state",), ("error",))
"""What can be asked of a step that has no output."""


def steps_told(step: PlanStep) -> frozenset[str]:
    """The ids of the steps of which a step only asks how they ended: it waits for them, and goes on in any case."""
    found: set[str] = set()
    inner: set[str] = set()
    for each in (step, *(each for block in inner_blocks(step) for each in walk(block))):
        inner.add(each.id)
        for formula in own_formulas(each):
            found.update(_told(formula))
    return frozenset(found - inner)
