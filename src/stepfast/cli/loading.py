"""From `module:name` or `file.py:name` to the app or the workflow behind it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from stepfast.app import Stepfast
from stepfast.kernel.errors import Invalid, StepfastError, WorkflowNotFound
from stepfast.settings import Settings
from stepfast.workflows.executors.executor import BUILTIN
from stepfast.workflows.functions import AsyncWorkflow, SyncWorkflow, Workflow
from stepfast.workflows.graphs.graph import Graph
from stepfast.workflows.templates.loading import SUFFIXES, load_template
from stepfast.workflows.templates.workflow import TemplateWorkflow

DECORATED = (AsyncWorkflow, SyncWorkflow, Graph)

TEMPLATES = SUFFIXES
"""How the names of files end that hold templates."""

WHICH = "Name the file with the workflow, and the workflow if there are several: file.py:workflow"
WHERE = "Name the app with --app module:name or --app file.py:name, with STEPFAST_APP, or as `app` in [tool.stepfast]"


def load_app(settings: Settings, needs_code: bool = True) -> Stepfast:
    """The app that the settings name, which may have to know a workflow, or executors for those that are registered."""
    app = find_app(settings)
    if app is None:
        raise Invalid(f"No app is named, and so no workflow is known. {WHERE} of pyproject.toml.")
    if needs_code and not _has_something_to_do(app):
        raise Invalid(
            f"{settings.app} knows no workflow. Mark a function with @workflow in a module that it imports, give "
            f"workflows with Stepfast(url, workflows=[...]), or name another app ({settings.app_place})."
        )
    return app


def _has_something_to_do(app: Stepfast) -> bool:
    """Whether the app has workflows, or is made for templates; one that names its workflows, if none, is."""
    if app.codes() or app.names_its_workflows:
        return True
    return any(executor.kind != BUILTIN for executor in app.executors.list())


def find_app(settings: Settings) -> Stepfast | None:
    """The app that the settings name, if any; without a name of its own, the only app of its module, else a new one."""
    if not settings.app:
        return None
    place, _, name = settings.app.partition(":")
    advice = f"{settings.app_place} names it: write module:name or file.py:name"
    module = _import(place, advice, settings.app_folder)
    return _named(module, name, settings) if name else _only_app(module, settings.app)


def load_workflow(target: str) -> tuple[Stepfast, Workflow]:
    """The workflow that `file.py:name` names, and the app to run it on; without a name, the only one of the file."""
    place, _, name = target.partition(":")
    module = _import(place, WHICH)
    found = {given.workflow.name: given.workflow for given in vars(module).values() if isinstance(given, DECORATED)}
    here = (f"{module.__name__}.", f"{module.__name__}:")
    own = {known: each for known, each in found.items() if each.place.startswith(here)}
    return _only_app(module, target), _chosen(name, own or found, place)


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


def _import(place: str, advice: str, within: Path = Path()) -> ModuleType:
    """The module or file, as seen from that folder."""
    is_file = place.endswith(".py")
    if not is_file and (not place or place.startswith(".") or "/" in place):
        raise Invalid(f"{place!r} is neither the name of a module nor a file that ends in .py. {advice}.")
    folder = (within / place).resolve().parent if is_file else within.absolute()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return _import_file(within / place) if is_file else importlib.import_module(place)
    except StepfastError:
        raise
    except (Exception, SystemExit) as error:
        # A script that ends its process when it is imported would end this command without a word.
        raise Invalid(f"{place} cannot be imported: {_told(error)}. {advice}.") from error


def _import_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    # By its name, so that type hints and exception classes of the file can be found again.
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _told(error: BaseException) -> str:
    """The error in one line, with the place in the user's code where it arose."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    theirs = [frame for frame in frames if frame.filename != __file__]
    where = f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
    return f"{type(error).__name__}: {error}{where}"


def _named(module: ModuleType, name: str, settings: Settings) -> Stepfast:
    app = getattr(module, name, None)
    if not isinstance(app, Stepfast):
        kind = "nothing of that name" if app is None else f"a {type(app).__name__}"
        needed = f"where {settings.app_place} needs an app: `{name} = Stepfast(...)`"
        raise Invalid(f"{settings.app} is {kind}, {needed}.")
    return app


def _only_app(module: ModuleType, target: str) -> Stepfast:
    apps = {name: value for name, value in vars(module).items() if isinstance(value, Stepfast)}
    if len(apps) > 1:
        raise Invalid(f"{target} has several apps ({', '.join(apps)}). Name one of them: {target}:{min(apps)}.")
    return next(iter(apps.values())) if apps else Stepfast()
