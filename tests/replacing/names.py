"""Whether a name of ours, as a page writes it, is there: in Python, on the command line, in settings, in templates."""

from __future__ import annotations

import inspect
import re
import shlex
from functools import cache
from importlib import import_module
from typing import Any

import click

import stepfast
from stepfast import Run, Stepfast
from stepfast.cli.commands import cli
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.events import EventType
from stepfast.kernel.reviews import ItemKind, Verdict
from stepfast.kernel.states import RunState, StepState
from stepfast.settings import QUEUE_CONCURRENCY, SETTINGS
from stepfast.workflows.templates.models import Asking, Defaults, GateForm, Input, PolicyForm, StepForm, TemplateForm

_CALL = re.compile(r"@?(?P<path>[\w.]+)(?:\((?P<arguments>.*)\))?")
_PARAMETER = re.compile(r"(\w+)=")
_CODE = re.compile(r"E-[A-Z]+-\d{3}")


def exists(name: str) -> bool:
    """Whether there is such a thing."""
    if name.startswith("stepfast "):
        return _is_command(shlex.split(name)[1:])
    if _CODE.fullmatch(name):
        return name in _codes()
    if name.isupper() or name.endswith("<QUEUE>"):
        return name in _settings()
    return name in _words() or _is_python(name)


def _is_command(words: list[str]) -> bool:
    command: click.Command = cli
    for number, word in enumerate(words):
        if not isinstance(command, click.Group):
            return all(_is_option(command, word) for word in words[number:] if word.startswith("-"))
        found = command.get_command(click.Context(command), word)
        if found is None:
            return False
        command = found
    return True


def _is_option(command: click.Command, word: str) -> bool:
    return any(word in parameter.opts for parameter in command.params)


def _is_python(name: str) -> bool:
    match = _CALL.fullmatch(name)
    if match is None:
        return False
    try:
        thing = _thing(match["path"])
    except (AttributeError, ImportError):
        return False
    wanted = _PARAMETER.findall(match["arguments"] or "")
    return not wanted or set(wanted) <= set(inspect.signature(thing).parameters)


def _thing(path: str) -> Any:
    first, *rest = path.split(".")
    thing: Any = _roots().get(first) or getattr(stepfast, first)
    for number, part in enumerate(rest):
        if inspect.ismodule(thing) and not hasattr(thing, part):
            import_module(".".join([first, *rest[: number + 1]]))
        # What a handle gets when it is made is no attribute of its class.
        thing = str if thing is Run and part in Run.__init__.__code__.co_names else getattr(thing, part)
    return thing


@cache
def _roots() -> dict[str, Any]:
    app = Stepfast("sqlite:///never-opened.db", workflows=[], worker=False)
    return {"app": app, "run": Run, "stepfast": stepfast}


@cache
def _codes() -> set[str]:
    def below(kind: type[StepfastError]) -> set[str]:
        return {kind.code}.union(*(below(each) for each in kind.__subclasses__()))

    return below(StepfastError)


@cache
def _settings() -> set[str]:
    each = [*SETTINGS, QUEUE_CONCURRENCY]
    return {setting.name for setting in each} | {
        setting.name.removeprefix("STEPFAST_") for setting in each if setting.plain
    }


@cache
def _words() -> set[str]:
    told = {str(word) for kind in (RunState, StepState, EventType, ItemKind, Verdict) for word in kind}
    forms = (TemplateForm, StepForm, Defaults, Input, PolicyForm, GateForm, Asking)
    kinds = {f"kind: {kind}" for kind in ("payload", "asset", "collection", "query", "event")}
    behaviours = {f"on_failure: {each}" for each in ("fail", "continue", "skip_dependents", "compensate")}
    keys = {f"{key}:" for keys_of in (form.keys for form in forms) for key in keys_of()}
    return told | keys | kinds | behaviours
