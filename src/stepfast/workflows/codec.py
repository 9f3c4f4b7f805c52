"""Values as JSON text by their hints, and back as the same type; never pickle. Only the first use imports pydantic."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import types
import typing
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Any, NotRequired

from stepfast.kernel.errors import Invalid, InvalidDefinition, Unstorable
from stepfast.workflows.culprits import (
    ATOMS,
    MAX_DEPTH,
    MAX_DIGITS,
    Culprit,
    find,
    follow,
    foreign,
    is_native,
    is_unread,
    locate,
    misfit,
    undecodable,
    unread,
    unreadable,
    unwritable,
)
from stepfast.workflows.drift import Comparison, in_many_places, is_equal
from stepfast.workflows.outside import result_hint
from stepfast.workflows.typed_dicts import modern, typed_dict, without_presence
from stepfast.workflows.writing import WRITER_CONFIG, WRITTEN_TUPLES, Writer, checked

if typing.TYPE_CHECKING:
    from pydantic_core import SchemaSerializer

MAX_VALUE_BYTES = 64 * 1024 * 1024
CONFIG: dict[str, Any] = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}
# What such parameters hold when the call has nothing for them.
NOTHING_GIVEN: dict[Any, Any] = {inspect.Parameter.VAR_POSITIONAL: (), inspect.Parameter.VAR_KEYWORD: {}}


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class NativeForm:
    """How values without a hint are written and read: only what JSON itself has."""

    def __init__(self, subject: str) -> None:
        from pydantic_core import from_json, to_json

        self.subject = subject
        self.dump, self.parse = to_json, from_json

    def write(self, value: object) -> str:
        try:
            return self.write_native(checked(value))
        except ValueError as error:
            raise self.refusal(value, error) from error

    def write_native(self, value: object) -> str:
        """A value that JSON itself is known to have."""
        try:
            raw = self.dump(value)
        except ValueError as error:
            raise self.refusal(value, error) from error
        # Written out, as in `text_of`: nearly every value comes by here, twice for each step.
        return raw.decode() if len(raw) <= MAX_VALUE_BYTES else text_of(raw, self.subject)

    def restore_native(self, value: object) -> tuple[str, Any]:
        """The same as `restore`, for a value that JSON itself is known to have."""
        text = self.write_native(value)
        try:
            return text, self.parse(text)
        except ValueError as error:
            raise self.refusal(value, error) from error

    def read(self, text: str) -> Any:
        return self.parse(text)

    def restore(self, value: object) -> tuple[str, Any]:
        """The text, and the value as it will be read from it."""
        text = self.write(value)
        try:
            return text, self.read(text)
        # Serializers and validators of models are user code and may raise anything.
        except Exception as error:
            raise self.refusal(value, error) from error

    def check_readable(self, value: object, text: str) -> None:
        """Refuses numbers and depths that can be written but not read."""
        try:
            self.parse(text, allow_inf_nan=False)
        except ValueError as error:
            raise self.refusal(value, error) from error

    def refusal(self, value: object, error: Exception) -> Invalid:
        culprit = find(value, foreign) or Culprit("", value, f"JSON cannot hold: {error}", "Use another form instead")
        return Unstorable(culprit.told(self.subject))


class HintedForm(NativeForm):
    """A hint, compiled. Field names are written, never aliases, so that every model reads back what it wrote."""

    own_dicts = 0
    """How many TypedDicts of the schema are made here, and so hold nothing that they do not name."""

    def __init__(self, hint: Any, subject: str, misfit: type[Invalid]) -> None:
        from pydantic_core import SchemaSerializer, SchemaValidator

        super().__init__(subject)
        schema, writer, config = schema_of(hint, subject), Writer(), typing.cast(Any, CONFIG)
        # The prebuilt serializer of a model would bypass what the writer tailors.
        self.to_json = SchemaSerializer(writer.tailor(schema), config | WRITER_CONFIG, _use_prebuilt=False).to_json
        self.validator = SchemaValidator(schema, config)
        self.validate_json = self.validator.validate_json
        self.hint = hint
        self.is_exact = writer.is_exact and writer.typed_dicts <= self.own_dicts
        self.misfit = misfit
        self.writer = writer
        self.exact = next((each for each in (*ATOMS, float) if each is (type(None) if hint is None else hint)), None)
        self.plain = plain_kind(hint)

    def write(self, value: object) -> str:
        # What JSON itself has is written as it is without a hint, and at a third of the cost.
        if type(value) is self.plain and is_native(value):
            return self.write_native(value)
        try:
            raw = self.to_json(value, warnings="error", round_trip=True, by_alias=False)
        except Exception as error:
            raise self.refusal(value, error) from error
        text = text_of(raw, self.subject)
        # These words may also stand in an honest string.
        if "NaN" in text or "Infinity" in text:
            self.check_readable(value, text)
        # So may asterisks for a secret, and what pydantic writes for a lone surrogate in a key.
        if ("**********" in text or "\ufffd" in text) and (culprit := find(value, unwritable)):
            raise Unstorable(culprit.told(self.subject))
        return text

    def read(self, text: str) -> Any:
        return self.validate_json(text, by_name=True, by_alias=False)

    def restore(self, value: object) -> tuple[str, Any]:
        if type(value) is self.exact and len(text := super().write(value)) < MAX_DIGITS:
            return text, value
        is_known = type(value) is self.plain and is_native(value)
        text, restored = self.restore_native(value) if is_known else super().restore(value)
        writer = self.writer
        is_strict = writer.has_union or bool(writer.classes and any(map(type.__subclasses__, writer.classes)))
        if is_strict or not (self.is_exact or (not writer.is_partial and is_equal(value, restored))):
            self.check_kept(value, restored, is_strict)
        return text, restored

    def check_kept(self, value: object, restored: object, is_strict: bool) -> None:
        """Refuses a value of which a part came back as another."""
        written_as_tuples = functools.cache(lambda: self.tuples_in(value))
        compared = Comparison(is_strict, not self.writer.hides, lambda part: id(part) in written_as_tuples())
        if culprit := compared.culprit(value, restored):
            raise Unstorable(culprit.told(self.subject))

    def tuples_in(self, value: object) -> Collection[int]:
        """The ids of what is written as a tuple; asked only of tuples that came back as lists."""
        if self.tuple_writer is None:
            return ()
        noted: set[int] = set()
        before = WRITTEN_TUPLES.set(noted)
        try:
            self.tuple_writer.to_json(value, warnings=False, round_trip=True, by_alias=False)
        finally:
            WRITTEN_TUPLES.reset(before)
        # An id does not tell in which of its places a tuple was written as one.
        return noted and noted - in_many_places(value)

    @functools.cached_property
    def tuple_writer(self) -> SchemaSerializer | None:
        """Beside a union only a tuple can come back as a list though its hint says tuple."""
        from pydantic_core import SchemaSerializer

        if not (self.writer.has_union and self.writer.has_tuple):
            return None
        schema, config = schema_of(self.hint, self.subject), typing.cast(Any, CONFIG | WRITER_CONFIG)
        return SchemaSerializer(Writer(notes_tuples=True).tailor(schema), config, _use_prebuilt=False)

    def refusal(self, value: object, error: Exception) -> Invalid:
        culprit = find(value, unwritable) or self.foreign_part(value, error)
        if culprit is None and "utf-8" in str(error):
            culprit = find(value, undecodable)
        if culprit is not None:
            return Unstorable(culprit.told(self.subject))
        return self.misfit((find(value, unreadable) or self.misfitting_part(value, error)).told(self.subject))

    def foreign_part(self, value: object, error: Exception) -> Culprit | None:
        part = marked_part("foreign", value, error)
        return part and find(part.value, foreign, part.path)

    def misfitting_part(self, value: object, error: Exception) -> Culprit:
        """Where the value does not fit its hint, by reading strictly what it would be written as."""
        from pydantic import ValidationError

        part, reason = follow(value, re.findall(r"field_name='(\w+)'", str(error))[:1]), in_short(error)
        if marked := marked_part("misfit", value, error):
            part = marked.path, marked.value
        try:
            raw = self.to_json(value, warnings=False, round_trip=True, by_alias=False)
            if isinstance(error, ValueError):
                self.validate_json(raw, strict=True, by_name=True, by_alias=False)
        except ValidationError as invalid:
            first = invalid.errors(include_url=False, include_context=False)[0]
            part, reason = follow(value, first["loc"]), first["msg"].rstrip(".")
        except ValueError as other:
            reason = in_short(other)
            part = self.unknown_part(value, other) or part
        # A class is not looked into here, but what misfits in one is mostly a text or number.
        if type(part[1]) not in ATOMS and is_unread(error) and self.validator.isinstance_python(value, strict=True):
            return unread(*part)
        return misfit(*part, reason)

    def unknown_part(self, value: object, error: ValueError) -> tuple[str, object] | None:
        """The first part of a class that pydantic has no form for: it names the class, and no place."""
        if not (named := re.search(r"unknown type: (<class '.*'>)", str(error))):
            return None
        found = locate(value, lambda candidate: repr(type(candidate)) == named[1])
        return found and (found.path, found.value)


class ArgumentsForm(HintedForm):
    """All arguments of a function; texts and whole numbers alone come back as they went, and cost a third."""

    own_dicts = 1

    def __init__(self, fields: dict[str, Any], what: str) -> None:
        try:
            super().__init__(typed_dict("Arguments", fields), f"the arguments of {what}", Invalid)
        except InvalidDefinition:
            # All hints together say nothing; the one that cannot be stored alone is the one to name.
            for name, hint in fields.items():
                schema_of(without_presence(hint), f"the argument {name!r} of {what}")
            raise
        kinds = [without_presence(hint) for hint in fields.values()]
        self.atoms = kinds if all(any(kind is atom for atom in ATOMS) for kind in kinds) else []

    def restore(self, value: Any) -> tuple[str, Any]:
        # They are bound in the order of the parameters.
        if (
            self.atoms
            and [*map(type, value.values())] == self.atoms
            and len(text := self.write_native(value)) < MAX_DIGITS
        ):
            return text, value
        return super().restore(value)


def marked_part(kind: str, value: object, error: Exception) -> Culprit | None:
    """The part of a value that a function of the writer's has refused: its error names it by its id."""
    marked = re.search(rf"{kind} part (\d+)", str(error))
    return marked and locate(value, lambda candidate: id(candidate) == int(marked[1]))


