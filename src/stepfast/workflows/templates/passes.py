"""The passes over a template, one after the other; what is wrong in one is no reason to leave out the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stepfast.workflows.codec import digest
from stepfast.workflows.inputs import MISSING, InputSpec
from stepfast.workflows.plans.plan import Plan
from stepfast.workflows.templates.arguments import TemplateInput
from stepfast.workflows.templates.compiling import Compiler
from stepfast.workflows.templates.described import Executors
from stepfast.workflows.templates.inference import Inference
from stepfast.workflows.templates.models import TemplateForm
from stepfast.workflows.templates.nodes import Document, canonical
from stepfast.workflows.templates.problems import Problem, TemplateInvalid
from stepfast.workflows.templates.references import References
from stepfast.workflows.templates.shaping import raw_steps, shape

MAX_STEPS = 20_000
# Three for each step; a file of a megabyte can hold more, which would take a minute to look at.
MAX_EXPRESSIONS = 60_000


class Found(NamedTuple):
    """A template in which nothing is wrong."""

    plan: Plan
    inputs: Mapping[str, TemplateInput]
    source: Mapping[str, Any]


class Passes:
    """Takes a document through the passes."""

    def __init__(self, document: Document, problems: list[Problem], executors: Executors | None) -> None:
        self._document = document
        self._problems = problems
        self._executors = executors

    def load(self) -> Found:
        source = self._document.root.plain()
        self._check_limits(source)
        shaped = shape(self._document, source)
        self._problems += shaped.problems
        if shaped.form is None:
            raise TemplateInvalid(self._problems)
        content = canonical(source)
        self._check_expressions(content)
        found = self._compile(shaped.form, source, digest(content), shaped.broken)
        if self._problems:
            raise TemplateInvalid(self._problems)
        return found

    def _check_limits(self, source: Any) -> None:
        """Before anything is built of it."""
        for number, (path, _) in enumerate(raw_steps(source)):
            if number >= MAX_STEPS:
                message = f"the template has more than {MAX_STEPS:,} steps"
                hint = "Split it into several workflows that run each other, or use `each`"
                raise TemplateInvalid([*self._problems, self._document.problem("limits", path, message, hint)])

    def _check_expressions(self, content: str) -> None:
        count = content.count("${")
        if count > MAX_EXPRESSIONS:
            message = f"the template has {count:,} expressions; allowed are {MAX_EXPRESSIONS:,}"
            hint = "Split it into several workflows that run each other, or use `each`"
            raise TemplateInvalid([*self._problems, self._document.problem("limits", (), message, hint)])

    def _compile(self, form: TemplateForm, source: Any, digested: str, broken: set[str]) -> Found:
        compiler = Compiler(self._document, form, self._executors)
        plan = compiler.compile(digested)
        inputs = {name: _input(compiler, name, form) for name in form.inputs}
        self._problems += compiler.problems
        self._problems += References(self._document, form, compiler, broken, self._executors).problems(plan)
        self._problems += Inference(self._document, form, compiler, broken, self._executors).problems()
        return Found(plan, inputs, source)


def _input(compiler: Compiler, name: str, form: TemplateForm) -> TemplateInput:
    each = form.inputs[name]
    where = None if each.where is None else compiler.where(each.where, ("inputs", name, "where"))
    default = each.default if "default" in each.model_fields_set else MISSING
    return TemplateInput(each.kind, InputSpec(each.type, each.of, where, default), each.json_schema, each.description)
