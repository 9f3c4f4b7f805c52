"""The steps of a graph that are there already: other steps, other workflows, and what the engine does itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload

from typing_extensions import Unpack

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown
from stepfast.workflows.codec import hints_of
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.functions import AsyncWorkflow, SyncWorkflow, Workflow
from stepfast.workflows.graphs.building import Builder
from stepfast.workflows.graphs.compiling import Compiler, given_beside, is_transformation
from stepfast.workflows.graphs.drafts import (
    OPTIONS,
    TERMS,
    Binding,
    Condition,
    Draft,
    GateDraft,
    GraphStep,
    PolicyDraft,
    Reads,
    ReviewOptions,
    ReviewTerms,
    StepOptions,
    UseDraft,
    Writes,
)
from stepfast.workflows.graphs.formulas import formula_of, has_unknown
from stepfast.workflows.graphs.hints import PLAIN
from stepfast.workflows.graphs.terms import check_terms
from stepfast.workflows.outside import result_hint
from stepfast.workflows.plans import plan as plans
from stepfast.workflows.plans.frame import as_json
from stepfast.workflows.plans.workflow import PlanWorkflow
from stepfast.workflows.questions import schema_text
from stepfast.workflows.steps import AsyncStep, SyncStep

if TYPE_CHECKING:
    from stepfast.workflows.transformations.calling import Transformation

T = TypeVar("T")

AnyStep = AsyncStep[..., T] | SyncStep[..., T]

R_co = TypeVar("R_co", covariant=True)


class GraphLike(Protocol[R_co]):
    """Another graph, to be run as a child."""

    @property
    def name(self) -> str: ...

    @property
    def workflow(self) -> PlanWorkflow: ...

    def run(self) -> R_co: ...


class ReadySteps(Builder):
    """How steps are added that are written elsewhere."""

    @overload
    def use(
        self,
        target: AnyStep[T],
        /,
        *,
        id: str | None = None,
        config: Any = None,
        reads: Reads = ...,
        writes: Writes = ...,
        **inputs: Any,
    ) -> GraphStep[T]: ...

    @overload
    def use(
        self,
        target: str | Executor | Transformation[..., Any],
        /,
        *,
        id: str | None = None,
        config: Any = None,
        reads: Reads = ...,
        writes: Writes = ...,
        **inputs: Any,
    ) -> GraphStep[Any]: ...

    def use(
        self,
        target: Any,
        /,
        *,
        id: str | None = None,
        config: Any = None,
        arguments: Mapping[str, Binding] | None = None,
        **inputs: Any,
    ) -> GraphStep[Any]:
        """Call a step, or an executor by its name: `graph.use(charge, order=graph.input, receipt=post.output.number)`.

        Keywords are its inputs and the options of any step (`needs`, `when`, `retry`, ...); `arguments` is for inputs
        that have the name of an option. With `reads={"asset": ...}` a parameter `assets` is given what that names.
        """
        options, given = split_options(inputs)
        use = UseDraft(target, {**given, **(arguments or {})}, config)

        def make(compiler: Compiler, own: Draft) -> plans.Verb:
            return compiler.use(use, beside=given_beside(own))

        step = self._add(id or _name_of(target), make, options, _hint_of(target))
        step.draft.may_touch = isinstance(target, str) or is_transformation(target)
        return step

    @overload
    def child(
        self,
        workflow: AsyncWorkflow[..., T] | SyncWorkflow[..., T] | GraphLike[T],
        /,
        *,
        id: str | None = None,
        version: int | None = None,
        **inputs: Any,
    ) -> GraphStep[T]: ...

    @overload
    def child(
        self,
        workflow: Workflow | str,
        /,
        *,
        id: str | None = None,
        version: int | None = None,
        **inputs: Any,
    ) -> GraphStep[Any]: ...

    def child(
        self,
        workflow: Any,
        /,
        *,
        id: str | None = None,
        version: int | None = None,
        arguments: Mapping[str, Binding] | None = None,
        **inputs: Any,
    ) -> GraphStep[Any]:
        """Run another workflow as a child, and have its result; inputs and options are given as to `use`."""
        options, given = split_options(inputs)
        named = {**given, **(arguments or {})}
        name = _name_of(workflow)

        def make(compiler: Compiler, _: Draft) -> plans.Verb:
            if isinstance(workflow, str):
                return plans.RunChild(workflow, formula_of(named, compiler), version)
            if workflow is self:
                return plans.RunChild(name, formula_of(named, compiler), version or compiler.graph.version)
            own = workflow if isinstance(workflow, Workflow) else workflow.workflow
            compiler.children[own.name, own.version] = own
            return plans.RunChild(own.name, formula_of(named, compiler), version or own.version)

        return self._add(id or name, make, options, _hint_of(workflow))

    def sleep(self, id: str, duration: Duration | Binding, **options: Unpack[StepOptions]) -> GraphStep[None]:
        """Wait for a span of time."""

        def make(compiler: Compiler, _: Draft) -> plans.Verb:
            return plans.Sleep(_span_of(duration, compiler))

        return self._add(id, make, options, _always(None))

    @overload
    def receive(
        self, id: str, type: type[T], *, signal: Binding = None, **options: Unpack[StepOptions]
    ) -> GraphStep[T]: ...

    @overload
    def receive(
        self,
        id: str,
        type: Any = None,
        *,
        signal: Binding = None,
        **options: Unpack[StepOptions],
    ) -> GraphStep[Any]: ...

    def receive(
        self,
        id: str,
        type: Any = None,
        *,
        signal: Binding = None,
        **options: Unpack[StepOptions],
    ) -> GraphStep[Any]:
        """Wait for a signal, of the step's own id unless `signal` names another; the output is its value.

        `timeout` is how long it waits; then it fails with WaitTimeout.
        """
        own: StepOptions = {**options}
        timeout = own.pop("timeout", None)

        def make(compiler: Compiler, _: Draft) -> plans.Verb:
            limit = None if timeout is None else _span_of(timeout, compiler)
            return plans.Receive(formula_of(id if signal is None else signal, compiler), limit, _schema(type))

        return self._add(id, make, own, _always(Any if type is None else type))

    def review(
        self,
        id: str,
        title: Binding,
        show: Binding = None,
        *,
        type: Any = None,
        **options: Unpack[ReviewOptions],
    ) -> GraphStep[Any]:
        """Ask a person; the output is what was shown, or what the person made of it. Takes the terms of `review`."""
        terms = {name: value for name, value in options.items() if name in TERMS}
        own = cast(StepOptions, {name: value for name, value in options.items() if name not in TERMS})

        def make(compiler: Compiler, _: Draft) -> plans.Verb:
            schema = _schema(type)
            check_terms(terms, "review_required", schema)
            return plans.Ask(formula_of(title, compiler), formula_of(show, compiler), schema, terms)

        return self._add(id, make, own, _always(Any if type is None else type))

    def emit(self, id: str, event: str, data: Binding = None, **options: Unpack[StepOptions]) -> GraphStep[Any]:
        """Write an event of the workflow's own into the run's history."""
        return self._add(id, lambda compiler, _: plans.Emit(event, formula_of(data, compiler)), options, _always(Any))

    def set(self, id: str, value: Binding, **options: Unpack[StepOptions]) -> GraphStep[Any]:
        """Compute a value, and keep it: `graph.set("total", lambda a, b: a.price + b.price)`."""

        def make(compiler: Compiler, _: Draft) -> plans.Verb:
            if not has_unknown(value):
                _check_storable(value)
            return plans.Set(formula_of(value, compiler))

        return self._add(id, make, options, _always(Any))

    def fail(self, id: str, message: Binding, **options: Unpack[StepOptions]) -> GraphStep[None]:
        """Fail, with words of your own; with `when` only if something is wrong."""
        return self._add(id, lambda compiler, _: plans.Fail(formula_of(message, compiler)), options, _always(None))

    def gate(
        self,
        when: Condition | None = None,
        *,
        reason: str = "review_required",
        title: Binding = None,
        **terms: Unpack[ReviewTerms],
    ) -> GateDraft:
        """A review for `before=` or `after=` of a step: `after=graph.gate(lambda output: output.confidence < 0.6)`."""
        return GateDraft(when, reason, title, terms)

    def policy(
        self,
        id: str,
        check: AnyStep[Any] | str,
        /,
        *,
        before: Literal["read", "write"] | None = None,
        conflict: Literal["review", "fail"] = "fail",
        when: Condition | None = None,
        timeout: Duration | None = None,
        arguments: Mapping[str, Binding] | None = None,
        **terms: Unpack[ReviewTerms],
    ) -> PolicyDraft:
        """A check for `policies=` of a step, by a step or an executor that answers `{"ok": bool, "reason": str}`.

        It is asked about the output; with `before` about the assets that the step is about to read, or to write.
        Without `arguments` its first parameter is given the output, or, with `before`, `assets` and `writes` what these
        are.
        """
        return PolicyDraft(id, UseDraft(check, arguments or {}), before, conflict, when, timeout, terms)

    def undo(self, target: AnyStep[Any] | str, /, **inputs: Any) -> UseDraft:
        """How a step is undone, for its `undo=`: `graph.undo(release, ticket=lambda output: output.ticket)`."""
        return UseDraft(target, inputs)


def split_options(given: Mapping[str, Any]) -> tuple[StepOptions, dict[str, Any]]:
    """What of some keywords are options of any step, and what are a step's own inputs."""
    options = {name: value for name, value in given.items() if name in OPTIONS}
    return cast(StepOptions, options), {name: value for name, value in given.items() if name not in OPTIONS}


