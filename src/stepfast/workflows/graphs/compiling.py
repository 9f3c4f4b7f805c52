"""A graph as a plan: what its steps do, what they wait for, and all that is wrong with it."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from stepfast.kernel.errors import Invalid, InvalidDefinition
from stepfast.kernel.texts import shown
from stepfast.workflows.codec import ValueCodec, hints_of
from stepfast.workflows.culprits import is_native
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.executors.schemas import CONFIG
from stepfast.workflows.functions import Workflow
from stepfast.workflows.graphs.assets import ASSETS, reads_of, writes_of
from stepfast.workflows.graphs.drafts import Draft, GateDraft, GraphStep, Group, UseDraft, joined_hint
from stepfast.workflows.graphs.estimating import Estimating
from stepfast.workflows.graphs.formulas import (
    NAMES,
    Reading,
    StageInputs,
    formula_of,
    has_unknown,
    is_function,
    optional_formula,
)
from stepfast.workflows.graphs.hints import NoSuchPart, item_of, may_be_list, may_fit, part_of, restored
from stepfast.workflows.graphs.policies import policies_of
from stepfast.workflows.graphs.stages import Around, executor_of, types_of
from stepfast.workflows.graphs.terms import good_options
from stepfast.workflows.graphs.values import Value, path_of, root_of, step_of
from stepfast.workflows.limits import Limits, check_limit
from stepfast.workflows.plans.checking import Names, Problem
from stepfast.workflows.plans.plan import (
    Block,
    Each,
    Formula,
    Gate,
    Handler,
    OnFailure,
    PlanStep,
    Use,
    While,
)
from stepfast.workflows.registry import DEFINED_STEPS
from stepfast.workflows.steps import AsyncStep, SyncStep

if TYPE_CHECKING:
    from stepfast.workflows.graphs.graph import Graph

T = TypeVar("T")

PLACES: Mapping[str, str] = {
    "item": "inside a step that is done for each of many: in its inputs, key, gates and undo",
    "output": "in `after`, `undo` and `writes` of a step, in its policies but for those before a read, and in a loop",
    "round": "in a loop",
    "error": "in steps that are given to graph.catch(...)",
    "assets": "in a step with reads=, and in policies before a read or a write",
    "writes": "in policies before a write",
}


class Compiler:
    """Makes a plan of a graph's drafts; what is wrong is collected in `problems`."""

    def __init__(self, graph: Graph[Any, Any], drafts: Iterable[Draft]) -> None:
        self.graph = graph
        self.problems: list[Problem] = []
        self.executors: dict[str, Executor] = {}
        """Those that the graph brings along."""
        self.children: dict[tuple[str, int], Workflow] = {}
        """The workflows that it names as such."""
        self._drafts = {draft.id: draft for draft in drafts}
        self._names = Names(self._drafts)
        self._at: Draft | None = None
        self._seen: frozenset[str] = frozenset()
        """What formulas may ask for here, beside what they may ask for anywhere: those in PLACES."""

    def block(self, drafts: Iterable[Draft], is_sequence: bool = False) -> Block:
        return Block(tuple(self.step(draft) for draft in drafts), is_sequence)

    def step(self, draft: Draft) -> PlanStep:
        """One step with everything that was said of it."""
        outer, self._at = self._at, draft
        try:
            return self._step(draft)
        except Invalid as error:
            self.refuse(f"step {draft.id!r}: {str(error).rstrip('.')}")
            return PlanStep(draft.id, Use("", formula_of(None, self)))
        finally:
            self._at = outer

    def _step(self, draft: Draft) -> PlanStep:
        options, faults = good_options(draft)
        for fault in faults:
            self.refuse(f"step {draft.id!r}: {fault}")
        return PlanStep(
            draft.id,
            self._repeats(draft, lambda: draft.make(self, draft)),
            needs=tuple(dict.fromkeys(self._needs(draft))),
            when=self._condition("when", options.get("when")),
            require=self._condition("require", options.get("require")),
            each=self._each(draft),
            loop=self._repeats(draft, lambda: self._loop(draft)),
            retry=options.get("retry"),
            limits=Limits(
                check_limit("its timeout", options.get("timeout")),
                check_limit("its total_timeout", options.get("total_timeout")),
            ),
            queue=options.get("queue"),
            priority=options.get("priority", 0),
            before=self.in_item(draft, (), lambda: self._gate(options.get("before"))),
            after=self.in_item(draft, ("output",), lambda: self._gate(options.get("after"))),
            undo=self.in_item(draft, ("output",), lambda: self._undo(options.get("undo"))),
            catch=self.in_item(draft, ("error",), lambda: self._catch(draft)),
            policies=policies_of(self, draft, options.get("policies") or ()),
            reads=self.in_item(draft, (), lambda: reads_of(options.get("reads") or (), self)),
            writes=self.in_item(draft, ("output", *_read(draft)), lambda: writes_of(options.get("writes") or (), self)),
            on_failure=self._on_failure(options.get("on_failure", OnFailure.FAIL)),
            mock=options.get("mock"),
            has_mock="mock" in options,
            description=options.get("description", ""),
            metadata=options.get("metadata", {}),
            estimate=self._estimate(options.get("estimate")),
            group=draft.group,
        )

    def _repeats(self, draft: Draft, make: Callable[[], T]) -> T:
        """Compile what is done in every round of a step."""
        return self.in_item(draft, (*_read(draft), *(() if draft.loop is None else ("output", "round"))), make)

    def in_item(self, draft: Draft, names: Iterable[str], make: Callable[[], T]) -> T:
        """Compile what belongs to one item of a step, where these names are known too."""
        outer, item = self._seen, () if draft.each is None else ("item",)
        self._seen = outer.union(item, names)
        try:
            return make()
        finally:
            self._seen = outer

    def _loop(self, draft: Draft) -> While | None:
        return None if draft.loop is None else While(self._formula("while", draft.loop.condition), draft.loop.most)

    def _catch(self, draft: Draft) -> tuple[Handler, ...]:
        return tuple(Handler(self.block(each.drafts, is_sequence=True), each.errors) for each in draft.catch)

    def _needs(self, draft: Draft) -> Iterator[str]:
        yield from self.ids_of(draft.options.get("needs") or (), "needs")
        yield from (earlier.id for earlier in draft.followed)

    def ids_of(self, given: Any, what: str) -> list[str]:
        """The ids of steps that were named, as handles, groups or ids."""
        if isinstance(given, str | GraphStep | Group):
            given = [given]
        return list(self._ids_of(given, what))

    def _ids_of(self, given: Iterable[Any], what: str) -> Iterator[str]:
        for each in given:
            if isinstance(each, Group):
                yield from self._ids_of(each.steps, what)
            elif isinstance(each, GraphStep):
                self._check_handle(each)
                yield each.id
            elif isinstance(each, str):
                yield each
            else:
                self.refuse(f"{self.place} has {shown(each)} in {what}", "Give handles of steps, groups, or ids.")

    def _check_handle(self, step: GraphStep[Any]) -> None:
        if step.graph is not self.graph:
            told = f"{self.place} names {step.id!r} of graph {step.graph.name!r}"
            self.refuse(told, f"A step of graph {self.graph.name!r} can name only steps of that graph.")
        elif step.is_stale:
            self.refuse(
                f"{self.place} names {step.id!r} by the handle that it had before it was made one of many",
                "Use the handle that graph.each(...) returned: its output has the results of all.",
            )

    @property
    def place(self) -> str:
        return f"graph {self.graph.name!r}" if self._at is None else f"step {self._at.id!r}"

    # What formulas ask for.

    @property
    def may_be_missing(self) -> bool:
        return self._at is None

    def hint_of(self, name: str) -> Any:
        if name in PLACES and name not in self._seen:
            self.refuse(f"{self.place} reads {name!r} where there is none", f"It is known only {PLACES[name]}.")
        if name == "input":
            return self.graph.input_hint
        if name in ("assets", "writes"):
            return ASSETS
        if self._at is not None and name == "item":
            return self._item_hint(self._repeated(self._at))
        return self._at.hint() if self._at is not None and name == "output" else Any

    def output_hint(self, step_id: str) -> Any:
        draft = self._drafts.get(step_id)
        if draft is None:
            return Any
        return draft.hint() if draft.each is None else joined_hint(draft.hint())

    def step_named(self, parameter: str) -> str | None:
        if parameter in self._drafts:
            return parameter
        alike = [name for name in self._drafts if name.replace("-", "_") == parameter]
        if len(alike) == 1:
            return alike[0]
        hint = self._names.nearest(parameter) or f"Parameters are ids of steps, or {', '.join(NAMES)}."
        self.refuse(f"{self.place} has a function with the parameter {parameter!r}, and no step has that id", hint)
        return None

    def check_own(self, value: Value[Any]) -> None:
        step = step_of(value)
        if step is None:
            return
        self._check_handle(step)
        if root_of(value) == "assets" and (step.draft.each is not None or not step.draft.touches("write")):
            hint = "Only steps with writes=, or with a transformation, and not for each of many, have assets."
            self.refuse(f"{self.place} reads {value!r}, and there are none", hint)

    def refuse(self, message: str, hint: str = "") -> None:
        self.problems.append(Problem("" if self._at is None else self._at.id, message, hint))

    def _condition(self, what: str, binding: Any) -> Formula | None:
        return None if binding is None else self._formula(what, binding)

    def _formula(self, what: str, condition: Any) -> Formula:
        if not isinstance(condition, bool) and not has_unknown(condition):
            self.refuse(f"{self.place} has `{what}` {shown(condition)}", "A condition is a handle, a lambda or a bool.")
        return formula_of(condition, self)

    def _repeated(self, draft: Draft) -> Draft | None:
        """The step that is done for each item: itself, or one that it is a part of."""
        around: Draft | None = draft
        while around is not None and around.each is None:
            around = None if around.home is None else self._drafts.get(around.home)
        return around

    def _item_hint(self, draft: Draft | None) -> Any:
        over = None if draft is None or draft.each is None else draft.each.over
        return item_of(self._hint_at(over)) if isinstance(over, Value) else Any

    def _hint_at(self, value: Value[Any]) -> Any:
        """The hint of what a handle leads to."""
        step, root = step_of(value), root_of(value)
        if step is not None:
            hint = {"output": self.output_hint(step.id), "assets": ASSETS}.get(root, bool)
        elif root == "input" or self._at is None:
            hint = self.graph.input_hint
        else:
            hint = self._item_hint(self._repeated(self._at))
        try:
            for key in path_of(value):
                hint = part_of(hint, key)
        except NoSuchPart:
            # It is refused where it is read.
            return Any
        return hint

    def _each(self, draft: Draft) -> Each | None:
        each = draft.each
        if each is None:
            return None
        over = formula_of(each.over, self)
        if not self._may_be_list(each.over):
            self.refuse(f"{self.place} is done for each of {shown(each.over)}", "That is no list.")
        key = None if each.key is None else self.in_item(draft, (), partial(self._key, each.key))
        return Each(over, "item", key, each.at_once, each.join)

    def _may_be_list(self, over: Any) -> bool:
        if isinstance(over, Value):
            return may_be_list(self._hint_at(over))
        return isinstance(over, list | tuple) or has_unknown(over)

    def _key(self, key: Callable[..., object]) -> Formula:
        parameters = list(inspect.signature(key).parameters) if is_function(key) else []
        # By whatever name: `key=lambda clause: clause.id`.
        if len(parameters) == 1:
            return formula_of(lambda item: key(item), self)
        return formula_of(key, self)

    def _gate(self, gate: GateDraft | None) -> Gate | None:
        if gate is None:
            return None
        return Gate(
            optional_formula(gate.when, self), gate.reason, optional_formula(gate.title, self), dict(gate.terms)
        )

    def _on_failure(self, given: str) -> OnFailure:
        try:
            return OnFailure(given)
        except ValueError:
            known = ", ".join(OnFailure)
            raise InvalidDefinition(f"on_failure is {shown(given)}; allowed are {known}.") from None

    def _undo(self, given: Any) -> Use | None:
        if given is None:
            return None
        if isinstance(given, UseDraft):
            return self.use(given)
        if isinstance(given, str):
            raise InvalidDefinition(f"undo is {given!r}: say what it is given, as in graph.undo({given!r}, ...)")
        return self.use_of_output(given)

    def use_of_output(self, target: Any) -> Use:
        """The call of a step with what another one gave."""
        executor = self.executor(target)
        return Use(executor.name, formula_of({first_parameter(executor): Value("output")}, self))

    def _estimate(self, estimate: Any) -> Formula | None:
        return None if estimate is None else Estimating.of(estimate, self)

    # What steps do.

    def use(self, draft: UseDraft, beside: Collection[str] = (CONFIG,)) -> Use:
        """The call of an executor; what is given beside its inputs need not be among them."""
        config = json_of(draft.config) if draft.config is not None else {}
        if isinstance(draft.target, str):
            return Use(draft.target, formula_of(dict(draft.inputs), self), config)
        executor = self.executor(draft.target)
        self._check_inputs(executor, draft.inputs, beside)
        return Use(executor.name, formula_of(dict(draft.inputs), self), config)

    def executor(self, target: Any) -> Executor:
        """The executor of a step, made known under its name."""
        if not is_transformation(target) and not isinstance(target, AsyncStep | SyncStep | Executor):
            raise InvalidDefinition(
                f"{shown(target)} cannot be used as a step: mark the function with @step, give an executor's name, or "
                f"write a stage of the graph."
            )
        executor = Executor.of(target)
        known = self.executors.setdefault(executor.name, executor)
        if known.body.function is not executor.body.function:
            raise InvalidDefinition(
                f"two steps that are used here have the name {executor.name!r}; rename one of them."
            )
        return executor

    def _check_inputs(self, executor: Executor, inputs: Mapping[str, Any], beside: Collection[str]) -> None:
        signature = inspect.signature(executor.body.function)
        left_out = {name for name in beside if name not in inputs or name == CONFIG}
        kept = [each for each in signature.parameters.values() if each.name not in left_out]
        try:
            signature.replace(parameters=kept).bind(**inputs)
        except TypeError as error:
            self.refuse(f"{self.place}: {error}", f"Step {executor.name!r} takes {signature}.")
            return
        hints = hints_of(executor.body.function)
        for name, binding in inputs.items():
            self._check_input(name, binding, hints.get(name, Any))

    def _check_input(self, name: str, binding: Any, hint: Any) -> None:
        """Refuse what is known not to fit before any run."""
        if isinstance(binding, Value):
            given = self._hint_at(binding)
            if not may_fit(given, hint):
                told = f"{self.place} is given {binding!r} as {name!r}, which is {_shown_hint(given)}"
                self.refuse(told, f"It takes {_shown_hint(hint)}.")
        elif not has_unknown(binding):
            ValueCodec(hint, f"its {name!r}").restore(restored(binding, hint))

    def stage(self, draft: Draft, function: Callable[..., Any], reads: Iterable[Any], config: Any) -> Use:
        """The call of a stage, which is an executor of its own."""
        types = types_of(function)
        if types.input is not Any and self.graph.input_hint is not Any and types.input != self.graph.input_hint:
            told = (
                f"stage {draft.id!r} has a context with the input {_shown_hint(types.input)}, and the graph's is other"
            )
            self.refuse(told, f"Write StageContext[{_shown_hint(self.graph.input_hint)}, ...].")
        read = self.ids_of(reads, "reads")
        needed = [each for each in self._needs(draft) if each not in read]
        hint, defaults = self._config(draft, types.config, config)
        outputs = {each: self.output_hint(each) for each in (*read, *needed)}
        repeated = self._repeated(draft)
        has_item = repeated is not None
        item = self._item(repeated, types.item)
        has_assets = bool(draft.options.get("reads"))
        around = Around(self.graph.input_hint, hint, item, has_item, outputs, types.output, has_assets)
        executor = executor_of(
            function, f"{self.graph.domain}.{draft.id}", draft.id, around, draft.options.get("queue")
        )
        self.executors[executor.name] = executor
        if executor.queue:
            # A worker of that queue finds it by its name.
            DEFINED_STEPS.add(executor.alone)
        inputs = StageInputs(
            Reading(("inputs",), (), self.graph.input_hint, "input"),
            tuple(self._output(each) for each in read),
            tuple(self._output(each) for each in needed),
            Reading(("item",), (), item, "item") if has_item else None,
        )
        return Use(executor.name, inputs, defaults)

    def _item(self, repeated: Draft | None, wanted: Any) -> Any:
        """The hint of the item that a stage is done for: its own, or else that of the list."""
        given = self._item_hint(repeated)
        if wanted is Any:
            return given
        if not may_fit(given, wanted):
            told = f"{self.place} has a context with the item {_shown_hint(wanted)}, and is done for each"
            self.refuse(f"{told} {_shown_hint(given)}", f"Write StageContext[..., ..., {_shown_hint(given)}].")
        return wanted

    def _output(self, step_id: str) -> Reading:
        return Reading(("steps", step_id, "output"), (), self.output_hint(step_id), f"{step_id}.output")

    def _config(self, draft: Draft, hint: Any, given: Any) -> tuple[Any, dict[str, Any]]:
        """The type of a stage's config, and what the graph sets of it."""
        if given is None:
            return hint, {}
        if isinstance(given, Mapping):
            return (dict[str, Any] if hint is None else hint), dict(given)
        is_type = isinstance(given, type) or typing.get_origin(given) is not None
        if is_native(given):
            raise InvalidDefinition(f"config is {shown(given)}; give the type of its config, one of it, or a dict")
        own, defaults = (given, {}) if is_type else (type(given), json_of(given))
        if hint not in (None, Any) and hint != own:
            told = f"stage {draft.id!r} has config={_shown_hint(own)}, and a context with {_shown_hint(hint)}"
            self.refuse(told, "Let both be the same.")
        return own, defaults


