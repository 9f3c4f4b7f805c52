"""Stages: the steps of a graph that are written for it, as functions of a typed context."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NotRequired, cast

from typing_extensions import TypeVar

from stepfast.kernel.errors import InvalidDefinition, OutputMissing, WrongCall
from stepfast.workflows.bodies import StepBody, current_step
from stepfast.workflows.codec import hints_of
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.graphs.assets import ASSETS
from stepfast.workflows.graphs.drafts import Draft, GraphStep
from stepfast.workflows.outside import result_hint
from stepfast.workflows.typed_dicts import typed_dict

if TYPE_CHECKING:
    from stepfast.workflows.graphs.building import Builder

I_co = TypeVar("I_co", default=Any, covariant=True)
C_co = TypeVar("C_co", default=None, covariant=True)
E_co = TypeVar("E_co", default=Any, covariant=True)
T = TypeVar("T", default=Any)
O = TypeVar("O")  # noqa: E741


class StageContext(Generic[I_co, C_co, E_co]):
    """What a stage knows: `StageContext[Invoice, ScoreConfig]` has the run's input and the stage's own config.

    A stage that is done for each item of a list has the item too: `StageContext[Invoice, ScoreConfig, Clause]`. To call
    a stage alone, as tests do, make one: `await score(StageContext(invoice, ScoreConfig(), outputs={parse: parsed}))`.
    """

    def __init__(
        self,
        input: I_co,
        config: C_co = cast(Any, None),  # noqa: B008
        item: E_co = cast(Any, None),  # noqa: B008
        *,
        outputs: Mapping[Any, Any] | None = None,
        assets: Sequence[Mapping[str, Any]] = (),
        declared: frozenset[str] | None = None,
        stage: str = "",
    ) -> None:
        self.input = input
        self.config = config
        self.item = item
        self.assets = [dict(asset) for asset in assets]
        """Those that it reads, as in `storage.read_asset(ctx.assets[0])`: id, version, uri, media_type, metadata, tags.
        """
        self._outputs = {
            key.id if isinstance(key, GraphStep) else key: output for key, output in (outputs or {}).items()
        }
        self._declared = frozenset(self._outputs) if declared is None else declared
        self._stage = stage

    def require(self, step: GraphStep[O]) -> O:
        """The output of an earlier step; raises OutputMissing (E-STEP-003) when it was skipped or has failed."""
        if not self.has(step):
            raise OutputMissing(
                f"{self._name} requires the output of {step.id!r}, which was skipped or has failed. Read it with "
                f"ctx.optional({step.id}), or declare it in reads=: then the stage is skipped with it."
            )
        return cast(O, self._outputs[step.id])

    def optional(self, step: GraphStep[O]) -> O | None:
        """The output of an earlier step; None when it was skipped or failed; `has` tells that from an output None."""
        return cast(O, self._outputs[step.id]) if self.has(step) else None

    def has(self, step: GraphStep[Any]) -> bool:
        """Whether an earlier step has an output, whatever it is: None, False and "" are outputs."""
        if step.id not in self._declared:
            raise WrongCall(
                f"{self._name} reads {step.id!r} and does not say so. Add it to its needs=[...] or reads=[...]: that "
                f"is what its input is made of."
            )
        return step.id in self._outputs

    @property
    def run_id(self) -> str:
        """The run that it belongs to; empty outside a run."""
        info = current_step.get(None)
        return "" if info is None else str(info.run.run_id)

    @property
    def attempt(self) -> int:
        """Which try of the stage this is, from 1 on."""
        info = current_step.get(None)
        return 1 if info is None else info.attempt

    @property
    def _name(self) -> str:
        return f"Stage {self._stage!r}" if self._stage else "A stage"


class Stage(GraphStep[T]):
    """A step that was written as a function of its graph; called outside a run it is that function."""

    def __init__(self, graph: Builder, draft: Draft, function: Callable[..., Any]) -> None:
        super().__init__(graph, draft)
        self.function = function
        functools.update_wrapper(cast(Callable[..., Any], self), function)

    def __call__(self, context: StageContext[Any, Any, Any]) -> Any:
        return self.function(context)


class StageTypes(NamedTuple):
    """What the hints of a stage's function say."""

    input: Any
    config: Any
    item: Any
    output: Any


def types_of(function: Callable[..., Any]) -> StageTypes:
    """The types around a stage, by the hints of its function: `async def score(ctx: StageContext[...]) -> Scores`."""
    hints = hints_of(function)
    context = hints.get(next(iter(inspect.signature(function).parameters)), Any)
    output = result_hint(hints.get("return", Any))
    if typing.get_origin(context) is not StageContext:
        return StageTypes(Any, None, Any, output)
    given, config, item = (None if each is type(None) else each for each in typing.get_args(context))
    return StageTypes(given, config, item, output)


def check_stage(function: Callable[..., Any], name: str) -> None:
    """Refuse what cannot be called with a context alone."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise InvalidDefinition(
            f"Stage {name!r} must take one argument, its context: `async def {name}(ctx: StageContext[...])`."
        ) from None


class Around(NamedTuple):
    """What a stage's durable input is made of, by type."""

    input: Any
    config: Any
    """None: it has none."""
    item: Any
    has_item: bool
    outputs: Mapping[str, Any]
    result: Any
    has_assets: bool


def executor_of(function: Callable[..., Any], name: str, stage_id: str, around: Around, queue: str | None) -> Executor:
    """A stage as an executor: its arguments are `input`, `config`, `outputs` by the ids of steps, `item`, `assets`."""
    body = StepBody(_called_with_context(function, stage_id, around), name, None, None, queue)
    return Executor(body, body.function)


def _called_with_context(function: Callable[..., Any], stage_id: str, around: Around) -> Callable[..., Any]:
    def context(
        input: Any = None,
        outputs: Mapping[str, Any] | None = None,
        config: Any = None,
        item: Any = None,
        assets: Sequence[Mapping[str, Any]] = (),
    ) -> StageContext[Any, Any, Any]:
        declared = frozenset(around.outputs)
        return StageContext(input, config, item, outputs=outputs, assets=assets, declared=declared, stage=stage_id)

    async def in_loop(**arguments: Any) -> Any:
        return await function(context(**arguments))

    def in_thread(**arguments: Any) -> Any:
        return function(context(**arguments))

    stage: Callable[..., Any] = in_loop if inspect.iscoroutinefunction(function) else in_thread
    hints = _hints(around)
    kind = inspect.Parameter.KEYWORD_ONLY
    named: Any = stage
    named.__signature__ = inspect.Signature([inspect.Parameter(name, kind, annotation=hints[name]) for name in hints])
    named.__annotations__ = {**hints, "return": around.result}
    named.__module__, named.__qualname__ = function.__module__, getattr(function, "__qualname__", stage_id)
    named.__name__, named.__doc__ = stage_id, function.__doc__
    return stage


def _hints(around: Around) -> dict[str, Any]:
    hints: dict[str, Any] = {"input": around.input}
    if around.config is not None:
        hints["config"] = around.config
    if around.outputs:
        fields = {name: NotRequired[hint] for name, hint in around.outputs.items()}
        hints["outputs"] = typed_dict("Outputs", fields)
    if around.has_item:
        hints["item"] = around.item
    if around.has_assets:
        hints["assets"] = ASSETS
    return hints
