"""The steps of a graph while it is being written, and the handles that people have of them."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NotRequired, TypedDict

from typing_extensions import TypeVar

from stepfast.kernel.durations import Duration
from stepfast.kernel.retry import Retry
from stepfast.workflows.graphs.values import Value
from stepfast.workflows.plans.plan import JoinRule, OnFailure, Verb
from stepfast.workflows.typed_dicts import typed_dict

if TYPE_CHECKING:
    from stepfast.workflows.graphs.building import Builder
    from stepfast.workflows.graphs.compiling import Compiler

T = TypeVar("T", default=Any)

Binding = Any
"""Where a value comes from: a handle (`parse.output.lines`), a lambda over the ids of steps, or the value itself; also
lists and dicts with such in them."""

Condition = Value[Any] | Callable[..., bool] | bool


class Joined(TypedDict, Generic[T]):
    """The output of `graph.each(...)`, in the items' order: `failed` tells key, type, message and code of each failure,
    and `cancelled` has the keys of those that the join needed no more."""

    results: list[T]
    failed: list[dict[str, Any]]
    cancelled: list[str]


@dataclass(frozen=True, slots=True)
class GateDraft:
    """A review before or after a step."""

    when: Condition | None
    reason: str
    title: Binding
    terms: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UseDraft:
    """A call of an executor: of a step by itself, or by a name that the app knows."""

    target: Any
    inputs: Mapping[str, Binding]
    config: Any = None


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """A check of a step; without inputs it is given what it has parameters for."""

    id: str
    check: UseDraft
    before: Literal["read", "write"] | None
    conflict: Literal["review", "fail"]
    when: Condition | None
    timeout: Duration | None
    terms: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EachDraft:
    """One call for every item of a list."""

    over: Binding
    key: Callable[[Any], object] | None
    at_once: int | None
    join: JoinRule


@dataclass(frozen=True, slots=True)
class LoopDraft:
    """Again and again, as long as a condition holds."""

    condition: Condition
    most: int


@dataclass(frozen=True, slots=True)
class CatchDraft:
    """Steps instead of one that failed."""

    drafts: tuple[Draft, ...]
    errors: tuple[str, ...]


class ReviewTerms(TypedDict, total=False):
    """Who is asked, and by when: keywords of `review(...)`."""

    role: str
    assignee: str
    verdicts: Iterable[str]
    expires: Duration
    on_expiry: str
    escalate_to: str
    escalate_role: str
    quorum: int
    quorum_reject: int


class AssetRead(TypedDict):
    """An asset that a step reads, by its id, `id@version` or uri: looked up when the step is done, one of `assets`."""

    asset: Binding
    type: NotRequired[str]
    """The media type that it must be of, or a kind such as `image/*`."""


class AssetWrite(TypedDict):
    """An asset that a step writes when it has ended well; where the id is taken, it gets another."""

    asset: Binding
    type: NotRequired[str]
    content: NotRequired[Binding]
    """What is written: without it, the output of the step."""
    metadata: NotRequired[Binding]
    tags: NotRequired[Sequence[str]]


Reads = AssetRead | Sequence[AssetRead]
Writes = AssetWrite | Sequence[AssetWrite]


class StageOptions(TypedDict, total=False):
    """What can be said of a stage: its `reads` are steps as well as assets."""

    needs: Iterable[GraphStep[Any] | Group | str]
    when: Condition
    require: Condition
    retry: Retry
    timeout: Duration
    total_timeout: Duration
    queue: str
    priority: int
    before: GateDraft
    after: GateDraft
    undo: Any
    policies: Iterable[PolicyDraft]
    on_failure: OnFailure | Literal["fail", "continue", "skip_dependents", "compensate"]
    description: str
    metadata: Mapping[str, Any]
    estimate: Callable[..., float]
    mock: Any
    writes: Writes


class StepOptions(StageOptions, total=False):
    """What can be said of any other step."""

    reads: Reads


class ReviewOptions(StepOptions, ReviewTerms, total=False):
    """What can be said of a step that is a review."""


OPTIONS = frozenset(StepOptions.__annotations__)
TERMS = frozenset(ReviewTerms.__annotations__)

MakeVerb = Callable[["Compiler", "Draft"], Verb]


@dataclass(eq=False, slots=True)
class Draft:
    """One step, as far as it is known."""

    id: str
    make: MakeVerb
    """What it does, once everything else about the graph is known."""
    options: StepOptions
    hint: Callable[[], Any]
    """The hint of its output, for one item where it is done for several."""
    inner: tuple[Draft, ...] = ()
    followed: list[Draft] = field(default_factory=list)
    """What it needs because of a sequence."""
    home: str | None = None
    """The step that it is a part of."""
    group: str = ""
    each: EachDraft | None = None
    loop: LoopDraft | None = None
    catch: list[CatchDraft] = field(default_factory=list)
    may_touch: bool = False
    """Whether it may read and write assets without a word: it uses a transformation, or what only the app knows."""

    def touches(self, what: Literal["read", "write"]) -> bool:
        """Whether it reads, or writes, assets."""
        return self.may_touch or bool(self.options.get("reads" if what == "read" else "writes"))


class GraphStep(Generic[T]):
    """A step of a graph; `T` is the type of its output."""

    def __init__(self, graph: Builder, draft: Draft, *, is_joined: bool = False) -> None:
        self.graph = graph
        self.draft = draft
        self._is_joined = is_joined

    @property
    def id(self) -> str:
        """Its name within the graph, and that of its records."""
        return self.draft.id

    @property
    def output(self) -> Value[T]:
        """What it will give: `parse.output`, `parse.output.lines`, `parse.output["lines"]`."""
        return Value("output", self)

    @property
    def assets(self) -> Value[list[dict[str, Any]]]:
        """What it will have written: `summarise.assets[0].uri`."""
        return Value("assets", self)

    @property
    def skipped(self) -> Value[bool]:
        """Whether it will have been skipped."""
        return Value("skipped", self)

    @property
    def failed(self) -> Value[bool]:
        """Whether it will have failed, where that does not fail the run."""
        return Value("failed", self)

    @property
    def is_stale(self) -> bool:
        """Whether it was made one of many since: what all of them give has another handle."""
        return self._is_joined is not (self.draft.each is not None)

    def hint(self) -> Any:
        """The hint of its output."""
        if not self._is_joined:
            return self.draft.hint()
        return joined_hint(self.draft.hint())

    def __repr__(self) -> str:
        return f"<step {self.id} of graph {self.graph.name}>"


@dataclass(frozen=True, slots=True)
class Group:
    """Steps that run side by side; it can be needed, and stand in a sequence, like a step."""

    steps: tuple[GraphStep[Any], ...]


def joined_hint(item: Any) -> Any:
    """The hint of what many give together."""
    results = types.GenericAlias(list, (item,))
    return typed_dict("Joined", {"results": results, "failed": list[dict[str, Any]], "cancelled": list[str]})
