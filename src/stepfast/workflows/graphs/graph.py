"""The graph builder: a workflow put together in Python from typed stages and steps that are there already."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping
from typing import Any, Generic, cast, overload

from typing_extensions import TypeVar, Unpack

from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import InvalidDefinition
from stepfast.kernel.retry import Retry
from stepfast.kernel.texts import shown
from stepfast.workflows.codec import ValueCodec
from stepfast.workflows.culprits import is_native
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.functions import MAX_VERSION, VERSIONS, run_blocking
from stepfast.workflows.graphs.combining import CombinedSteps
from stepfast.workflows.graphs.compiled import compiled
from stepfast.workflows.graphs.drafts import AssetRead, Binding, Draft, GraphStep, StageOptions, StepOptions
from stepfast.workflows.graphs.hints import PLAIN
from stepfast.workflows.graphs.policies import check_policies
from stepfast.workflows.graphs.stages import Stage, StageContext, check_stage, types_of
from stepfast.workflows.graphs.starting import Estimate, GraphArguments, GraphResult, described_configs, estimated
from stepfast.workflows.graphs.values import Value
from stepfast.workflows.plans.describing import describe
from stepfast.workflows.plans.drawing import mermaid
from stepfast.workflows.plans.frame import FindExecutor, FindWorkflow, Frame
from stepfast.workflows.plans.plan import Plan
from stepfast.workflows.plans.workflow import PlanWorkflow
from stepfast.workflows.registry import DEFINED
from stepfast.workflows.steps import check_name, name_for

I = TypeVar("I", default=Any)  # noqa: E741
R = TypeVar("R", default=Any)
C = TypeVar("C", default=Any)
T = TypeVar("T")

StageReads = GraphStep[Any] | str | AssetRead | Iterable[GraphStep[Any] | str | AssetRead]


class Graph(CombinedSteps, Generic[I, R]):
    """A workflow as a graph of steps: `graph = Graph("invoice", input=Invoice, output=Report)`.

    Steps are added by `@graph.stage`, `graph.use(...)` and the other methods, each of which returns a handle. A step
    begins when everything that it needs or reads has ended; the rest runs side by side.
    """

    @overload
    def __init__(
        self: Graph[I, R],
        name: str,
        *,
        input: type[I],
        output: type[R],
        version: int = 1,
        description: str = "",
        metadata: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int = 0,
        timeout: Duration | None = None,
        retry: Retry | None = None,
        at_once: int | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: Graph[I, Any],
        name: str,
        *,
        input: type[I],
        output: Any = ...,
        version: int = 1,
        description: str = "",
        metadata: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int = 0,
        timeout: Duration | None = None,
        retry: Retry | None = None,
        at_once: int | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: Graph[Any, Any],
        name: str,
        *,
        input: Any = ...,
        output: Any = ...,
        version: int = 1,
        description: str = "",
        metadata: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int = 0,
        timeout: Duration | None = None,
        retry: Retry | None = None,
        at_once: int | None = None,
    ) -> None: ...

    def __init__(
        self,
        name: str,
        *,
        input: Any = Any,
        output: Any = Any,
        version: int = 1,
        description: str = "",
        metadata: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int = 0,
        timeout: Duration | None = None,
        retry: Retry | None = None,
        at_once: int | None = None,
    ) -> None:
        super().__init__(check_name("Graph", name, Graph))
        if type(version) is not int or not 1 <= version <= MAX_VERSION:
            raise InvalidDefinition(f"Graph {name!r} has version {shown(version)}: {VERSIONS}.")
        self.version = version
        self.description = description
        self.metadata = dict(metadata or {})
        self.input_hint = input
        self.output_hint = output
        self.at_once = at_once
        self.place = f"{sys._getframe(1).f_globals.get('__name__', '')}: graph {name}"
        self._terms: dict[str, Any] = {"queue": queue, "priority": priority, "timeout": timeout, "retry": retry}
        self.result: Binding = None
        self.has_result = False

    @property
    def domain(self) -> str:
        """What the names of its stages begin with, where a name must be one in the whole process."""
        return f"{self.name}-{self.version}"

    @property
    def input(self) -> Value[I]:
        """What a run will be started with."""
        return Value("input")

    @overload
    def stage(self, function: Callable[[StageContext[I, Any, Any]], Coroutine[Any, Any, T]], /) -> Stage[T]: ...

    @overload
    def stage(self, function: Callable[[StageContext[I, Any, Any]], T], /) -> Stage[T]: ...

    @overload
    def stage(
        self,
        function: None = None,
        /,
        *,
        config: type[C],
        id: str | None = None,
        reads: StageReads = (),
        **options: Unpack[StageOptions],
    ) -> StageDecorator[I, C]: ...

    @overload
    def stage(
        self,
        function: None = None,
        /,
        *,
        config: Mapping[str, Any] | None = None,
        id: str | None = None,
        reads: StageReads = (),
        **options: Unpack[StageOptions],
    ) -> StageDecorator[I, Any]: ...

    @overload
    def stage(
        self,
        function: None = None,
        /,
        *,
        config: C,
        id: str | None = None,
        reads: StageReads = (),
        **options: Unpack[StageOptions],
    ) -> StageDecorator[I, C]: ...

    def stage(
        self,
        function: Any = None,
        /,
        *,
        id: str | None = None,
        reads: StageReads = (),
        config: Any = None,
        **options: Any,
    ) -> Any:
        """Make a function of a context a step: `async def score(ctx: StageContext[Invoice, ScoreConfig]) -> Scores`.

        It begins when those in `needs` and `reads` have ended, and may read their outputs. Without an output of one in
        `reads` it is skipped; those in `needs` may have been skipped. An asset in `reads`, as `{"asset": graph.input}`,
        is one of `ctx.assets`. `config` is the type of its config, or what the graph sets of it.
        """
        decorator: StageDecorator[I, Any] = StageDecorator(self, id, reads, config, cast(StepOptions, options))
        return decorator if function is None else decorator(function)

    def returns(self, result: Binding) -> None:
        """Say what a run gives; without it, the output of the last step, or of each by its id if several are last."""
        self._changed()
        self.result, self.has_result = result, True

    def plan(self, executors: Collection[str] | None = None) -> Plan:
        """The plan; everything that is wrong with it is raised at once. `executors` are the names that the app has."""
        if self._compiled is None or executors is not None:
            self._compiled = compiled(self, executors)
        return self._compiled.plan

    def mermaid(self) -> str:
        """A picture of it, in the language of Mermaid."""
        return mermaid(self.plan())

    def describe(self) -> dict[str, Any]:
        """The plan as data: its order in layers, of each step what it does, needs and reads, and its config."""
        plan = self.plan()
        assert self._compiled is not None
        return {**describe(plan), "configs": described_configs(plan, self._compiled.executor)}

    def estimate(self, input: I, config: Mapping[str, Any] | None = None) -> Estimate:
        """What a run with this input is likely to cost, by the estimates of its steps."""
        plan = self.plan()
        assert self._compiled is not None
        codec = ValueCodec(self.input_hint, f"the input of graph {self.name!r}")
        given = codec.decode(PLAIN.encode(input)) if is_native(input) else codec.restore(input)[1]
        return estimated(plan, given, config, self._compiled.executor)

    @property
    def workflow(self) -> PlanWorkflow:
        """The graph as a workflow, known to every app of the process; from here on it cannot be changed any more."""
        if self._workflow is None:
            self._workflow = self.bound()
            DEFINED.add(self._workflow)
        return self._workflow

    @property
    def identity(self) -> Hashable:
        """What tells it from other graphs: itself."""
        return self

    def queued(self) -> list[Executor]:
        """Its stages with a queue of their own, each call of which is a run that a worker finds by the stage's name."""
        self.plan()
        assert self._compiled is not None
        own = (each for each in self._compiled.executors.values() if each.name.startswith(f"{self.domain}."))
        return [executor for executor in own if executor.queue]

    def bound(self, executors: FindExecutor | None = None, workflows: FindWorkflow | None = None) -> PlanWorkflow:
        """The graph as a workflow that finds executors and workflows, beside its own, where it is told to."""
        plan = self.plan()
        assert self._compiled is not None
        self._is_used = True
        found = self._compiled.beside(executors, workflows)
        check_policies(plan, found.executor)
        frame = Frame(plan, found.executor, found.workflow, is_plain=False)
        arguments = GraphArguments(self.name, self.input_hint, found.check_config)
        result = GraphResult(self.output_hint, f"the result of graph {self.name!r}")
        return GraphWorkflow(self, frame, arguments, result, **self._terms, place=self.place)

    def run(self, input: I = cast(Any, None), config: Mapping[str, Any] | None = None) -> R:  # noqa: B008
        """Run it durably on the default app, and wait for its result."""
        return cast(R, run_blocking(self.workflow, (input, config), {}))

    def __repr__(self) -> str:
        return f"<graph {self.name}@{self.version}>"


