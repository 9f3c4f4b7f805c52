"""The third pass: whether everything that a template names is there, and where it can be named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from stepfast.workflows.expressions import is_name
from stepfast.workflows.plans import checking
from stepfast.workflows.plans.plan import SEEN_BY_POLICIES, Plan, Reference
from stepfast.workflows.schemas import faults_of_schema, misfits
from stepfast.workflows.templates.arguments import CONFIG
from stepfast.workflows.templates.compiling import PYTHON_CALL, Compiler, is_touching, is_transforming
from stepfast.workflows.templates.described import Described, Executors
from stepfast.workflows.templates.models import Asking, PolicyForm, StepForm, TemplateForm
from stepfast.workflows.templates.nodes import Document
from stepfast.workflows.templates.problems import NO_EXECUTOR, Path, Problem, named, nearest
from stepfast.workflows.templates.retrying import matching
from stepfast.workflows.templates.sites import GLOBAL, LOCAL, RESERVED, Site, Stand, find

PLACES = {
    "output": "It is known in `gate.after`, `undo`, `writes`, `while`, and in policies but for those before a read",
    "error": "It is known in the steps of `catch`",
    "round": "It is known in a step with `while`",
    "assets": "It is known in a step with `reads`, and in policies before a read or a write",
    "writes": "It is known in policies before a write",
}
KNOWN_OF_A_STEP = ("output", "skipped", "failed", "state", "error")


Fault = tuple[str, str]
"""A message and a hint."""


class References:
    """Checks one template; `executors` is None where nobody knows which there are."""

    def __init__(
        self, document: Document, form: TemplateForm, compiler: Compiler, broken: set[str], executors: Executors | None
    ) -> None:
        self._document = document
        self._form = form
        self._stands = compiler.stands
        self._sites = compiler.sites
        self._broken = broken
        self._executors = executors
        self._by_id: dict[str, Stand] = {}
        for stand in compiler.stands.values():
            self._by_id.setdefault(stand.form.id, stand)
        self._looks = checking.Names([*self._by_id, *broken])

    def problems(self, plan: Plan) -> Iterator[Problem]:
        """Everything that is named and is not there, or not there."""
        yield from self._of_plan(plan)
        for stand in self._stands.values():
            yield from self._of_step(stand)
        for site in self._sites:
            yield from self._of_site(site)
        yield from self._of_policies()
        yield from self._of_inputs()
        if self._executors is not None:
            yield from self._of_executors(self._executors)

    def _note(self, path: Path, message: str, hint: str = "", **more: Any) -> Problem:
        return self._document.problem("references", path, message, hint, **more)

    def _of_plan(self, plan: Plan) -> Iterator[Problem]:
        """Rules that hold for every plan, however it was written."""
        paths = list(self._stands)
        rules: tuple[Callable[[Plan], Iterator[checking.Problem]], ...] = (
            checking.duplicate_ids,
            checking.cycles,
            checking.ties_in_groups,
        )
        for rule in rules:
            for found in rule(plan):
                if found.step not in self._broken:
                    path = paths[found.number] if found.number >= 0 else ()
                    yield self._note((*path, "id"), found.message, found.hint.rstrip("."))

    def _of_step(self, stand: Stand) -> Iterator[Problem]:
        form, path = stand.form, stand.path
        for number, need in enumerate(form.needs):
            place = (*path, "needs", number)
            if need not in self._by_id and need not in self._broken:
                message = f"step {form.id!r} needs {need!r}, which does not exist"
                yield self._note(place, message, self._looks.nearest(need))
            elif (fault := self._out_of_reach(stand.path, need)) is not None:
                yield self._note(place, *fault)
        if form.item_name in RESERVED or not is_name(form.item_name):
            message = f"an item cannot be called {named(form.item_name)} in an expression"
            yield self._note((*path, "as"), message, "Take another name")
        for number, case in enumerate(form.switch or ()):
            if case.when is None and number < len(form.switch or ()) - 1:
                place = (*path, "switch", number)
                yield self._note(place, "this case is always taken, and those after it never", "Make it the last one")
        for name, schema in self._schemas(stand):
            yield from self._of_schema((*path, *name), schema)
        if self._runs_itself(stand):
            message = f"step {form.id!r} runs the same workflow again, without a condition, and so without end"
            yield self._note((*path, "run"), message, "Give it a `when`")

    def _runs_itself(self, stand: Stand) -> bool:
        """Whether the step is another run of the same workflow, which nothing can prevent or come before."""
        form = stand.form
        if form.run is None or form.run.workflow != self._form.workflow:
            return False
        is_other = form.run.version not in (None, self._form.version)
        conditions = (form.when, form.require, form.each, form.loop, form.gate)
        waits = form.needs or any(
            reference[0] == "steps" for site in self._sites_of(stand) for reference in site.binding.references
        )
        return not (is_other or waits or stand.owner is not None or any(each is not None for each in conditions))

    def _sites_of(self, stand: Stand) -> Iterator[Site]:
        return (site for site in self._sites if site.step == stand.path)

    def _schemas(self, stand: Stand) -> Iterator[tuple[Path, Any]]:
        form = stand.form
        if form.review is not None and form.review.json_schema is not None:
            yield ("review", "schema"), form.review.json_schema
        if form.receive is not None and form.receive.json_schema is not None:
            yield ("receive", "schema"), form.receive.json_schema

    def _of_schema(self, path: Path, schema: Any) -> Iterator[Problem]:
        for inner, message in faults_of_schema(schema):
            yield self._note((*path, *inner), f"this is no JSON Schema: {message}")

    def _of_site(self, site: Site) -> Iterator[Problem]:
        for reference in dict.fromkeys(site.binding.references):
            fault = self._fault_of(site, reference)
            if fault is not None:
                path, offset = find(site, reference)
                yield self._note(path, *fault, offset=offset)

    def _fault_of(self, site: Site, reference: Reference) -> Fault | None:
        first = reference[0]
        if first == "steps":
            return self._fault_of_step(site, reference)
        if first == "inputs":
            return self._fault_of_input(reference)
        if first in GLOBAL or first in site.names:
            return None
        if first in LOCAL:
            return f"`{first}` is not known here", PLACES[first]
        return f"nothing is called {named(first)} here", nearest(first, [*GLOBAL, *site.names])

    def _fault_of_step(self, site: Site, reference: Reference) -> Fault | None:
        if len(reference) == 1:
            return "`steps` is no value by itself", "Name a step, as in steps.parse.output"
        name = reference[1]
        if name in self._broken:
            return None
        if name not in self._by_id:
            return f"there is no step {named(name)}", self._cut_short(name) or self._looks.nearest(name)
        own = self._stands.get(site.step)
        if own is not None and own.form.id == name:
            return f"step {name!r} refers to itself", "What it gave is `output` here" if "output" in site.names else ""
        known = self._known_of(self._by_id[name].form)
        if len(reference) > 2 and reference[2] not in known:
            hint = nearest(reference[2], known) or f"A step has {', '.join(known)}"
            return f"a step has no {named(reference[2])}", hint
        return self._out_of_reach(site.step, name)

    def _known_of(self, form: StepForm) -> tuple[str, ...]:
        """What can be said of a step that has ended; one that is done for many items has no assets by itself."""
        may_write = form.writes or is_transforming(form, self._executors) or (form.use and self._executors is None)
        return (*KNOWN_OF_A_STEP, "assets") if may_write and form.each is None else KNOWN_OF_A_STEP

    def _cut_short(self, name: str) -> str:
        """How a step is named whose id has a `-`, which an expression takes for a minus."""
        meant = next((each for each in self._by_id if each.startswith(f"{name}-")), None)
        return "" if meant is None else f"An id with a '-' is written steps['{meant}']"

    def _fault_of_input(self, reference: Reference) -> Fault | None:
        name = reference[1] if len(reference) > 1 else None
        if name is None or name in self._form.inputs or f"inputs.{name}" in self._broken:
            return None
        return f"there is no input {named(name)}", nearest(name, self._form.inputs) or "Add it to `inputs`"

    def _out_of_reach(self, user: Path, name: str) -> Fault | None:
        """What is done many times has no one output outside of what it is done in."""
        target = self._by_id.get(name)
        if target is None or target.owner is None:
            return None
        within = set(self._owners(user))
        for owner in self._owners(target.owner):
            form = self._stands[owner].form
            if owner not in within and (form.each is not None or form.loop is not None):
                message = f"step {name!r} is done many times inside {form.id!r}, and can be named only there"
                return message, f"Name {form.id!r}, whose output has all of them"
        return None

    def _owners(self, path: Path) -> Iterator[Path]:
        """A step, and every step that it is inside of."""
        stand = self._stands.get(path)
        while stand is not None:
            yield stand.path
            stand = self._stands.get(stand.owner) if stand.owner is not None else None

    def _of_policies(self) -> Iterator[Problem]:
        seen: set[str] = set()
        for number, policy in enumerate(self._form.policies):
            path: Path = ("policies", number)
            if policy.id in seen:
                yield self._note((*path, "id"), f"two policies have the id {policy.id!r}", "Give one of them another")
            seen.add(policy.id)
            yield from self._of_policy(policy, path)

    def _of_policy(self, policy: PolicyForm, path: Path) -> Iterator[Problem]:
        what = f"policy {policy.id!r}"
        for position, step in enumerate(policy.on or ()):
            place = (*path, "on", position)
            if step not in self._by_id and step not in self._broken:
                yield self._note(place, f"{what} guards {step!r}, which does not exist", self._looks.nearest(step))
            elif policy.before and step in self._by_id and not self._touches(self._by_id[step].form, policy.before):
                message = f"{what} is asked before {step!r} {policy.before}s, and that has no `{policy.before}s`"
                yield self._note(place, message, f"Say which assets it {policy.before}s, or take it out of `on`")
        if policy.on is None and not any(self._touches(each.form, policy.before) for each in self._stands.values()):
            hint = f"None has `{policy.before}s`" if policy.before else "Name the steps in `on`"
            yield self._note(path, f"{what} guards no step", hint)
        yield from self._of_review(policy, path)

    def _touches(self, form: StepForm, what: Literal["read", "write"] | None) -> bool:
        return what is not None and is_touching(form, what, self._executors)

    def _of_review(self, policy: PolicyForm, path: Path) -> Iterator[Problem]:
        if policy.conflict == "fail":
            for name in sorted(policy.model_fields_set & set(Asking.model_fields)):
                message = f"`{name}` means nothing where a conflict fails the step"
                yield self._note((*path, name), message, "Say `conflict: review`", at_key=True)
        elif policy.before == "read" and "correct" in (policy.verdicts or ()):
            message = "nothing is there yet that could be corrected"
            yield self._note((*path, "verdicts"), message, "Leave `correct` out")

    def _of_inputs(self) -> Iterator[Problem]:
        for name, form in self._form.inputs.items():
            path: Path = ("inputs", name)
            given = form.model_fields_set
            if name == CONFIG:
                yield self._note(path, "no input can be called `config`", "It is how callers set up steps", at_key=True)
            if "json_schema" in given:
                yield from self._of_schema((*path, "schema"), form.json_schema)
                if "default" in given and not [*faults_of_schema(form.json_schema)]:
                    for inner, message in misfits(form.json_schema, form.default):
                        told = f"the default does not fit the schema: {message}"
                        yield self._note((*path, "default", *inner), told)
            for key, kinds in _OF_KINDS.items():
                field = _FIELDS.get(key, key)
                if field in given and form.kind not in kinds:
                    hint = f"It goes with {' and '.join(kinds)}"
                    message = f"`{key}` means nothing for an input of kind {form.kind}"
                    yield self._note((*path, key), message, hint, at_key=True)

    def _of_executors(self, executors: Executors) -> Iterator[Problem]:
        known = checking.Names(executors)
        for path, name, config, arguments in self._uses():
            executor = executors.get(name)
            if executor is None:
                message = f"there is no executor {named(name)}"
                yield self._note(path, message, known.nearest(name), code=NO_EXECUTOR)
                continue
            yield from self._of_config(executor, name, config, (*path[:-1], "config"))
            if arguments is not None:
                yield from self._of_arguments(executor, arguments, (*path[:-1], "with"), self._beside(path[:-1]))

    def _beside(self, path: Path) -> frozenset[str]:
        """What an executor is given without being told to."""
        if path in self._stands:
            return frozenset({"assets"} if self._stands[path].form.reads else ())
        if path[:1] == ("policies",):
            return frozenset(SEEN_BY_POLICIES[self._form.policies[int(path[1])].before]) - {"output"}
        return frozenset()

    def _uses(self) -> Iterator[tuple[Path, str, dict[str, Any], Any]]:
        for path, stand in self._stands.items():
            form = stand.form
            if form.use is not None:
                yield (*path, "use"), form.use, form.config, form.arguments
            if form.call is not None:
                yield (*path, "call"), PYTHON_CALL, {}, None
            if form.undo is not None:
                yield (*path, "undo", "use"), form.undo.use, form.undo.config, form.undo.arguments
        for number, policy in enumerate(self._form.policies):
            yield ("policies", number, "check"), policy.check, policy.config, policy.given

    def _of_config(self, executor: Described, name: str, own: dict[str, Any], path: Path) -> Iterator[Problem]:
        """Whether a config fits, wherever its fields come from; those that are missing may come from the caller."""
        patterns = self._form.defaults.config_by
        places = {key: ("defaults", "config_by", each) for each in matching(patterns, name) for key in patterns[each]}
        config = {key: value for each in matching(patterns, name) for key, value in patterns[each].items()} | own
        if not config:
            return
        if executor.config is None:
            place = path if own else next(iter(places.values()))
            yield self._note(place, f"{executor.name} takes no config", "Leave it out", at_key=True)
            return
        for told in executor.validate_config(config):
            field, _, message = told.partition(": ")
            inner = tuple(int(part) if part.isdigit() else part for part in field.split("."))
            home: Path = path if inner[0] in own else places.get(str(inner[0]), path)
            if self._document.has((*home, *inner)):
                yield self._note((*home, *inner), f"{executor.name}: {field}: {message.rstrip('.')}")
            elif "required" not in message.lower():
                yield self._note(home, f"{executor.name}: {field}: {message.rstrip('.')}")

    def _of_arguments(self, executor: Described, given: Any, path: Path, beside: frozenset[str]) -> Iterator[Problem]:
        if not isinstance(given, dict):
            return
        known = executor.inputs.get("properties", {})
        for name in given:
            if name not in known and executor.inputs.get("additionalProperties") is False:
                hint = nearest(name, known) or f"It takes {', '.join(known) or 'nothing'}"
                yield self._note((*path, name), f"{executor.name} takes no {named(name)}", hint, at_key=True)
        for name in executor.inputs.get("required", ()):
            if name not in given and name not in beside:
                message = f"{executor.name} needs {named(name)}, which is not given"
                place = path if self._document.has(path) else path[:-1]
                yield self._note(place, message, f"Give it in `with`, as in {{{name}: ...}}", at_key=True)


_OF_KINDS = {
    "schema": ("payload", "event"),
    "default": ("payload", "asset", "collection", "event"),
    "type": ("asset", "collection", "query", "event"),
    "of": ("collection",),
    "from": ("query",),
    "where": ("query",),
}
_FIELDS = {"schema": "json_schema", "from": "origin"}
