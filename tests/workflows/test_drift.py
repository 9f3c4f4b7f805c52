"""A value that would come back changed is refused with the path to the part that changes; what is equal is not."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, cast
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema

from stepfast.kernel.errors import Unstorable
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec

WHAT = "the result of step 'charge'"
BERLIN = ZoneInfo("Europe/Berlin")
Content = TypeVar("Content")
PAIR = (1, 2)


class Mood(StrEnum):
    GOOD = "good"


class Answer(Enum):
    YES = "yes"
    NEITHER = None


MaybeCount = RootModel[int | None]


@dataclasses.dataclass
class Counted:
    name: str
    count: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass
class Doubled:
    number: int
    double: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.double = 2 * self.number


@dataclasses.dataclass
class Cached:
    number: int
    cache: dict[str, int] = dataclasses.field(init=False, compare=False, default_factory=dict)


@dataclasses.dataclass(eq=False)
class Alone:
    name: str


@dataclasses.dataclass(eq=False, frozen=True)
class Frozen:
    name: str


@dataclasses.dataclass
class Flattering(Counted):
    """Says that it is equal to all else."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass
class Touchy:
    name: str

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True)
class TouchyKey:
    name: str

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")

    def __hash__(self) -> int:
        return 1


class Hiding(BaseModel):
    number: int = 1
    hidden: int | None = Field(default=5, exclude=True)


class Twice(Enum):
    """Its values are the same text once they are keys."""

    NUMBER = 1
    TEXT = "1"


class Holder(BaseModel):
    held: int | None = Field(default=None, exclude=True)


class Staged(BaseModel):
    stage: Twice = Field(default=Twice.NUMBER, exclude=True)


class Secretive(BaseModel):
    password: str = Field(default="", exclude=True)


class Yearly(BaseModel):
    at: datetime

    @field_serializer("at")
    def shorten(self, at: datetime) -> str:
        return at.strftime("%Y-01-01")


