"""How steps of a graph are put together: side by side, in a row, for many items, on conditions."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from typing_extensions import Unpack

from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.executors.schemas import CONFIG
from stepfast.workflows.graphs.building import Part, Steps
from stepfast.workflows.graphs.compiling import Compiler, first_parameter
from stepfast.workflows.graphs.drafts import (
    Binding,
    CatchDraft,
    Condition,
    Draft,
    EachDraft,
    GraphStep,
    Group,
    Joined,
    LoopDraft,
    StepOptions,
)
from stepfast.workflows.graphs.formulas import formula_of
from stepfast.workflows.graphs.joins import OnExtra, join_rule
from stepfast.workflows.graphs.ready import AnyStep, ReadySteps, split_options
from stepfast.workflows.graphs.values import Value
from stepfast.workflows.joins import JoinSpec
from stepfast.workflows.plans import plan as plans
from stepfast.workflows.steps import AsyncStep, SyncStep

T = TypeVar("T")


class CombinedSteps(ReadySteps):
    """How steps that were added are put together."""

    @property
    def item(self) -> Value[Any]:
        """The item that a step is done for, in the inputs of a step that `each` repeats."""
        return Value("item")

    def parallel(self, *steps: GraphStep[Any]) -> Group:
        """Say that steps run side by side; that one of them waits for another is refused."""
        self._groups += 1
        for step in steps:
            draft = self._own(step)
            if draft.group:
                self._refuse(draft, f"step {draft.id!r} is in two parallel groups", "Let it be in one.")
            draft.group = f"group-{self._groups}"
        return Group(steps)

    def sequence(self, *parts: Part) -> None:
        """Say that each part begins when the one before it has ended: a step, a group, or a list of steps."""
        self._changed()
        for earlier, later in itertools.pairwise(parts):
            for draft in self._all_own(later):
                draft.followed += self._all_own(earlier)

    @overload
    def each(
        self,
        target: GraphStep[T] | AnyStep[T],
        over: Binding,
        *,
        key: Callable[[Any], object] | None = None,
        at_once: int | None = None,
        join: JoinSpec = "all",
        on_extra: OnExtra = "cancel",
        **inputs: Any,
    ) -> GraphStep[Joined[T]]: ...

    @overload
    def each(
        self,
        target: str,
        over: Binding,
        *,
        key: Callable[[Any], object] | None = None,
        at_once: int | None = None,
        join: JoinSpec = "all",
        on_extra: OnExtra = "cancel",
        **inputs: Any,
    ) -> GraphStep[Joined[Any]]: ...

    def each(
        self,
        target: Any,
        over: Binding,
        *,
        key: Callable[[Any], object] | None = None,
        at_once: int | None = None,
        join: JoinSpec = "all",
        on_extra: OnExtra = "cancel",
        **inputs: Any,
    ) -> GraphStep[Any]:
        """Do a step for every item of a list; read the results by the handle that this returns, not by the step's.

        A stage has the item as `ctx.item`; a step gets it as its first argument, unless keywords say otherwise
        (`graph.item`). With `key` an item keeps its record wherever it stands in the list.
        """
        step = target if isinstance(target, GraphStep) else self._for_items(target, inputs)
        draft = self._own(step)
        if draft.each is not None:
            self._refuse(draft, f"step {draft.id!r} is given to graph.each twice", "Put one into graph.do(...) first.")
        draft.each = EachDraft(over, key, at_once, join_rule(join, on_extra))
        return GraphStep(self, draft, is_joined=True)

    def _for_items(self, target: Any, inputs: dict[str, Any]) -> GraphStep[Any]:
        _, given = split_options(inputs)
        given.pop("id", None)
        given.pop("config", None)
        is_named = isinstance(target, str) or given or "arguments" in inputs
        if not is_named and isinstance(target, AsyncStep | SyncStep | Executor):
            inputs = {**inputs, "arguments": self._item_as_input(target, inputs)}
        return self.use(target, **inputs)

    def _item_as_input(self, target: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        executor = Executor.of(target)
        beside = ("assets",) if inputs.get("reads") else ()
        names = set(inspect.signature(executor.body.function).parameters)
        # What is read by its item alone needs no item beside.
        if beside and not names - {CONFIG, *beside}:
            return {}
        return {first_parameter(executor, beside): self.item}

    def when(self, condition: Condition, *steps: GraphStep[Any]) -> None:
        """Do these steps only if a condition holds; else each of them is skipped."""
        for step in steps:
            draft = self._own(step)
            if "when" in draft.options:
                self._refuse(draft, f"step {draft.id!r} has two conditions", "Put them into one lambda.")
            draft.options["when"] = condition

    def switch(
        self,
        id: str,
        *cases: tuple[Condition, Steps],
        otherwise: Steps = (),
        **options: Unpack[StepOptions],
    ) -> GraphStep[Any]:
        """The steps of the first case whose condition holds, as a sequence; the output is that of the last of them."""
        own = [(condition, self._adopted(steps, id)) for condition, steps in cases]
        rest = self._adopted(otherwise, id)
        if not own or not all(drafts for _, drafts in own):
            self._refuse_empty(id, "A switch needs a case, and each case a step.")

        def make(compiler: Compiler, _: Draft) -> plans.Verb:
            made = [
                plans.Case(formula_of(condition, compiler), compiler.block(drafts, is_sequence=True))
                for condition, drafts in own
            ]
            last = [plans.Case(None, compiler.block(rest, is_sequence=True))] if rest else []
            return plans.Switch((*made, *last))

        return self._add(id, make, options, lambda: Any)

    def do(self, id: str, *steps: GraphStep[Any], **options: Unpack[StepOptions]) -> GraphStep[Any]:
        """Steps as one, a sequence of its own: to be repeated, caught or undone together."""
        own = self._adopted(steps, id)
        if not own:
            self._refuse_empty(id, "Give it the steps that it consists of.")
        hint = steps[-1].hint if steps else lambda: Any
        return self._add(id, lambda compiler, _: plans.Do(compiler.block(own, is_sequence=True)), options, hint)

    def branches(
        self,
        id: str,
        *steps: GraphStep[Any],
        join: JoinSpec = "all",
        on_extra: OnExtra = "cancel",
        **options: Unpack[StepOptions],
    ) -> GraphStep[Any]:
        """Steps side by side as one, until their join is decided; the output is `{results, failed, cancelled}`."""
        own, rule = self._adopted(steps, id), join_rule(join, on_extra)
        if not own:
            self._refuse_empty(id, "Give it the steps that run side by side.")
        elif rule.kind == "first" and rule.number > len(own):
            self._refuse(own[0], f"step {id!r} has join={join!r} and {len(own)} branches", "It can never be met.")

        def make(compiler: Compiler, _: Draft) -> plans.Verb:
            return plans.Parallel(compiler.block(own).steps, rule)

        return self._add(id, make, options, lambda: Any)

    def loop(self, step: GraphStep[T], condition: Condition, *, most: int = 1_000) -> GraphStep[T]:
        """Do a step again and again as long as a condition holds: `lambda output: output is None or output.more`."""
        draft = self._own(step)
        draft.loop = LoopDraft(condition, most)
        return step

    def catch(
        self, step: GraphStep[T], *steps: GraphStep[Any], errors: Iterable[type[BaseException] | str] = ()
    ) -> GraphStep[T]:
        """Do other steps when a step has failed for good: for these errors, or for any; their output is its output."""
        draft = self._own(step)
        names = tuple(each if isinstance(each, str) else each.__name__ for each in errors)
        if not steps:
            self._refuse_empty(f"{draft.id}'s catch", "Give it the steps that are done instead.")
        draft.catch.append(CatchDraft(self._adopted(steps, draft.id), names))
        return step
