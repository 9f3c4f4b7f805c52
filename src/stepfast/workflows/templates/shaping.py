"""The second pass: whether the data of a template has the shape of the language, and what can be used of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stepfast.workflows.templates.models import COMMENT, VERBS, WITH_EACH, WITH_VERBS, Part, StepForm, TemplateForm
from stepfast.workflows.templates.nodes import Document
from stepfast.workflows.templates.problems import Path, Problem, named, nearest, told

# Keys whose value may be anything, null too.
FREE = frozenset({"set", "mock", "default", "data", "show", "content", "output", "schema"})
LATER = {"limit": "It comes with quotas, and is not there yet"}
ROUNDS = 6
MAX_LOOKS = 50


@dataclass
class Shaped:
    """A template as models, with what had to be left out of it so that the rest can be looked at."""

    form: TemplateForm | None
    problems: list[Problem]
    broken: set[str] = field(default_factory=set)
    """Steps and inputs of which little is known, as something in them is wrong."""


def shape(document: Document, data: Any) -> Shaped:
    """The models of a template, and everything in which it is no template."""
    if not isinstance(data, dict):
        hint = "It begins with `stepfast: 1` and `workflow: NAME`"
        return Shaped(None, [document.problem("schema", (), f"a template is a map, and this is {told(data)}", hint)])
    shaper = _Shaper(document, data)
    form = shaper.shaped()
    return Shaped(form, shaper.problems, shaper.broken)


def raw_steps(data: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every map that stands where a step is expected, with its path; all of a list before those inside them."""
    pending: list[tuple[Path, Any]] = [(("steps",), data.get("steps"))] if isinstance(data, dict) else []
    while pending:
        path, steps = pending.pop()
        if not isinstance(steps, list):
            continue
        inner: list[tuple[Path, Any]] = []
        for number, step in enumerate(steps):
            if isinstance(step, dict):
                yield (*path, number), step
                inner += _inside((*path, number), step)
        pending += reversed(inner)


