"""From `module:name` or `file.py:name` to the app behind it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from stepfast.app import Stepfast
from stepfast.cli.printing import say
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.settings import Settings
from stepfast.workflows.executors.executor import BUILTIN

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
    module = load_module(place, advice, settings.app_folder)
    return _named(module, name, settings) if name else only_app(module, settings.app)


def load_module(place: str, advice: str, within: Path = Path()) -> ModuleType:
    """The module or file, as seen from that folder."""
    is_file = place.endswith(".py")
    if not is_file and (not place or place.startswith(".") or "/" in place):
        raise Invalid(f"{place!r} is neither the name of a module nor a file that ends in .py. {advice}.")
    # Path.resolve raises RuntimeError at a loop of links, up to Python 3.12.
    folder = Path(os.path.realpath(within / place)).parent if is_file else within.absolute()
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
    if file.stem in sys.stdlib_module_names:
        say(f"{file} hides a module of Python's own from all that imports it: give it another name than {file.stem}.")
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


def only_app(module: ModuleType, target: str) -> Stepfast:
    apps = {name: value for name, value in vars(module).items() if isinstance(value, Stepfast)}
    if len(apps) > 1:
        raise Invalid(f"{target} has several apps ({', '.join(apps)}). Name one of them: {target}:{min(apps)}.")
    return next(iter(apps.values())) if apps else Stepfast()