def _name_of(target: Any) -> str:
    """The id of a step that is not given another: the name of what it does."""
    # A graph is named without being made a workflow: it may be the one that is being put together.
    named = target if hasattr(target, "output_hint") else getattr(target, "body", None)
    own = getattr(named or getattr(target, "workflow", target), "name", None)
    name = target if isinstance(target, str) else own or getattr(target, "__name__", "step")
    return str(name).replace(".", "_")


def _hint_of(target: Any) -> Callable[[], Any]:
    """The hint of what a step or workflow gives, read when it is needed."""
    if hasattr(target, "output_hint"):
        return lambda: target.output_hint
    function = getattr(getattr(target, "body", None) or getattr(target, "workflow", target), "function", None)
    return lambda: Any if function is None else result_hint(hints_of(function).get("return", Any))


def _check_storable(value: Any) -> None:
    try:
        PLAIN.encode(as_json(value))
    except ValueError as error:
        raise Invalid(f"{shown(value)} cannot be kept: {error}") from error


def _span_of(span: Any, compiler: Compiler) -> plans.Formula:
    """A span of time; one that is known now is looked at now."""
    if not has_unknown(span):
        span_ms(span, "the span")
    return formula_of(span, compiler)


def _always(hint: Any) -> Callable[[], Any]:
    return lambda: hint


def _schema(hint: Any) -> Mapping[str, Any] | None:
    text = schema_text(hint)
    return None if text is None else cast(dict[str, Any], json.loads(text))
