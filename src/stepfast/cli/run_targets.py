"""What `stepfast run` is given: from `file.py:workflow` or a template to the workflow, and the app to run it on.

Graphs and templates, with the language of their expressions, take a while to import: no other command needs them for
its app.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from stepfast.app import Stepfast
from stepfast.cli.loading import find_app, load_module, only_app
from stepfast.kernel.errors import Invalid, WorkflowNotFound
from stepfast.settings import Settings
from stepfast.workflows.functions import AsyncWorkflow, SyncWorkflow, Workflow
from stepfast.workflows.graphs.graph import Graph
from stepfast.workflows.templates.loading import SUFFIXES, load_template
from stepfast.workflows.templates.workflow import TemplateWorkflow

DECORATED = (AsyncWorkflow, SyncWorkflow, Graph)

TEMPLATES = SUFFIXES
"""How the names of files end that hold templates."""

WHICH = "Name the file with the workflow, and the workflow if there are several: file.py:workflow"


def load_workflow(target: str) -> tuple[Stepfast, Workflow]:
    """The workflow that `file.py:name` names, and the app to run it on; without a name, the only one of the file."""
    place, _, name = target.partition(":")
    module = load_module(place, WHICH)
    found = {given.workflow.name: given.workflow for given in vars(module).values() if isinstance(given, DECORATED)}
    here = (f"{module.__name__}.", f"{module.__name__}:")
    own = {known: each for known, each in found.items() if each.place.startswith(here)}
    return only_app(module, target), _chosen(name, own or found, place)


def names_template(target: str) -> bool:
    """Whether `file` or `file:workflow` is a template."""
    return target.partition(":")[0].endswith(TEMPLATES)


def load_template_of(target: str, settings: Settings, is_dry: bool) -> tuple[Stepfast, TemplateWorkflow]:
    """The workflow of a template, and the app whose executors its steps call; for a rehearsal none is needed."""
    app = find_app(settings) or Stepfast(workflows=[])
    file, _, name = target.partition(":")
    template = load_template(Path(file), app.executors if settings.app or not is_dry else None)
    if name not in ("", template.name):
        raise WorkflowNotFound(f"{file} has no workflow {name!r}. It has: {template.name}.")
    return app, TemplateWorkflow(template, app.executors.get, app.workflow_named, is_dry=is_dry)


def _chosen(name: str, workflows: dict[str, Workflow], place: str) -> Workflow:
    if not workflows:
        raise Invalid(f"{place} has no workflow. Mark a function with @workflow.")
    if name in workflows:
        return workflows[name]
    known = ", ".join(sorted(workflows))
    if name:
        nearest = get_close_matches(name, workflows, 1)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        raise WorkflowNotFound(f"{place} has no workflow {name!r}. {hint}It has: {known}.")
    if len(workflows) > 1:
        raise Invalid(f"{place} has several workflows ({known}). Name one of them: {place}:{min(workflows)}.")
    return next(iter(workflows.values()))
