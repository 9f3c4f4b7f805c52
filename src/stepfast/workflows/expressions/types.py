"""What is known of a value before there is one: types, and how they go together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat


class Type:
    """The root of all types; see the constants and classes below."""


@dataclass(frozen=True)
class SimpleType(Type):
    """A type without parts."""

    name: str

    def __str__(self) -> str:
        return self.name


DYN = SimpleType("dyn")
"""Nothing is known: allowed everywhere, and checked when it is evaluated."""
NULL = SimpleType("null")
BOOL = SimpleType("bool")
INT = SimpleType("int")
UINT = SimpleType("uint")
DOUBLE = SimpleType("double")
STRING = SimpleType("string")
BYTES = SimpleType("bytes")
TIMESTAMP = SimpleType("timestamp")
DURATION = SimpleType("duration")
TYPE = SimpleType("type")


@dataclass(frozen=True)
class ListType(Type):
    """A list whose items are all of one type."""

    item: Type = DYN

    def __str__(self) -> str:
        return f"list({self.item})"


@dataclass(frozen=True)
class MapType(Type):
    """A map with any keys."""

    value: Type = DYN
    key: Type = STRING

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


@dataclass(frozen=True)
class RecordType(Type):
    """A map whose keys are known; an open one may have others beside them."""

    fields: Mapping[str, Type]
    required: frozenset[str] = field(default=frozenset())
    open: bool = False

    def __str__(self) -> str:
        return "map"


@dataclass(frozen=True)
class UnionType(Type):
    """One of several types; what is wrong for all of them is wrong."""

    members: tuple[Type, ...]

    def __str__(self) -> str:
        return " or ".join(str(member) for member in self.members)


@dataclass(frozen=True)
class Placeholder(Type):
    """Whatever type an argument has, in the description of a function."""

    name: str

    def __str__(self) -> str:
        return self.name


NUMBER = UnionType((INT, UINT, DOUBLE))
A = Placeholder("A")
B = Placeholder("B")

Filling = dict[str, Type]

_MOST_MEMBERS = 8


def join(types: Iterable[Type]) -> Type:
    """The narrowest type that we have for a value that may be of any of these."""
    members: list[Type] = []
    for member in _flat(types):
        if member == DYN:
            return DYN
        _add(members, member)
    if not members or len(members) > _MOST_MEMBERS:
        return DYN
    return members[0] if len(members) == 1 else UnionType(tuple(members))


def _flat(types: Iterable[Type]) -> Iterator[Type]:
    for member in types:
        if isinstance(member, UnionType):
            yield from member.members
        else:
            yield member


def _add(members: list[Type], member: Type) -> None:
    if isinstance(member, ListType):
        for place, other in enumerate(members):
            if isinstance(other, ListType):
                members[place] = ListType(join((other.item, member.item)))
                return
    if member not in members:
        members.append(member)


def alternatives(given: Type) -> tuple[Type, ...]:
    """The types that a value may have, each on its own."""
    return given.members if isinstance(given, UnionType) else (given,)


def values_of(record: RecordType) -> Type:
    """What any of its keys may hold."""
    return DYN if record.open else join(record.fields.values())


def accepts(wanted: Type, given: Type, filling: Filling) -> bool:
    """Whether a value of one type may be good where another is wanted; fills in placeholders on the way."""
    # Most are such; to compare names is several times quicker than to compare dataclasses.
    if type(wanted) is SimpleType and type(given) is SimpleType:
        return wanted.name == given.name or DYN.name in (wanted.name, given.name)
    if isinstance(given, UnionType):
        # All of them are looked at, as each may fill a placeholder.
        return any(list(map(accepts, repeat(wanted), given.members, repeat(filling))))
    if isinstance(wanted, UnionType):
        return any(list(map(accepts, wanted.members, repeat(given), repeat(filling))))
    if isinstance(wanted, Placeholder):
        filling[wanted.name] = join((filling[wanted.name], given)) if wanted.name in filling else given
        return True
    if wanted == DYN or given == DYN:
        return _fill(wanted, filling)
    return _accepts_parts(wanted, given, filling)


def _fill(wanted: Type, filling: Filling) -> bool:
    match wanted:
        case ListType():
            accepts(wanted.item, DYN, filling)
        case MapType():
            accepts(wanted.key, DYN, filling)
            accepts(wanted.value, DYN, filling)
    return True


def _accepts_parts(wanted: Type, given: Type, filling: Filling) -> bool:
    match wanted, given:
        case ListType(), ListType():
            return accepts(wanted.item, given.item, filling)
        case MapType(), MapType():
            return accepts(wanted.key, given.key, filling) and accepts(wanted.value, given.value, filling)
        case MapType(), RecordType():
            return accepts(wanted.key, STRING, filling) and accepts(wanted.value, values_of(given), filling)
        case _:
            return wanted == given


def filled(result: Type, filling: Filling) -> Type:
    """A function's result with what its placeholders have turned out to be."""
    match result:
        case Placeholder():
            return filling.get(result.name, DYN)
        case ListType():
            return ListType(filled(result.item, filling))
        case MapType():
            return MapType(filled(result.value, filling), filled(result.key, filling))
        case _:
            return result
