"""The fourth pass: whether expressions can be evaluated with what is known of inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid
from stepfast.workflows.expressions import (
    BOOL,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    ListType,
    MapType,
    RecordType,
    Type,
    UnionType,
    accepts,
    type_of_schema,
)
from stepfast.workflows.schemas import misfits
from stepfast.workflows.templates.bindings import placed
from stepfast.workflows.templates.compiling import Compiler
from stepfast.workflows.templates.described import Executors
from stepfast.workflows.templates.models import Input, StepForm, TemplateForm
from stepfast.workflows.templates.nodes import Document
from stepfast.workflows.templates.problems import Path, Problem
from stepfast.workflows.templates.sites import Origin, Site, Stand, Want

NUMBER = UnionType((INT, DOUBLE))
ERROR = RecordType({"type": STRING, "message": STRING, "code": UnionType((STRING, NULL))}, frozenset(), open=True)
FAILED = RecordType({**ERROR.fields, "key": STRING}, frozenset(), open=True)
ASSET = RecordType(
    {"id": STRING, "version": INT, "uri": STRING, "media_type": STRING, "metadata": MapType(), "tags": ListType(STRING)}
)
WRITTEN = RecordType(
    {
        "id": STRING,
        "media_type": STRING,
        "tags": ListType(STRING),
        "metadata": MapType(),
        "size": INT,
        "digest": STRING,
    }
)
EVENT = {"id": DYN, "type": STRING, "source": DYN, "time": DYN, "subject": DYN}
RUN = RecordType(
    {
        "id": STRING,
        "workflow": STRING,
        "version": INT,
        "generation": INT,
        "subject": UnionType((STRING, NULL)),
        "actor": UnionType((STRING, NULL)),
        "thread_id": UnionType((STRING, NULL)),
    }
)
WANTED: dict[Want, Type] = {
    Want.CONDITION: BOOL,
    Want.ITEMS: ListType(),
    Want.SPAN: UnionType((STRING, INT, DOUBLE)),
    Want.TEXT: STRING,
    Want.KEY: UnionType((STRING, INT, DOUBLE, BOOL)),
    Want.ARGUMENTS: MapType(),
}


class _Steps(Mapping[str, Type]):
    """What is known of each step, worked out when it is asked for."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def __getitem__(self, name: str) -> Type:
        stand = self._inference.by_id[name]
        return RecordType(
            {
                "output": self._inference.output(stand.path),
                "skipped": BOOL,
                "failed": BOOL,
                "state": STRING,
                "error": ERROR,
                "assets": ListType(ASSET),
            },
            open=True,
        )

    def __contains__(self, name: object) -> bool:
        return name in self._inference.by_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._inference.by_id)

    def __len__(self) -> int:
        return len(self._inference.by_id)