def plain_kind(hint: Any) -> type | None:
    """The kind of value that a hint asks for which says no more of it than JSON does."""
    if typing.get_origin(hint) is dict and typing.get_args(hint) == (str, Any):
        return dict
    return list if typing.get_origin(hint) is list and typing.get_args(hint) == (Any,) else None


def in_short(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        told = [f"{'.'.join(map(str, each['loc'])) or 'value'}: {each['msg']}" for each in errors[:3]]
        return "; ".join(told) + (f"; and {len(errors) - 3} more" if len(errors) > 3 else "")
    expected = re.search(r"Expected `(.*?)` -", str(error))
    return f"expected {expected[1]}" if expected else f"{type(error).__name__}: {error}"[:300]


def text_of(raw: bytes, subject: str) -> str:
    if len(raw) > MAX_VALUE_BYTES:
        size = f"as JSON it has {len(raw):,} bytes, and the limit is {MAX_VALUE_BYTES:,}"
        raise Unstorable(f"{subject} cannot be stored: {size}. Keep it in a file, and use its address instead.")
    return raw.decode()


def schema_of(hint: Any, subject: str) -> Any:
    """pydantic's schema of a hint; a list around it carries our config to dataclasses, TypedDicts and plain types."""
    from pydantic import PydanticUserError, TypeAdapter

    try:
        schema: Any = dict(
            typing.cast(Any, TypeAdapter)(types.GenericAlias(list, (modern(hint),)), config=CONFIG).core_schema
        )
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        reason = str(error).split("\n")[0].split(". ")[0].rstrip(".")
        remedy = "Use plain types, dataclasses, TypedDicts or pydantic models."
        raise InvalidDefinition(f"{subject} cannot be stored by its hint {hint!r}: {reason}. {remedy}") from error
    if schema["type"] == "definitions":
        return schema | {"schema": schema["schema"]["items_schema"]}
    return schema["items_schema"]


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A function's hints, with names looked up in its module and in what it closes over."""
    target: Any = inspect.unwrap(function)
    hints: dict[str, Any] = {}
    names = {each.__name__: each for each in getattr(target, "__type_params__", ())} | closure_of(target)
    for name, hint in getattr(target, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: hint})
        try:
            hints |= typing.get_type_hints(alone, getattr(target, "__globals__", {}), names, include_extras=True)
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            part = f"{target.__qualname__}: the hint {hint!r} of " + ("its result" if name == "return" else repr(name))
            raise InvalidDefinition(f"{part} cannot be resolved: {error}. Import it in the module.") from error
    return hints


