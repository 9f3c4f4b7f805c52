"""The inputs of a template's runs: defaults, JSON Schemas, and everything that does not fit at once."""

from __future__ import annotations

import inspect
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.inputs import MISSING, AssetsOf, InputSpec, Kind, Problems, event_faults, resolve_input
from stepfast.workflows.schemas import misfits
from stepfast.workflows.templates.problems import nearest

FOUND_AT_START = ("asset", "collection", "query")
"""Kinds of inputs of which the caller gives a name, or nothing, and a run sees what was found."""


CONFIG = "config"
"""What no input can be called: callers give the config of steps by this name."""

CheckConfig = Callable[[Any], None]

_GIVEN = ValueCodec(Any, "what a template is started with")


def _unchecked(config: Any) -> None:
    """Nobody knows here what the steps take."""


class TemplateInput(NamedTuple):
    """One input: its kind, what is wanted of it, and the JSON Schema of its value."""

    kind: Kind
    spec: InputSpec
    schema: Any = None
    description: str = ""

    @property
    def is_needed(self) -> bool:
        """Whether a caller must give it."""
        finds_itself = self.kind == "query" or (self.kind == "collection" and self.spec.of is not None)
        return self.spec.default is MISSING and not finds_itself

    def faults(self, value: Any) -> list[str]:
        """Where a value does not fit."""
        if self.schema is None:
            return []
        held = value.get("data") if self.kind == "event" and isinstance(value, Mapping) else value
        return [f"{'.'.join(map(str, path))}: {told}" if path else told for path, told in misfits(self.schema, held)]


def _interpret(inputs: dict[str, Any], config: dict[str, dict[str, Any]]) -> None:
    """Only its parameters count: what a plan is called with."""


class TemplateArguments(ArgumentsCodec):
    """Inputs by name, stored as `inputs` beside the `config` of the steps."""

    def __init__(self, name: str, inputs: Mapping[str, TemplateInput], check_config: CheckConfig = _unchecked) -> None:
        super().__init__(_interpret, f"workflow {name!r}")
        self._wanted = inputs
        self._check_config = check_config

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the plan; assets must have been found by `resolve` before."""
        given, config = self._named(args, kwargs)
        self._check_config(config)
        problems = self._unknown(given)
        found: dict[str, Any] = {}
        for name, each in self._wanted.items():
            value = given.get(name, each.spec.default)
            problems += [f"{name}: {told}" for told in _bound_faults(each, value)]
            found[name] = value
        if problems:
            self._refuse(problems)
        return {"inputs": found, "config": config or {}}

    async def resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any], assets: AssetsOf) -> dict[str, Any]:
        """Every input as a run will see it, assets found; all that does not fit is told at once."""
        given, _ = self._named(args, kwargs)
        found: dict[str, Any] = {}
        problems = self._unknown(given)
        for name, each in self._wanted.items():
            try:
                found[name] = await resolve_input(each.kind, each.spec, given.get(name, MISSING), assets)
            except Problems as wrong:
                problems += [f"{name}: {told}" for told in wrong.told]
            else:
                problems += [f"{name}: {told}" for told in each.faults(found[name])]
        if problems:
            self._refuse(problems)
        return found

    def given_text(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """What a caller gave, in one order: of what is found at the start, what was asked for."""
        given, config = self._named(args, kwargs)
        defaults = {
            name: each.spec.default
            for name, each in self._wanted.items()
            if each.kind not in FOUND_AT_START and each.spec.default is not MISSING
        }
        text = _GIVEN.encode({"inputs": {**defaults, **given}, "config": config or {}})
        return json.dumps(json.loads(text), sort_keys=True)

    def missing(self, positional: int, keywords: Collection[str]) -> list[str]:
        needed = [name for name, each in self._wanted.items() if each.is_needed and name not in keywords]
        return needed[positional:]

    def from_json(self, args: Iterable[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """What came as plain JSON, which inputs are anyway."""
        given, config = self._named(tuple(args), kwargs)
        return _Given(given if config is None else {**given, CONFIG: config})

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Inputs by name, and the config; an input that has no other beside it may be given without its name."""
        given = {name: value for name, value in kwargs.items() if name != CONFIG}
        if args:
            name = next(iter(self._wanted), "")
            if len(args) > 1 or len(self._wanted) != 1 or name in given:
                raise Invalid(f"{self.what} takes its inputs by name: {self._told()}. {len(args)} came without one.")
            given[name] = args[0]
        return given, kwargs.get(CONFIG)

    def _unknown(self, given: Mapping[str, Any]) -> list[str]:
        unknown = (name for name in given if name not in self._wanted)
        return [f"{name}: there is no such input. {self._advice(name)}" for name in unknown]

    def _advice(self, name: object) -> str:
        return nearest(str(name), self._wanted) or f"There are: {self._told()}."

    def _told(self) -> str:
        return ", ".join(self._wanted) or "none"

    def _refuse(self, problems: list[str]) -> NoReturn:
        raise Invalid(f"The inputs of {self.what} do not fit:\n" + "\n".join(problems))


class _Given(inspect.BoundArguments):
    """Inputs by name; a name need not be one that Python allows a parameter to have."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        super().__init__(inspect.Signature(), OrderedDict(inputs))

    @property
    def args(self) -> tuple[Any, ...]:
        return ()

    @property
    def kwargs(self) -> dict[str, Any]:
        return dict(self.arguments)


def _bound_faults(each: TemplateInput, value: Any) -> list[str]:
    if value is MISSING:
        return ["nothing is given, and it has no default"]
    if each.kind == "asset" and not _is_found(value):
        return [f"it is {shown(value)}, which was not looked up; start the run by an app that has assets"]
    if each.kind in ("collection", "query") and not (isinstance(value, list) and all(map(_is_found, value))):
        return [f"it is {shown(value)}, which was not looked up; start the run by an app that has assets"]
    if each.kind == "event" and (faults := event_faults(each.spec, value)):
        return faults
    return each.faults(value)


def _is_found(value: Any) -> bool:
    return isinstance(value, Mapping) and {"id", "version", "uri"} <= value.keys()
