"""From the models of a template to a plan, with every place where something is computed noted on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from stepfast.kernel.durations import span_ms
from stepfast.kernel.transformations import MARK
from stepfast.workflows.limits import Limits
from stepfast.workflows.plans.plan import (
    SEEN_BY_POLICIES,
    Ask,
    AssetUse,
    Block,
    Case,
    Computed,
    Do,
    Each,
    Emit,
    Fail,
    Formula,
    Gate,
    Handler,
    OnFailure,
    Parallel,
    Plan,
    PlanStep,
    Policy,
    Receive,
    RunChild,
    Set,
    Sleep,
    Switch,
    Use,
    Verb,
    While,
)
from stepfast.workflows.templates.bindings import Written, bind
from stepfast.workflows.templates.described import Executors
from stepfast.workflows.templates.models import (
    Asking,
    CaseForm,
    CatchForm,
    GateForm,
    PolicyForm,
    ReadForm,
    RunForm,
    StepForm,
    TemplateForm,
    Using,
    WriteForm,
)
from stepfast.workflows.templates.nodes import Document
from stepfast.workflows.templates.problems import Path, Problem
from stepfast.workflows.templates.retrying import matching, retry_of
from stepfast.workflows.templates.sites import Names, Origin, Site, Stand, Want

PYTHON_CALL = "python.call"


def is_touching(form: StepForm, what: Literal["read", "write"], executors: Executors | None) -> bool:
    """Whether a step reads, or writes, assets; what is used may be a transformation, which does so without a word."""
    if form.reads if what == "read" else form.writes:
        return True
    if form.use is None:
        return False
    # Of one that is not known here nobody can say that it is none.
    return executors is None or form.use not in executors or is_transforming(form, executors)


def is_transforming(form: StepForm, executors: Executors | None) -> bool:
    """Whether a step is known to use a transformation."""
    return getattr((executors or {}).get(form.use or ""), "kind", "") == MARK


class Compiler:
    """Compiles one template; goes on where something is wrong, so that all of it is found."""

    def __init__(self, document: Document, form: TemplateForm, executors: Executors | None = None) -> None:
        self._document = document
        self._executors = executors
        self._form = form
        self.problems: list[Problem] = []
        self.sites: list[Site] = []
        self.stands: dict[Path, Stand] = {}
        """Every step by its path, in the order they are written."""
        self._policies: list[tuple[PolicyForm, Policy]] = []

    def compile(self, digest: str) -> Plan:
        """The plan."""
        form = self._form
        self._policies = [(each, self._policy(each, ("policies", n))) for n, each in enumerate(form.policies)]
        block = Block(tuple(self._step(each, ("steps", n), None, {}) for n, each in enumerate(form.steps)))
        metadata = {"name": form.name, **form.metadata} if form.name else form.metadata
        return Plan(
            name=form.workflow,
            version=form.version,
            block=block,
            output=None if form.output is None else self._formula(form.output, ("output",), (), {}),
            description=form.description,
            metadata=metadata,
            at_once=form.at_once,
            digest=digest,
        )

    def where(self, value: Any, path: Path) -> Formula:
        """The formula of a query over assets."""
        return self._formula(value, path, (), {"item": Origin("asset")}, Want.CONDITION)

    def _formula(self, value: Any, path: Path, step: Path, names: Names, want: Want = Want.ANYTHING) -> Formula:
        binding = bind(self._document, value, path, self.problems)
        self.sites.append(Site(path, value, binding, step, names, want))
        return Written(binding, value)

    def _optional(self, value: Any, path: Path, step: Path, names: Names, want: Want = Want.ANYTHING) -> Formula | None:
        return None if value is None else self._formula(value, path, step, names, want)

    def _fixed(self, config: dict[str, Any], path: Path) -> dict[str, Any]:
        """A config, which is the same in every run."""
        binding = bind(self._document, config, path, self.problems)
        if binding.is_constant:
            value: dict[str, Any] = binding.evaluate({})
            return value
        message = "a config is the same in every run, and has no expressions"
        self.problems.append(self._document.problem("schema", path, message, "Give what differs in `with`"))
        return {}

    def _step(self, form: StepForm, path: Path, owner: Path | None, names: Names) -> PlanStep:
        self.stands[path] = Stand(form, path, owner, names)
        outer = self._conditions(form, path, names)
        each = self._each(form, path, names)
        inner = dict(names)
        if each is not None:
            inner |= {"item": Origin("item", path), each.name: Origin("item", path)}
        told = {**inner, "output": Origin("output", path)}
        loop = self._loop(form, path, told)
        read = {"assets": Origin("assets", path)} if form.reads else {}
        doing = {**(inner if loop is None else {**told, "round": Origin("round", path)}), **read}
        verb = self._verb(form, path, doing)
        executor = verb.executor if isinstance(verb, Use) else ""
        defaults, gates = self._form.defaults, form.gate
        return PlanStep(
            id=form.id,
            verb=verb,
            needs=tuple(dict.fromkeys(form.needs)),
            when=outer[0],
            require=outer[1],
            each=each,
            loop=loop,
            retry=retry_of(form.retry, executor, defaults) if executor else None,
            limits=self._limits(form, is_attempted=bool(executor)),
            queue=form.queue,
            priority=form.priority,
            before=self._gate(gates.before if gates else None, (*path, "gate", "before"), path, inner),
            after=self._gate(gates.after if gates else None, (*path, "gate", "after"), path, told),
            undo=None if form.undo is None else self._using(form.undo, (*path, "undo"), path, told),
            catch=tuple(self._handler(each, (*path, "catch", n), path, inner) for n, each in enumerate(form.catch)),
            on_failure=OnFailure(form.on_failure or defaults.on_failure),
            policies=tuple(policy for guarding, policy in self._policies if self._is_guarded(form, guarding)),
            mock=form.mock,
            has_mock="mock" in form.model_fields_set,
            description=form.description,
            metadata=form.metadata,
            reads=self._reads(form.reads, (*path, "reads"), path, inner),
            writes=self._writes(form.writes, (*path, "writes"), path, {**told, **read}),
        )

    def _conditions(self, form: StepForm, path: Path, names: Names) -> tuple[Formula | None, Formula | None]:
        when = self._optional(form.when, (*path, "when"), path, names, Want.CONDITION)
        return when, self._optional(form.require, (*path, "require"), path, names, Want.CONDITION)

    def _each(self, form: StepForm, path: Path, names: Names) -> Each | None:
        if form.each is None:
            return None
        item = {"item": Origin("item", path), form.item_name: Origin("item", path)}
        return Each(
            self._formula(form.each, (*path, "each"), path, names, Want.ITEMS),
            form.item_name,
            self._optional(form.key, (*path, "key"), path, {**names, **item}, Want.KEY),
            form.at_once,
            replace(form.join, on_extra=form.on_extra),
        )

    def _loop(self, form: StepForm, path: Path, names: Names) -> While | None:
        if form.loop is None:
            return None
        seen = {**names, "round": Origin("round", path)}
        condition = self._formula(form.loop.when, (*path, "while", "when"), path, seen, Want.CONDITION)
        return While(condition, form.loop.max)

    def _limits(self, form: StepForm, *, is_attempted: bool) -> Limits:
        """How long a step may take; the defaults are for what executors do, not for waits and whole sequences."""
        attempt, total = form.timeout, form.total_timeout
        if is_attempted:
            attempt = self._form.defaults.timeout if attempt is None else attempt
            total = self._form.defaults.total_timeout if total is None else total
        return Limits(None if attempt is None else span_ms(attempt), None if total is None else span_ms(total))

    def _verb(self, form: StepForm, path: Path, names: Names) -> Verb:
        if form.use is not None:
            inputs = self._formula(form.arguments, (*path, "with"), path, names, Want.ARGUMENTS)
            return Use(form.use, inputs, self._config(form.use, form.config, (*path, "config")))
        if form.call is not None:
            return self._call(form, form.call, path, names)
        if form.run is not None:
            return self._run(form, form.run, path, names)
        return self._compound(form, path, names) or self._waiting(form, path, names)

    def _compound(self, form: StepForm, path: Path, names: Names) -> Verb | None:
        if form.do is not None:
            return Do(self._block(form.do, (*path, "do"), path, names))
        if form.parallel is not None:
            place = (*path, "parallel")
            branches = tuple(self._step(each, (*place, n), path, names) for n, each in enumerate(form.parallel))
            # With `each` the join is that of the items; the branches of one item are then all needed.
            return Parallel(branches) if form.each else Parallel(branches, replace(form.join, on_extra=form.on_extra))
        if form.switch is not None:
            place = (*path, "switch")
            return Switch(tuple(self._case(each, (*place, n), path, names) for n, each in enumerate(form.switch)))
        return None

    def _waiting(self, form: StepForm, path: Path, names: Names) -> Verb:
        if form.review is not None:
            return self._ask(form, path, names)
        if form.receive is not None:
            place, given = (*path, "receive"), form.receive
            signal = self._formula(given.signal, self._long(place, "signal"), path, names, Want.TEXT)
            timeout = self._optional(given.timeout, (*place, "timeout"), path, names, Want.SPAN)
            return Receive(signal, timeout, given.json_schema)
        if form.sleep is not None:
            return Sleep(self._formula(form.sleep, (*path, "sleep"), path, names, Want.SPAN))
        if form.emit is not None:
            return Emit(form.emit.type, self._formula(form.emit.data, (*path, "emit", "data"), path, names))
        if form.fail is not None:
            place = self._long((*path, "fail"), "message")
            return Fail(self._formula(form.fail.message, place, path, names, Want.ANYTHING))
        return Set(self._formula(form.set, (*path, "set"), path, names))

    def _long(self, place: Path, key: str) -> Path:
        """Where a value stands that may have been written in the short form."""
        return (*place, key) if self._document.has((*place, key)) else place

    def _block(self, steps: Iterable[StepForm], path: Path, owner: Path, names: Names) -> Block:
        return Block(tuple(self._step(each, (*path, n), owner, names) for n, each in enumerate(steps)), True)

    def _case(self, form: CaseForm, path: Path, owner: Path, names: Names) -> Case:
        when = self._optional(form.when, (*path, "when"), owner, names, Want.CONDITION)
        return Case(when, self._block(form.do, (*path, "do"), owner, names))

    def _handler(self, form: CatchForm, path: Path, owner: Path, names: Names) -> Handler:
        seen = {**names, "error": Origin("error", owner)}
        return Handler(self._block(form.do, (*path, "do"), owner, seen), tuple(form.errors))

    def _call(self, form: StepForm, target: str, path: Path, names: Names) -> Use:
        given = self._formula(form.arguments, (*path, "with"), path, names)
        inputs = Computed(lambda scope: {"target": target, "arguments": given.evaluate(scope)}, given.references)
        return Use(PYTHON_CALL, inputs, self._config(PYTHON_CALL, {}, path))

    def _run(self, form: StepForm, run: RunForm, path: Path, names: Names) -> RunChild:
        place = (*path, "run", "with")
        if "arguments" in form.model_fields_set:
            if self._document.has(place):
                message = "the child's inputs are given twice, in the step and in `run`"
                self.problems.append(self._document.problem("schema", place, message, "Leave one out", at_key=True))
            place, given = (*path, "with"), form.arguments
        else:
            given = run.arguments
        return RunChild(run.workflow, self._formula(given, place, path, names, Want.ARGUMENTS), run.version)

    def _config(self, executor: str, own: dict[str, Any], path: Path) -> dict[str, Any]:
        config: dict[str, Any] = {}
        patterns = self._form.defaults.config_by
        for pattern in matching(patterns, executor):
            config |= self._fixed(patterns[pattern], ("defaults", "config_by", pattern))
        return config | self._fixed(own, path)

    def _using(self, form: Using, path: Path, step: Path, names: Names) -> Use:
        inputs = self._formula(form.arguments, (*path, "with"), step, names, Want.ARGUMENTS)
        return Use(form.use, inputs, self._config(form.use, form.config, (*path, "config")))

    def _is_guarded(self, form: StepForm, policy: PolicyForm) -> bool:
        """Whether a policy holds for a step: it is named, or it reads or writes and all that do so are meant."""
        if policy.on is not None:
            return form.id in policy.on
        return policy.before is not None and is_touching(form, policy.before, self._executors)

    def _policy(self, form: PolicyForm, path: Path) -> Policy:
        names: Names = {name: Origin(name) for name in SEEN_BY_POLICIES[form.before]}
        inputs = self._formula(form.given, (*path, "with"), (), names, Want.ARGUMENTS)
        check = Use(form.check, inputs, self._config(form.check, form.config, (*path, "config")))
        when = self._optional(form.when, (*path, "when"), (), names, Want.CONDITION)
        span = self._form.defaults.timeout if form.timeout is None else form.timeout
        limits = Limits(None if span is None else span_ms(span))
        return Policy(form.id, check, form.conflict, form.before, when, limits, self._terms(form, path))

    def _ask(self, form: StepForm, path: Path, names: Names) -> Ask:
        given = form.review
        assert given is not None
        place = (*path, "review")
        return Ask(
            self._formula(given.title, self._long(place, "title"), path, names),
            self._formula(given.show, (*place, "show"), path, names),
            given.json_schema,
            self._terms(given, place),
        )

    def _gate(self, form: GateForm | None, path: Path, step: Path, names: Names) -> Gate | None:
        if form is None:
            return None
        return Gate(
            self._optional(form.when, (*path, "when"), step, names, Want.CONDITION),
            form.reason,
            self._optional(form.title, (*path, "title"), step, names),
            self._terms(form, path),
        )

    def _terms(self, form: Asking, path: Path) -> Mapping[str, Any]:
        """What is said of whom to ask, as keywords of `review`; refused here rather than in a run."""
        terms = form.model_dump(include=set(Asking.model_fields), exclude_none=True)
        problems = [*_faults_of(terms)]
        for name in ("role", "assignee", "escalate_to", "escalate_role"):
            if "${" in terms.get(name, ""):
                problems.append((name, f"`{name}` has no expressions", "Name the role or the person"))
        for name, message, hint in problems:
            self.problems.append(self._document.problem("schema", (*path, name), message, hint))
        # Nobody else is named: those who were asked first are asked anew.
        if terms.get("on_expiry") == "escalate" and not terms.keys() & {"escalate_to", "escalate_role"}:
            terms |= {
                f"escalate_{to}": terms[key] for key, to in (("role", "role"), ("assignee", "to")) if key in terms
            }
        return terms

    def _reads(self, forms: list[ReadForm], path: Path, step: Path, names: Names) -> tuple[AssetUse, ...]:
        places = [self._one(path, number) for number, _ in enumerate(forms)]
        return tuple(
            AssetUse(self._formula(form.asset, (*place, "asset"), step, names, Want.TEXT), form.type)
            for form, place in zip(forms, places, strict=True)
        )

    def _writes(self, forms: list[WriteForm], path: Path, step: Path, names: Names) -> tuple[AssetUse, ...]:
        found = []
        for number, form in enumerate(forms):
            place = self._one(path, number)
            content = self._optional(form.content, (*place, "content"), step, names)
            asset = self._formula(form.asset, (*place, "asset"), step, names, Want.TEXT)
            metadata = self._optional(form.metadata, (*place, "metadata"), step, names)
            found.append(AssetUse(asset, form.type, content, metadata, tuple(form.tags)))
        return tuple(found)

    def _one(self, path: Path, number: int) -> Path:
        """The place of one of several, which may have been written without a list."""
        return (*path, number) if self._document.has((*path, number)) else path


def _faults_of(terms: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    on_expiry, verdicts = terms.get("on_expiry"), terms.get("verdicts")
    if on_expiry not in (None, "fail") and "expires" not in terms:
        yield "on_expiry", "there is no time after which it expires", "Say when, as in `expires: 24h`"
    if verdicts is not None:
        if set(verdicts) == {"escalate"}:
            yield "verdicts", "none of these answers ends the review", "Add continue or reject"
        if on_expiry not in (None, "fail", "escalate", *verdicts):
            yield "on_expiry", f"`{on_expiry}` is none of the allowed answers", "Add it to `verdicts`"
    if on_expiry == "escalate" and not terms.keys() & {"escalate_to", "escalate_role", "role", "assignee"}:
        yield "on_expiry", "there is nobody to turn to", "Give `escalate_to` or `escalate_role`"