def closure_of(target: Any) -> dict[str, Any]:
    names = target.__code__.co_freevars if hasattr(target, "__code__") else ()
    cells = zip(names, getattr(target, "__closure__", None) or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}


class Codec:
    """What values and arguments have in common: compile the hints once, then write, read, or both."""

    def __init__(self, what: str, compile_form: Callable[[], NativeForm]) -> None:
        self.what = what
        self._compile = compile_form

    @functools.cached_property
    def _form(self) -> NativeForm:
        return self._compile()

    def prepare(self) -> None:
        """Refuse a hint that nothing could be stored by before anything is done for a value of it."""
        self._form  # noqa: B018 - compiled once

    def encode(self, value: Any) -> str:
        text = self._form.write(value)
        # Shorter text is neither too deep nor too long a number to be read back.
        if len(text) > MAX_DEPTH:
            self._form.check_readable(value, text)
        return text

    def decode(self, text: str) -> Any:
        form = self._form
        try:
            return form.read(text)
        except Exception as error:
            raise Invalid(f"{form.subject} cannot be read from JSON: {in_short(error)}.") from error

    def restore(self, value: Any) -> tuple[str, Any]:
        return self._form.restore(value)


class ValueCodec(Codec):
    """One value by its hint: a result, a signal, an event."""

    def __init__(self, hint: Any, what: str) -> None:
        super().__init__(what, lambda: form_of(hint, what))

    @classmethod
    def for_result(cls, function: Callable[..., Any], what: str) -> ValueCodec:
        """The codec of what a function returns; its hint is resolved at the first use."""
        codec = cls(Any, what)
        codec._compile = lambda: form_of(result_hint(hints_of(function).get("return", Any)), what)
        return codec