def is_transformation(target: Any) -> bool:
    """Whether what a step uses is a transformation, which reads and writes assets by itself."""
    return getattr(getattr(target, "body", None), "apart", None) is not None


def _read(draft: Draft) -> tuple[str, ...]:
    """What a step knows because it reads."""
    return ("assets",) if draft.options.get("reads") else ()


def given_beside(draft: Draft) -> tuple[str, ...]:
    """What a step that has a parameter of this name is given without being told to."""
    return (CONFIG, *_read(draft))


def first_parameter(executor: Executor, beside: Collection[str] = ()) -> str:
    """The parameter that is given what a step is about: the item, or the output to be undone."""
    names = [name for name in inspect.signature(executor.body.function).parameters if name not in (CONFIG, *beside)]
    if not names:
        raise InvalidDefinition(f"step {executor.name!r} takes nothing; it needs a parameter here.")
    return names[0]


def json_of(config: Any) -> dict[str, Any]:
    """A config as JSON, with the fields that it sets."""
    if isinstance(config, Mapping):
        return dict(config)
    text = ValueCodec(type(config), "a config").encode(config)
    fields: dict[str, Any] = json.loads(text)
    # A model knows what it was given; its other fields must not hide what was set elsewhere.
    given = getattr(config, "model_fields_set", fields)
    return {name: value for name, value in fields.items() if name in given}


def _shown_hint(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def numbered(problems: Iterable[Problem], order: Mapping[str, int]) -> list[Problem]:
    """The problems in the order in which their steps are written; those of the graph itself first."""
    placed = [replace_number(problem, order.get(problem.step, -1)) for problem in problems]
    return sorted(placed, key=lambda problem: problem.number)


def replace_number(problem: Problem, number: int) -> Problem:
    """A problem, at the place where its step stands."""
    return problem if problem.number >= 0 else problem._replace(number=number)