def _inside(path: Path, step: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name in ("do", "parallel"):
        yield (*path, name), step.get(name)
    for name in ("switch", "catch"):
        cases = step.get(name)
        for number, case in enumerate(cases if isinstance(cases, list) else ()):
            if isinstance(case, dict):
                yield (*path, name, number, "do"), case.get("do")


class _Shaper:
    """Holds data against the models again and again, each time without what was wrong, until the rest fits."""

    def __init__(self, document: Document, data: dict[str, Any]) -> None:
        self._document = document
        self._data = data
        self.problems: list[Problem] = []
        self.broken: set[str] = set()
        # To compare names takes long: a file that is wrong in each line must not take for ever to refuse.
        self._looks = MAX_LOOKS

    def shaped(self) -> TemplateForm | None:
        rest = copy.deepcopy(self._data)
        self._check_steps()
        for number in range(ROUNDS):
            models: dict[int, type[Part]] = {}
            try:
                form = TemplateForm.model_validate(rest, context=models)
            except ValidationError as error:
                faults = error.errors(include_url=False)
                if number == 0:
                    self._tell(faults, rest, models)
                self._remove(faults, rest, is_first=number == 0)
            else:
                if number == 0:
                    self._check_nulls(rest, models)
                return form
        return None

    def _note(self, path: Path, message: str, hint: str = "", *, at_key: bool = False) -> None:
        self.problems.append(self._document.problem("schema", path, message, hint, at_key=at_key))

    def _check_steps(self) -> None:
        for path, step in raw_steps(self._data):
            present = [verb for verb in VERBS if verb in step]
            if not present:
                self._break(step)
                self._note(path, "the step does nothing", f"Give it one of {', '.join(VERBS)}")
            elif len(present) > 1:
                verbs = " and ".join(f"`{verb}`" for verb in present)
                self._note((*path, present[1]), f"the step has {verbs}, and a step does one thing", at_key=True)
            else:
                self._check_companions(path, step, present[0])

    def _check_companions(self, path: Path, step: dict[str, Any], verb: str) -> None:
        for key, verbs in WITH_VERBS.items():
            if key in step and verb not in verbs:
                hint = f"It goes with {', '.join(f'`{each}`' for each in verbs)}"
                self._note((*path, key), f"`{key}` means nothing beside `{verb}`", hint, at_key=True)
        for key in WITH_EACH:
            if key in step and "each" not in step:
                self._note((*path, key), f"`{key}` means nothing without `each`", at_key=True)
        for key in ("join", "on_extra"):
            if key in step and "each" not in step and verb != "parallel":
                self._note((*path, key), f"`{key}` means nothing without `each` or `parallel`", at_key=True)

    def _check_nulls(self, data: Any, models: dict[int, type[Part]]) -> None:
        for path, owner in _maps(data):
            for name, value in owner.items():
                if value is None and id(owner) in models and name not in FREE and not name.startswith(COMMENT):
                    hint = "Give it one" if name in models[id(owner)].needed() else "Give it one, or leave it out"
                    self._note((*path, name), f"`{name}` has no value", hint, at_key=True)

    def _tell(self, faults: list[ErrorDetails], data: Any, models: dict[int, type[Part]]) -> None:
        self._check_nulls(data, models)
        empty = {each.path for each in self.problems}
        for fault in faults:
            path, owner = _followed(data, fault["loc"])
            if fault["type"] == "extra_forbidden":
                self._tell_unknown(path, owner, models)
            elif fault["type"] == "missing":
                name = fault["loc"][-1]
                self._note(path, f"`{name}` is missing")
            elif path not in empty:
                self._note(path, _message(fault), _advice(fault), at_key=fault["loc"][-1:] == ("[key]",))

    def _tell_unknown(self, path: Path, owner: Any, models: dict[int, type[Part]]) -> None:
        key, model = str(path[-1]), models.get(id(owner), TemplateForm)
        self._looks -= 1
        hint = nearest(key, model.keys()) if self._looks >= 0 else ""
        if model is StepForm and key in LATER:
            hint = LATER[key]
        elif not hint:
            hint = f"Known here are {', '.join(model.keys())}; notes of your own begin with x-"
        self._note(path, f"there is no key {named(key)} here", hint, at_key=True)

    def _remove(self, faults: list[ErrorDetails], data: dict[str, Any], *, is_first: bool) -> None:
        """Take out what is wrong: the key alone at first, later the step or the section that it stands in."""
        for fault in faults:
            path, _ = _followed(data, fault["loc"])
            is_lacking = fault["type"] == "missing"
            if is_first and not is_lacking and self._drop(data, path):
                continue
            self._replace(data, path)

    def _drop(self, data: Any, path: Path) -> bool:
        """Remove the key at a path, or the nearest one above it; False where that would be a whole list of steps."""
        keys = [position for position, part in enumerate(path) if isinstance(part, str)]
        last = keys[-1] if keys else -1
        if last < 0 or path[last] in ("steps", "do", "parallel", "switch", "catch", "id"):
            return False
        owner = _at(data, path[:last])
        if not isinstance(owner, dict) or path[last] not in owner:
            return False
        del owner[path[last]]
        if path[:1] == ("inputs",) and last == 1:
            self.broken.add(f"inputs.{path[1]}")
        elif path[last] in VERBS:
            self._break(owner)
        return True

    def _replace(self, data: dict[str, Any], path: Path) -> None:
        step = _step_around(data, path)
        if step is not None:
            owner, number = _at(data, step[:-1]), step[-1]
            assert isinstance(owner, list)
            assert isinstance(number, int)
            self._break(owner[number])
            owner[number] = {"id": _id_of(owner[number], number), "set": None}
            return
        if path[:1] == ("inputs",) and len(path) > 1:
            data["inputs"] = {name: each for name, each in data["inputs"].items() if name != path[1]}
            self.broken.add(f"inputs.{path[1]}")
            return
        self._stand_in(data, path)

    def _stand_in(self, data: dict[str, Any], path: Path) -> None:
        for name, value in (("stepfast", 1), ("workflow", "nameless"), ("steps", [{"id": "nothing", "set": None}])):
            if (not path and name not in data) or path[:1] == (name,):
                data[name] = value
        if path and path[0] not in ("stepfast", "workflow", "steps"):
            data.pop(str(path[0]), None)

    def _break(self, step: Any) -> None:
        for _, each in raw_steps({"steps": [step]}):
            if isinstance(each.get("id"), str):
                self.broken.add(each["id"])


def _id_of(step: Any, number: int) -> str:
    given = step.get("id") if isinstance(step, dict) else None
    try:
        return StepForm.model_validate({"id": given, "set": None}).id
    except ValidationError:
        return f"broken-{number}"


def _step_around(data: Any, path: Path) -> Path | None:
    """The innermost step that a path leads into."""
    around = [each for each, _ in raw_steps(data) if path[: len(each)] == each]
    if around:
        return max(around, key=len)
    # Something that is no map, where a step should be.
    for length in range(len(path), 1, -1):
        if isinstance(path[length - 1], int) and path[length - 2] in ("steps", "do", "parallel"):
            return path[:length]
    return None


def _at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _followed(data: Any, location: tuple[int | str, ...]) -> tuple[Path, Any]:
    """The path of a location of pydantic's, without what names parts of its own; and what the last part belongs to."""
    path: list[str | int] = []
    owner = data
    for part in location:
        is_key = isinstance(data, dict) and part in data
        is_item = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if is_key or is_item:
            path.append(part)
            owner, data = data, data[part]
    return tuple(path), owner


def _maps(data: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    pending: list[tuple[Path, Any]] = [((), data)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            yield path, value
            pending += [((*path, name), each) for name, each in value.items() if isinstance(each, dict | list)]
        elif isinstance(value, list):
            pending += [((*path, number), each) for number, each in enumerate(value) if isinstance(each, dict | list)]


_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "bool_type": "true or false",
}


def _message(fault: ErrorDetails) -> str:
    kind, value = fault["type"], told(fault.get("input"))
    if kind == "form":
        return str(fault["ctx"]["told"])
    if kind in _KINDS:
        return f"it is {value}; it must be {_KINDS[kind]}"
    if kind == "literal_error":
        allowed = fault["ctx"]["expected"].replace(" or ", ", ").replace("'", "")
        return f"it is {value}; allowed are {allowed}"
    if kind in ("too_short", "string_too_short"):
        return "it is empty"
    said = fault["msg"].removeprefix("Input ")
    return f"it is {value}; it {said[:1].lower()}{said[1:]}"


def _advice(fault: ErrorDetails) -> str:
    value = fault.get("input")
    if fault["type"] == "literal_error" and value == fault["ctx"]["expected"]:
        return "Leave out the quotes"
    if fault["type"] == "literal_error" and isinstance(value, str):
        return nearest(value, [each.strip("' ") for each in fault["ctx"]["expected"].replace(" or ", ", ").split(",")])
    if fault["type"] == "string_type" and isinstance(value, bool | int | float):
        return "Put it in quotes"
    return ""