class GraphWorkflow(PlanWorkflow):
    """The workflow of a graph; another app that is given it takes the graph, and finds executors of its own for it."""

    def __init__(self, graph: Graph[Any, Any], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.graph = self.made_of = graph


class StageDecorator(Generic[I, C]):
    """`@graph.stage(...)` with options."""

    def __init__(
        self, graph: Graph[I, Any], name: str | None, reads: StageReads, config: Any, options: StepOptions
    ) -> None:
        self._graph, self._name, self._config, self._options = graph, name, config, options
        given: list[Any] = [reads] if isinstance(reads, str | GraphStep | Mapping) else list(reads or ())
        self._reads = [each for each in given if not isinstance(each, Mapping)]
        self._assets = [cast(AssetRead, each) for each in given if isinstance(each, Mapping)]

    @overload
    def __call__(self, function: Callable[[StageContext[I, C, Any]], Coroutine[Any, Any, T]], /) -> Stage[T]: ...

    @overload
    def __call__(self, function: Callable[[StageContext[I, C, Any]], T], /) -> Stage[T]: ...

    def __call__(self, function: Any, /) -> Any:
        name = name_for(function, self._name)
        check_stage(function, name)
        options: StepOptions = {"description": _first_line(function), **self._options}
        if self._assets:
            options["reads"] = self._assets
        draft = Draft(
            name,
            lambda compiler, own: compiler.stage(own, function, self._reads, self._config),
            options,
            lambda: types_of(function).output,
        )
        self._graph.add(draft)
        return Stage(self._graph, draft, function)


def _first_line(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").strip().partition("\n")[0].strip()