class Inference:
    """Works out the types of one template; what is not known is anything, and never a fault."""

    def __init__(
        self, document: Document, form: TemplateForm, compiler: Compiler, broken: set[str], executors: Executors | None
    ) -> None:
        self._document = document
        self._stands = compiler.stands
        self._sites = {site.path: site for site in compiler.sites}
        self._executors = executors or {}
        self._outputs: dict[Path, Type] = {}
        self._types: dict[Path, tuple[Type, list[Problem]]] = {}
        self.by_id = {stand.form.id: stand for stand in compiler.stands.values() if stand.form.id not in broken}
        inputs = {name: _input_type(each) for name, each in form.inputs.items()}
        # What does not exist is told by the pass before; here it is anything.
        self._globals: dict[str, Type] = {
            "inputs": RecordType(inputs, frozenset(inputs), open=True),
            "steps": RecordType(_Steps(self), frozenset(), open=True),
            "run": RUN,
            "tenant": STRING,
        }

    def problems(self) -> Iterator[Problem]:
        """Everything that could not be evaluated, or gives what its place has no use for."""
        for site in self._sites.values():
            given, found = self._type(site)
            yield from found
            if not found:
                yield from self._unwanted(site, given)
        yield from self._of_arguments()

    def _type(self, site: Site) -> tuple[Type, list[Problem]]:
        known = self._types.get(site.path)
        if known is None:
            # Whoever comes back here while it is worked out goes in a circle, and learns nothing.
            self._types[site.path] = (DYN, [])
            names: dict[str, Type] = {name: self._origin(each) for name, each in site.names.items()}
            unknown = {reference[0]: DYN for reference in site.binding.references}
            given, found = site.binding.check({**unknown, **self._globals, **names})
            known = given, [*placed(self._document, site.value, site.path, found)]
            self._types[site.path] = known
        return known

    def _unwanted(self, site: Site, given: Type) -> Iterator[Problem]:
        wanted = WANTED.get(site.want)
        if wanted is not None and not accepts(wanted, given, {}):
            message = f"it gives {given}, and {site.want.value} is needed here"
            yield self._document.problem("expressions", site.path, message)
        elif site.want is Want.SPAN and site.binding.is_constant:
            try:
                span_ms(site.binding.evaluate({}), "it")
            except Invalid as error:
                yield self._document.problem("expressions", site.path, str(error).rstrip("."))

    def _origin(self, origin: Origin) -> Type:
        match origin.kind:
            case "item":
                items = self._type_at((*origin.step, "each"))
                return items.item if isinstance(items, ListType) else DYN
            case "output":
                return self._one_output(self._stands[origin.step]) if origin.step in self._stands else DYN
            case "round":
                return INT
            case "asset":
                return ASSET
            case "assets":
                return ListType(ASSET)
            case "writes":
                return ListType(WRITTEN)
            case "error":
                return ERROR

    def _type_at(self, path: Path) -> Type:
        site = self._sites.get(path)
        return DYN if site is None else self._type(site)[0]

    def output(self, path: Path) -> Type:
        """The type of what a step gives."""
        known = self._outputs.get(path)
        if known is None:
            self._outputs[path] = DYN
            stand = self._stands[path]
            one = self._verb_output(stand)
            if stand.form.catch:
                one = DYN
            self._outputs[path] = known = _joined(ListType(one)) if stand.form.each is not None else one
        return known

    def _one_output(self, stand: Stand) -> Type:
        """What a step gives once, for one item or round; in a loop nothing at first."""
        return DYN if stand.form.loop is not None else self._verb_output(stand)

    def _verb_output(self, stand: Stand) -> Type:
        form, path = stand.form, stand.path
        if form.use is not None:
            return self._executor_output(form.use)
        if form.do is not None:
            return self.output((*path, "do", len(form.do) - 1))
        if form.parallel is not None:
            branches = {each.id: self.output((*path, "parallel", n)) for n, each in enumerate(form.parallel)}
            return _joined(RecordType(branches, frozenset()))
        if form.receive is not None and form.receive.json_schema is not None:
            return type_of_schema(form.receive.json_schema)
        if form.emit is not None:
            return self._type_at((*path, "emit", "data"))
        return self._type_at((*path, "set")) if _is_set(form) else DYN

    def _executor_output(self, name: str) -> Type:
        executor = self._executors.get(name)
        # What our own codecs write has no fields beside those of the schema.
        return DYN if executor is None or executor.output is None else type_of_schema(executor.output, closed=True)

    def _of_arguments(self) -> Iterator[Problem]:
        """Whether what executors are called with can be what they take."""
        for path, stand in self._stands.items():
            executor = self._executors.get(stand.form.use or "")
            given = stand.form.arguments
            if executor is None or not isinstance(given, dict):
                continue
            for name, value in given.items():
                schema = executor.inputs.get("properties", {}).get(name)
                if schema is not None:
                    whole = {**schema, "$defs": executor.inputs.get("$defs", {})}
                    yield from self._of_argument((*path, "with"), name, value, whole)

    def _of_argument(self, path: Path, name: str, value: Any, schema: dict[str, Any]) -> Iterator[Problem]:
        site = self._sites[path]
        place = (*path, name)
        if not any("${" in text for text in _texts_of(value)):
            for inner, message in misfits(schema, value):
                yield self._document.problem("expressions", (*place, *inner), f"it does not fit: {message}")
            return
        given, wanted = self._type(site)[0], type_of_schema(schema)
        field = given.fields.get(name, DYN) if isinstance(given, RecordType) else DYN
        # A model of pydantic's makes a number of an int, and is itself a map; its fields are looked at when it is made.
        if not accepts(_loose(wanted), field, {}) and not accepts(MapType(), field, {}):
            message = f"it gives {field}, and {wanted} is needed"
            yield self._document.problem("expressions", place, message)


def _loose(wanted: Type) -> Type:
    """What can be read as a type, by how values are read."""
    if isinstance(wanted, ListType | RecordType | MapType):
        return ListType() if isinstance(wanted, ListType) else MapType()
    if isinstance(wanted, UnionType):
        return UnionType(tuple(_loose(each) for each in wanted.members))
    if wanted in (INT, DOUBLE, BOOL):
        # Text that is a number is read as one, and so is a whole number as true or false.
        return UnionType((INT, DOUBLE, STRING, BOOL))
    return wanted


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts_of(each)


def _joined(results: Type) -> Type:
    return RecordType({"results": results, "failed": ListType(FAILED), "cancelled": ListType(STRING)})


def _is_set(form: StepForm) -> bool:
    return "set" in form.model_fields_set


def _input_type(form: Input) -> Type:
    match form.kind:
        case "asset":
            return ASSET
        case "collection" | "query":
            return ListType(ASSET)
        case "event":
            data = type_of_schema(form.json_schema) if form.json_schema is not None else DYN
            return RecordType({**EVENT, "data": data}, frozenset(), open=True)
        case "payload":
            return DYN if form.json_schema is None else type_of_schema(form.json_schema)