def form_of(hint: Any, subject: str) -> NativeForm:
    unhinted = any(hint is each for each in (inspect.Parameter.empty, Any, object))
    return NativeForm(subject) if unhinted else HintedForm(hint, subject, Unstorable)


class ArgumentsCodec(Codec):
    """All arguments of one function, by name, as one JSON object; one that does not fit its hint is `Invalid`."""

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        self._parameters = parameters = tuple(self._signature.parameters.values())
        # Without this codec itself: a definition that nobody has any more goes at once, and with all that it names.
        super().__init__(what, lambda: ArgumentsForm(fields_of(function, parameters), what))
        self._names = tuple(self._signature.parameters)
        self.is_plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in self._parameters)
        """Whether all of them can be given by name."""
        self._count = len(self._names) if self.is_plain else -1
        absent = {each.name: NOTHING_GIVEN.get(each.kind, each.default) for each in parameters}
        self._defaults = {name: value for name, value in absent.items() if value is not inspect.Parameter.empty}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by parameter name, in the order of the parameters, defaults applied."""
        if len(args) == self._count and not kwargs:
            return dict(zip(self._names, args, strict=False))
        if not args and self.is_plain and tuple(kwargs) == self._names:
            return kwargs
        if len(args) < self._count:
            given = dict(zip(self._names, args, strict=False))
            bound = {**self._defaults, **given, **kwargs}
            if bound.keys() == self._signature.parameters.keys() and given.keys().isdisjoint(kwargs):
                return {name: bound[name] for name in self._names}
        arguments = self._bound(args, kwargs)
        arguments.apply_defaults()
        return dict(arguments.arguments)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise Invalid(f"{self.what}: {error}. Its parameters are {self._signature}.") from error

    def decode(self, text: str) -> dict[str, Any]:
        """The typed arguments; a parameter that the stored text does not know has its default."""
        complete = self._defaults | super().decode(text)
        return {name: complete[name] for name in self._names if name in complete}

    def missing(self, positional: int, keywords: Collection[str]) -> list[str]:
        """Parameters that need a value and get none, when so many values and these keywords are given."""
        needed = [each for each in self._parameters[positional:] if each.default is each.empty]
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [each.name for each in needed if each.kind not in variable and each.name not in keywords]

    def from_json(self, args: Iterable[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Typed arguments of what came as plain JSON, without the defaults of those that did not come."""
        given = self._bound(tuple(args), kwargs)
        read = super().decode(ValueCodec(Any, f"the arguments of {self.what}").encode(given.arguments))
        return inspect.BoundArguments(self._signature, OrderedDict(read))

    def restore_json(self, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Arguments by name that are plain JSON: as text, and as the function wants them."""
        if not self._signature.parameters.keys() >= given.keys() and self.is_plain:
            unknown = min(given.keys() - self._signature.parameters.keys())
            raise Invalid(f"{self.what} has no parameter {unknown!r}. Its parameters are {self._signature}.")
        text = JSON.encode(given)
        return text, self.decode(text)

    def knows(self, name: str) -> bool:
        """Whether there is a parameter of that name."""
        return name in self._signature.parameters

    def read_one(self, name: str, value: Any) -> Any:
        """The typed value of one parameter of what came as plain JSON."""
        codec = ValueCodec(hints_of(self._function).get(name, Any), f"{name!r} of {self.what}")
        return codec.decode(JSON.encode(value))

    def apply(self, function: Callable[..., Any], bound: dict[str, Any]) -> Any:
        if self.is_plain:
            return function(**bound)
        given = inspect.BoundArguments(self._signature, OrderedDict(bound))
        return function(*given.args, **given.kwargs)


def fields_of(function: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> dict[str, Any]:
    """The hints of a function's parameters, as those of the fields of all its arguments."""
    hints = hints_of(function)
    return {each.name: field_hint(each, hints.get(each.name, Any)) for each in parameters}


def field_hint(parameter: inspect.Parameter, hint: Any) -> Any:
    """The hint of a parameter as a field of all arguments; one with a default may be absent from older text."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return NotRequired[types.GenericAlias(tuple, (hint, ...))]
    if parameter.kind is parameter.VAR_KEYWORD:
        is_unpacked = typing.get_origin(hint) is typing.Unpack
        return NotRequired[typing.get_args(hint)[0] if is_unpacked else types.GenericAlias(dict, (str, hint))]
    fitting = typing.Optional[hint] if parameter.default is None else hint  # noqa: UP045
    return hint if parameter.default is parameter.empty else NotRequired[fitting]


JSON = ValueCodec(Any, "what is given as JSON")
"""For values that are JSON already."""