class Climbing(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def climb(cls, number: int) -> int:
        return number + 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class HalfEncoded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")

    data: bytes


class Trimming(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    name: str


def untrimmed() -> Trimming:
    value = Trimming(name="a")
    value.name = " a "
    return value


class Kept(BaseModel):
    number: int
    _seen: int = PrivateAttr(default=0)


class FrozenKept(Kept):
    model_config = ConfigDict(frozen=True)


class Handle:
    """Has no equality but identity."""


class Holding(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    handle: Handle = Field(default_factory=Handle, exclude=True)
    ratio: float = Field(default=float("nan"), exclude=True)


class Member(BaseModel):
    name: str
    team: Team | None = Field(default=None, exclude=True, repr=False)


class Team(BaseModel):
    members: list[Member]

    @model_validator(mode="after")
    def adopt(self) -> Team:
        for member in self.members:
            member.team = self
        return self


class Box(BaseModel, Generic[Content]):
    content: Content


class Street(TypedDict):
    name: str


class Town(TypedDict):
    streets: list[Street]


class Spot(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Route:
    """Its defaults are one and the same object, as all empty tuples are."""

    stops: Sequence[int] = ()
    tolls: tuple[int, ...] = ()
    number: int | str = 1


class Foreign:
    """Stored as what it holds."""

    def __init__(self, held: Any) -> None:
        self.held = held

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(lambda value: value.held)
        return core_schema.no_info_plain_validator_function(cls, serialization=written)


class Vector(Foreign):
    """Compares part by part, as arrays do."""

    def __eq__(self, other: object) -> Any:
        return [one == two for one, two in zip(self.held, cast(Vector, other).held, strict=True)]

    def __ne__(self, other: object) -> Any:
        return [one != two for one, two in zip(self.held, cast(Vector, other).held, strict=True)]

    __hash__ = None  # type: ignore[assignment]


class TouchyName(Foreign):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")

    def __hash__(self) -> int:
        return 1


class Both(TypedDict):
    either: list[int] | tuple[int, ...]
    any_sequence: Sequence[int]
    anything: Any


def counted(count: int, kind: type[Counted] = Counted) -> Counted:
    value = kind("a")
    value.count = count
    return value


def seen(kind: type[Kept], number: int = 1) -> Kept:
    value = kind(number=number)
    value.__pydantic_private__ = {"_seen": 9}
    return value


DRIFTS: list[tuple[Any, Any, str]] = [
    (Answer | None, Answer.NEITHER, "it is an object (Answer), which would come back as NoneType. Give that member a"),
    (list[Answer | None], [None, Answer.NEITHER], "at [1] is an object (Answer), which would come back as NoneType"),
    (Literal[Answer.NEITHER] | None, Answer.NEITHER, "it is an object (Answer), which would come back as NoneType"),
    (MaybeCount | None, MaybeCount(None), "which would come back as NoneType"),
    (Counted, counted(7), "at .count is 7 (int), which would come back as 0"),
    (list[Counted], [counted(0), counted(7)], "at [1].count is 7 (int), which would come back as 0"),
    (Flattering, counted(7, Flattering), "at .count is 7 (int), which would come back as 0"),
    (Hiding, Hiding(hidden=9), "at .hidden is a value (int), which would come back as another"),
    (Hiding, Hiding(hidden=None), "at .hidden is a value (NoneType), which would come back as int. Mind exclude"),
    (Holder, Holder(held=5), "at .held is a value (int), which would come back as NoneType. Mind exclude"),
    (Iterable[int], (number for number in [1]), "ValidatorIterator. Such a value cannot be stored"),
    (Staged, Staged(stage=Twice.TEXT), "at .stage is a value (Twice), which would come back as another"),
    (dict[str, Hiding], {"a b": Hiding(hidden=9)}, "at ['a b'].hidden is a value (int)"),
    (Yearly, Yearly(at=datetime(2026, 5, 6, tzinfo=UTC)), "at .at is a value (datetime), which would come back as ano"),
    (Climbing, Climbing(number=1), "at .number is 2 (int), which would come back as 3"),
    (Open, Open.model_validate({"at": date(2026, 1, 1)}), "at .at is an object (date), which would come back as str"),
    (HalfEncoded, HalfEncoded(data=b"abc"), "at .data is b'abc' (bytes), which would come back as another"),
    (Trimming, untrimmed(), "at .name is ' a ' (str), which would come back as 'a'"),
    (Street, {"name": "a", "number": 2}, "at .number is 2 (int), which would not come back"),
    (Town, {"streets": [{"name": "a"}, {"name": "b", "of": 1}]}, "at .streets[1].of is 1 (int), which would not come"),
    (Street | None, {"name": "a", "number": 2}, "at .number is 2 (int), which would not come back"),
    (dict[str | None, int], {None: 1}, "at [None] (the key) is None (NoneType), which would come back as str"),
    (dict[int | str, int], {1: 1}, "at [1] (the key) is 1 (int), which would come back as str. Use keys of one"),
    (dict[int | str, int], {1: 1, "1": 2}, "at [1] is 1 (int), which would not come back"),
    (dict[Twice, int], {Twice.NUMBER: 1}, "(the key) is an object (Twice), which would come back as another"),
    (list[int] | tuple[int, ...], (1, 2), "it is a value of 2 parts (tuple), which would come back as list"),
    (tuple[int, ...] | list[int], (1, 2), "it is a value of 2 parts (tuple), which would come back as list"),
    (list[list[int]] | list[tuple[int, ...]], [(1, 2)], "at [0] is a value of 2 parts (tuple), which would come back"),
    (Both, {"either": (1,), "any_sequence": (2,), "anything": (3,)}, "at .either is a value of 1 part (tuple)"),
    (float, 2**60 + 1, "it is 1152921504606846977 (int), which would come back as 1.152921504606847e+18"),
    (date, datetime(2026, 1, 2, 3, tzinfo=UTC), "it is an object (datetime), which"),
    (re.Pattern[str], re.compile("a", re.IGNORECASE), "(Pattern), which would come back as another"),
]


@pytest.mark.parametrize(("hint", "value", "told"), DRIFTS, ids=[str(number) for number in range(len(DRIFTS))])
def test_a_value_that_would_come_back_changed_is_refused_with_its_path(hint, value, told):
    with pytest.raises(Unstorable) as refusal:
        ValueCodec(hint, WHAT).restore(value)
    assert str(refusal.value).startswith(f"{WHAT} cannot be stored: ")
    assert told in str(refusal.value)


def test_a_changed_argument_is_refused_with_its_path():
    def pay(order: Counted, street: Street) -> None: ...

    arguments = ArgumentsCodec(pay, "step 'pay'")
    with pytest.raises(Unstorable, match=r"arguments of step 'pay' cannot be stored: at \.order\.count is 7"):
        arguments.restore(arguments.bind((counted(7), {"name": "a"}), {}))
    with pytest.raises(Unstorable, match=r"at \.street\.number is 2 \(int\), which would not come back"):
        arguments.restore(arguments.bind((counted(0), {"name": "a", "number": 2}), {}))


def test_what_is_excluded_is_not_told_in_the_refusal():
    with pytest.raises(Unstorable, match=r"at \.password is a value \(str\)") as refusal:
        ValueCodec(Secretive, WHAT).restore(Secretive(password="hunter2"))
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("default", [{}, {"other": 1}], ids=["gone", "another"])
def test_keys_of_what_is_excluded_are_not_told_in_the_refusal_either(default):
    class Keyring(BaseModel):
        users: dict[str, int] = Field(default=default, exclude=True)

    with pytest.raises(Unstorable, match=r"at \.users\[a key\]") as refusal:
        ValueCodec(Keyring, WHAT).restore(Keyring(users={"hunter2": 1}))
    assert "hunter2" not in str(refusal.value)


def test_a_part_of_a_set_that_changes_is_refused():
    class Fading(BaseModel):
        model_config = ConfigDict(frozen=True)

        number: int = Field(default=0, exclude=True)

    with pytest.raises(Unstorable, match=r"at \[0\] is an? \w+ \(.*Fading\), which would come back as another"):
        ValueCodec(set[Fading], WHAT).restore({Fading(number=1)})
    with pytest.raises(Unstorable, match="which would come back as"):
        ValueCodec(set[Path | str], WHAT).restore({str(number) for number in range(500)})


SAME: list[tuple[Any, Any]] = [
    (Answer, Answer.NEITHER),
    (list[Answer | None], [None, Answer.YES]),
    (MaybeCount, MaybeCount(None)),
    (MaybeCount | None, MaybeCount(3)),
    (Counted, counted(0)),
    (Doubled, Doubled(4)),
    (Alone, Alone("a")),
    (list[Alone], [Alone("a"), Alone("b")]),
    (set[Frozen], {Frozen("a"), Frozen("b")}),
    (Flattering, counted(0, Flattering)),
    (Touchy, Touchy("a")),
    (list[Touchy], [Touchy("a")]),
    (set[TouchyKey], {TouchyKey("a")}),
    (Hiding, Hiding(hidden=5)),
    (Kept, seen(Kept)),
    (list[Kept], [seen(Kept)]),
    (set[FrozenKept], {seen(FrozenKept), seen(FrozenKept, 2)}),
    (Holding, Holding()),
    (Team, Team(members=[Member(name="a"), Member(name="b")])),
    (Box[Decimal], Box[Decimal](content=Decimal("1.10"))),
    (Open, Open.model_validate({"a": [1, {"b": None}]})),
    (datetime, datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)),
    (list[datetime], [datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)]),
    (dict[datetime, int], {datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1): 1}),
    (dict[datetime, int], {datetime(2026, 1, day, tzinfo=BERLIN): day for day in (1, 2)}),
    (set[datetime], {datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), datetime(2026, 1, 1, tzinfo=UTC)}),
    (datetime, datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
    (Sequence[int], (1, 2)),
    (Sequence[int] | None, (1, 2)),
    (Sequence[int], deque([1, 2])),
    (Sequence[int], Spot(1, 2)),
    (Route, Route()),
    (list[Route], [Route(), Route(PAIR, PAIR), Route([1], PAIR)]),
    (list[Vector], [Vector([1, 2]), Vector([])]),
    (dict[TouchyName, int], {TouchyName("a"): 1}),
    (Both, {"either": [1], "any_sequence": (2,), "anything": (3, (4,))}),
    (list[Any], [(1, 2), {"a": (3,)}]),
    (dict[str, list[Any]], {"a": [(1, 2), ((3,),)]}),
    (list[int] | tuple[str, ...], ("a",)),
    (str, Mood.GOOD),
    (list[str], [Mood.GOOD]),
    (dict[str, int], {Mood.GOOD: 1}),
    (list[int], [True]),
    (list[float], [1, 2.5]),
    (dict[str, int], defaultdict(int, a=1)),
    (dict[str, int], OrderedDict(b=1, a=2)),
    (Counter[str], Counter("aab")),
    (deque[int], deque([1, 2])),
    (deque[datetime], deque([datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)])),
    (AbstractSet[int], frozenset({1, 2})),
    (Street, {"name": "a"}),
]


@pytest.mark.parametrize(("hint", "value"), SAME, ids=[str(number) for number in range(len(SAME))])
def test_what_comes_back_equal_is_stored(hint, value):
    value_codec = ValueCodec(hint, WHAT)
    text, restored = value_codec.restore(value)
    assert value_codec.encode(restored) == text


def test_a_field_that_is_neither_given_nor_compared_comes_back_as_its_default():
    value = Cached(1)
    value.cache["a"] = 1
    assert ValueCodec(Cached, WHAT).restore(value)[1].cache == {}
