"""Values come back as the type their hint says, or are refused with the path to what cannot be stored."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import subprocess
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Required, TypedDict, TypeVar, Unpack
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr, RootModel, SecretStr, computed_field

from stepfast.kernel.errors import Invalid, InvalidDefinition, Unstorable
from stepfast.workflows import codec
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec, digest

if typing.TYPE_CHECKING:
    from collections import Counter as OnlyForTheTypeChecker

WHAT = "the result of step 'charge'"
Content = TypeVar("Content")


class Colour(Enum):
    RED = "red"
    TWO = 2


class Corner(Enum):
    LEFT = (0, 1)
    RIGHT = (1, 1)


class Size(IntEnum):
    SMALL = 1


class Mood(StrEnum):
    GOOD = "good"


class Item(BaseModel):
    price: float | None = None
    count: int = 0


class GiftItem(Item):
    ribbon: str = "blue"


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    items: list[Item]
    number: int = Field(alias="orderNumber")
    buyer: str = Field(default="ann", validation_alias=AliasChoices("who", "whom"), serialization_alias="Buyer")
    _seen: int = PrivateAttr(default=3)

    @computed_field
    def total(self) -> int:
        return len(self.items)


class Swapped(BaseModel):
    left: int = Field(alias="right")
    right: int = Field(alias="left")


class Box(BaseModel, Generic[Content]):
    content: Content


class Bag(RootModel[list[int]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    anything: Any = None
    tags: frozenset[str] = frozenset()


class Raw(BaseModel):
    data: bytes


class RawAsBase64(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    data: bytes


class Login(BaseModel):
    password: SecretStr


class Node(BaseModel):
    next: Node | None = None


@dataclasses.dataclass
class Parcel:
    data: bytes
    weight: float = 1.0
    note: Any = None
    parts: list[Any] = dataclasses.field(default_factory=list)
    facts: dict[Any, Any] | None = None


class Tally(BaseModel):
    counts: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    inside: Place | None = None


@dataclasses.dataclass(slots=True)
class Route:
    stops: list[Place]


class Address(TypedDict):
    street: str
    photo: bytes


class Partial(TypedDict, total=False):
    street: Required[str]
    photo: bytes


class Branch(TypedDict):
    name: str
    branches: NotRequired[list[Branch]]
    leaf: NotRequired[Leaf]


class Leaf(TypedDict):
    on: Branch | None


class Point(NamedTuple):
    x: int
    mark: bytes = b""


BERLIN = ZoneInfo("Europe/Berlin")
ROUND_TRIPS: list[tuple[Any, Any]] = [
    (None, None),
    (bool, True),
    (int, -5),
    (int, 10**400),
    (float, 0.1 + 0.2),
    (float, -0.0),
    (str, "NUL \0, é, ☃, 😀, NaN, Infinity and **********"),
    (bytes, bytes(range(256))),
    (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    (datetime, datetime(2026, 7, 2, 3, 4, tzinfo=BERLIN)),
    (datetime, datetime(2026, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001
    (date, date(1, 1, 1)),
    (time, time(1, 2, 3, 4)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (timedelta, timedelta.max),
    (Decimal, Decimal("-0.00")),
    (Decimal, Decimal("1E+400")),
    (UUID, UUID(int=7)),
    (Path, Path("/a/b")),
    (Colour, Colour.RED),
    (Colour, Colour.TWO),
    (Size, Size.SMALL),
    (Mood, Mood.GOOD),
    (Literal["a", 1], 1),
    (Order, Order.model_validate({"items": [Item(price=1.5)], "orderNumber": 7, "who": "bob"})),
    (Swapped, Swapped(left=1, right=2)),
    (Box[Item], Box[Item](content=Item())),
    (Box[bytes], Box[bytes](content=b"text")),
    (RawAsBase64, RawAsBase64(data=b"\xff")),
    (Bag, Bag([1, 2])),
    (Loose, Loose.model_validate({"anything": {"a": [1, None]}, "tags": ["c", "a", "b"], "more": 1})),
    (Node, Node(next=Node(next=Node()))),
    (Parcel, Parcel(b"\xff\x00", note={"a": 1}, parts=[1, "b"], facts={"c": 2.5})),
    (Place, Place("room", Place("house"))),
    (Route, Route([Place("a"), Place("b", Place("c"))])),
    (Address, {"street": "a", "photo": b"\xff"}),
    (Partial, {"street": "a"}),
    (Branch, {"name": "a", "branches": [{"name": "b", "branches": []}, {"name": "c", "leaf": {"on": {"name": "d"}}}]}),
    (Leaf | None, {"on": {"name": "a", "leaf": {"on": None}}}),
    (list[Partial], [{"street": "a", "photo": b"\xfe"}]),
    (Partial | None, {"street": "a"}),
    (Point, Point(1, b"\xff")),
    (int | str, "5"),
    (int | str, 5),
    (Item | None, None),
    (Item | None, Item(count=2)),
    (typing.Optional[Parcel], Parcel(b"\xff")),  # noqa: UP045
    (Cat | Dog, Dog()),
    (Annotated[Cat | Dog, Field(discriminator="kind")], Dog()),
    (list[Place], [Place("a")]),
    (dict[str, Item], {"a": Item()}),
    (dict[int, str], {1: "a", 2: "b"}),
    (dict[date, bytes], {date(2026, 1, 1): b"\xff"}),
    (tuple[int, ...], (1, 2, 3)),
    (tuple[int, str], (1, "a")),
    (set[str], {"c", "a", "b"}),
    (frozenset[Place], frozenset({Place("a"), Place("b")})),
    (set[bytes], {b"\xff", b"a"}),
    (list[set[int]], [{3, 1, 2}]),
    (Sequence[int], [1, 2]),
    (Mapping[str, int], {"a": 1}),
    (list, [1, [2, None]]),
    (dict, {"a": {"b": [True]}}),
    (Any, {"a": [1, 2.5, "x", None, True, {"b": []}]}),
    (object, [1]),
]


@pytest.mark.parametrize(("hint", "value"), ROUND_TRIPS, ids=[str(number) for number in range(len(ROUND_TRIPS))])
def test_a_value_comes_back_as_the_same_type(hint, value):
    value_codec = ValueCodec(hint, WHAT)
    text, restored = value_codec.restore(value)
    assert restored == value
    assert type(restored) is type(value)
    assert value_codec.encode(value) == text
    assert value_codec.encode(restored) == text
    assert value_codec.decode(text) == value


@pytest.mark.parametrize(
    ("hint", "value", "restored"),
    [
        (Any, (1, (2,)), [1, [2]]),
        (float, 3, 3.0),
        (float | str, 3, 3.0),
        (Literal["none"] | float | None, 3, 3.0),
        (float | dict[str, Any], 3, 3.0),
        (Annotated[float, Field(gt=0)] | bool, 3, 3.0),
        (int, True, 1),
        (str, Mood.GOOD, "good"),
        (Sequence[int], (1, 2), [1, 2]),
    ],
)
def test_a_value_close_to_its_hint_comes_back_as_the_hint_says(hint, value, restored):
    value_codec = ValueCodec(hint, WHAT)
    text, found = value_codec.restore(value)
    assert (found, type(found)) == (restored, type(restored))
    assert value_codec.encode(found) == text


@pytest.mark.parametrize(
    ("hint", "value", "text"),
    [
        (list[float | str], [1, "two", 3.5], '[1.0,"two",3.5]'),
        (float | list[float], [1, 2.5], "[1.0,2.5]"),
        (dict[str, float] | str, {"a": 1}, '{"a":1.0}'),
        (float | str, 2**53, "9007199254740992.0"),
        (float | int, 3, "3"),
        (list[float] | list[int], [3], "[3]"),
        (float | bool, True, "true"),
        (Literal[3] | float, 3, "3"),
        (float | dict[str, Any], {"a": 1}, '{"a":1}'),
    ],
)
def test_a_whole_number_in_a_union_is_a_float_where_it_has_no_place_of_its_own(hint, value, text):
    value_codec = ValueCodec(hint, WHAT)
    written, restored = value_codec.restore(value)
    assert (written, restored) == (text, value)
    assert value_codec.encode(restored) == text


@pytest.mark.parametrize("value", [2**60 + 1, 10**400, [1]])
def test_a_union_takes_for_a_float_only_what_one_can_hold(value):
    with pytest.raises(Unstorable, match="cannot be stored"):
        ValueCodec(float | str, WHAT).restore(value)


def test_private_attributes_come_back_as_their_defaults():
    order = Order(items=[], orderNumber=1)
    order._seen = 9
    assert ValueCodec(Order, WHAT).restore(order)[1]._seen == 3


def test_all_fields_of_a_model_that_came_back_were_given():
    item = ValueCodec(Item, WHAT).restore(Item())[1]
    assert item == Item()
    assert item.model_fields_set == set(Item.model_fields)
    assert item.model_dump(exclude_defaults=True) == {}


def test_bytes_that_a_model_takes_as_text_are_stored_as_the_model_says():
    assert ValueCodec(Raw, WHAT).encode(Raw(data=b"abc")) == '{"data":"abc"}'


def cycle() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def chain(length: int) -> Node:
    node = Node()
    for _ in range(length):
        node = Node(next=node)
    return node


def tangled() -> Parcel:
    parcel = Parcel(b"")
    parcel.parts = [parcel]
    return parcel


class Level(Enum):
    LOW = 1
    HIGH = 2


REFUSALS: list[tuple[Any, Any, str]] = [
    (Any, math.nan, "it is nan (float), which JSON has no form for"),
    (Any, {"a": [1, {"b c": -math.inf}]}, "at .a[1]['b c'] is -inf (float), which JSON has no form for"),
    (float, math.nan, "it is nan (float), which JSON has no form for"),
    (float | None, math.nan, "it is nan (float)"),
    (list[float], [1.0, math.inf], "at [1] is inf (float)"),
    (set[float], {math.nan}, "at [0] is nan (float)"),
    (Order, Order(items=[Item(), Item(price=math.nan)], orderNumber=1), "at .items[1].price is nan (float)"),
    (Parcel, Parcel(b"", weight=math.nan), "at .weight is nan (float)"),
    (Parcel, Parcel(b"", note=[math.inf]), "at .note[0] is inf (float)"),
    (Decimal, Decimal("NaN"), "it is Decimal('NaN') (Decimal), which JSON has no form for"),
    (Decimal, Decimal("sNaN"), "it is Decimal('sNaN') (Decimal), which JSON has no form for"),
    (list[Decimal | float], [Decimal("1E+400"), math.nan], "at [1] is nan (float)"),
    (Any, ["\ud800"], r"at [0] is '\ud800' (str), which holds a lone surrogate"),
    (dict[str, list[Path]], {"k": [Path("/ok"), Path("/a\udcff")]}, "at .k[1] is '/a\\udcff' (PosixPath), which holds"),
    (dict[Path, int], {Path("/a\udcff"): 1}, "(the key) is '/a\\udcff' (PosixPath), which holds a lone surrogate"),
    (Any, {"\udfff": 1}, "(the key) is"),
    (dict[str, int], {"\ud800": 1}, "(the key) is"),
    (Mapping[str, int], {"a\ud800": 1}, "(the key) is"),
    (Tally, Tally(counts={"a\ud800": 1}), "at .counts['a\\ud800'] (the key) is"),
    (Place, Place("a\ud800"), "at .name is"),
    (Any, [10**5000], "at [0] is a number of 16610 bits (int), which has more than 4300 digits"),
    (int, 10**5000, "which has more than 4300 digits"),
    (list[int], [1, 10**5000], "at [1] is a number of 16610 bits"),
    (Any, {"a": {1: "b"}}, "at .a is a value of 1 part (dict), which has keys that are not strings. Annotate"),
    (dict, {1: "b"}, "which has keys that are not strings. Annotate the return type"),
    (Parcel, Parcel(b"", facts={1: 2}), "at .facts is a value of 1 part (dict), which has keys"),
    (dict[str, Any], {1: 2}, "does not fit its hint: expected str"),
    (Any, cycle(), "at [1].again is a value of 2 parts (list), which contains itself"),
    (Parcel, tangled(), "at .parts[0] is an object (Parcel), which"),
    (Any, nested(250), "which lies more than 200 levels deep"),
    (Any, nested(100_000), "which lies more than 200 levels deep"),
    (list, nested(250), "which lies more than 200 levels deep"),
    (Node, chain(220), "which lies more than 200 levels deep"),
    (Any, Item(), "it is an object (Item), which JSON alone cannot restore. Annotate the return type"),
    (Any, {"when": date(2026, 1, 1)}, "at .when is an object (date), which JSON alone cannot restore"),
    (Any, Mood.GOOD, "which JSON alone cannot restore. Annotate the return type or parameter with its type, Mood"),
    (object, {1, 2}, "(set), which JSON alone cannot restore"),
    (list, [b"x"], "at [0] is b'x' (bytes), which JSON alone cannot restore"),
    (Parcel, Parcel(b"", note=object()), "at .note is an object (object), which JSON alone cannot restore"),
    (Loose, Loose(anything={"a": Decimal(1)}), "at .anything.a is Decimal('1') (Decimal), which JSON alone"),
    (Raw, Raw(data=b"\xff"), r"at .data is b'\xff' (bytes), which is not UTF-8. Set ser_json_bytes='base64'"),
    (Login, Login(password=SecretStr("x")), "at .password is an object (SecretStr), which pydantic masks"),
    (int, "5", "it is '5' (str), which does not fit its hint: Input should be a valid integer"),
    (None, 5, "it is 5 (int), which does not fit its hint"),
    (Place, None, "it is None (NoneType), which does not fit its hint"),
    (list[int], (1, 2), "(tuple), which does not fit its hint: expected list[int]"),
    (list[int], [1, "2"], "at [1] is '2' (str), which does not fit its hint"),
    (dict[str, list[int | None]], {"a b": [None, "x"]}, "at ['a b'][1] is 'x' (str)"),
    (Parcel, Parcel(typing.cast(Any, 5)), "at .data is 5 (int), which does not fit its hint"),
    (Order, Order.model_construct(items=["x"], number=1), "at .items[0] is 'x' (str)"),
    (Item, GiftItem(), "it is an object (GiftItem), which would come back as Item. Annotate it with GiftItem"),
    (list[Item], [Item(), GiftItem()], "at [1] is an object (GiftItem), which would come back as Item"),
    (UUID | str, str(UUID(int=7)), "(str), which would come back as UUID"),
    (list[Size | int], [Size.SMALL], "at [0] is an object (Size), which would come back as int"),
    (Callable[[], int], len, "which does not fit its hint"),
    (dict[str, int], {"a": 1, "b": object()}, "at .b is an object (object), which does not fit its hint"),
    (list[Place], [object()], "at [0] is an object (object), which does not fit its hint"),
    (list[Corner], [Corner.LEFT], "at [0] is an object (Corner), which has a tuple as its value"),
    (
        Literal[Level.LOW],
        Level.LOW,
        "it is an object (Level), which fits its hint, but cannot be read back by it from JSON",
    ),
    (list[Literal[b"x"]], [b"x"], "at [0] is b'x' (bytes), which fits its hint, but cannot be read back"),
    (dict[None, int], {None: 1}, "(dict), which fits its hint, but cannot be read back by it from JSON. Use str, int"),
    (dict[Level, int], {Level.LOW: 1}, "(dict), which fits its hint, but cannot be read back"),
    (Literal["a"], "b", "it is 'b' (str), which does not fit its hint"),
    (dict[Literal["a"], int], {"b": 1}, "at .b (the key) is 'b' (str), which does not fit its hint"),
    (Literal[Level.LOW], Level.HIGH, "(Level), which does not fit its hint"),
    (Literal[b"x"], b"y", "(bytes), which does not fit its hint"),
    (dict[Level, int], {1: 1}, "(dict), which does not fit its hint"),
    (Iterable[int], [1], "expected generator. Annotate it with list or Sequence"),
    (AbstractSet[int], {1}, "Annotate it with set for a set: collections.abc.Set is taken for frozenset"),
    (
        dict[tuple[int, int], str],
        {(1, 2): "x"},
        "which has keys with parts of their own, and a key in JSON is one text",
    ),
]


@pytest.mark.parametrize(("hint", "value", "told"), REFUSALS, ids=[told[:60] for *_, told in REFUSALS])
def test_a_value_that_would_be_lost_is_refused_with_its_path(hint, value, told):
    with pytest.raises(Unstorable) as refusal:
        ValueCodec(hint, WHAT).restore(value)
    assert str(refusal.value).startswith(f"{WHAT} cannot be stored: ")
    assert told in str(refusal.value)
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize("value", [math.nan, "\ud800", {1: 2}, nested(250), 10**5000, Item(), cycle()], ids=type)
@pytest.mark.parametrize("hint", [Any, dict, list, int, Parcel], ids=str)
def test_encoding_alone_refuses_it_too(hint, value):
    with pytest.raises(Unstorable):
        ValueCodec(hint, WHAT).encode(value)


@pytest.mark.parametrize("hint", [Any, int, list[int], Item], ids=str)
def test_what_nobody_has_awaited_is_told_to_be(hint):
    async def count() -> int:
        return 7

    counting = count()
    with pytest.raises(Unstorable, match=r"\(coroutine\), which nobody has awaited. An `await` is missing"):
        ValueCodec(hint, WHAT).restore(counting)
    counting.close()


def test_a_depth_that_can_be_read_is_stored():
    assert ValueCodec(Any, WHAT).restore(nested(199))[1] == nested(199)
    assert ValueCodec(Node, WHAT).restore(chain(199))[1] == chain(199)


@pytest.mark.parametrize("hint", [Any, str])
def test_a_value_above_the_size_limit_is_refused_with_its_size(hint, monkeypatch):
    monkeypatch.setattr(codec, "MAX_VALUE_BYTES", 100)
    assert ValueCodec(hint, WHAT).encode("x" * 98)
    with pytest.raises(Unstorable, match="as JSON it has 101 bytes, and the limit is 100"):
        ValueCodec(hint, WHAT).encode("x" * 99)


def test_a_long_text_is_shown_in_short_and_larger_values_not_at_all():
    with pytest.raises(Unstorable) as long:
        ValueCodec(int, WHAT).encode("x" * 1000)
    assert f"'{'x' * 76}..." in str(long.value)
    with pytest.raises(Unstorable) as large:
        ValueCodec(int, WHAT).encode({"password": "hunter2"})
    assert "hunter2" not in str(large.value)


def test_text_that_does_not_fit_is_invalid_and_named():
    with pytest.raises(Invalid, match="the result of step 'charge' cannot be read from JSON: count: Input should be"):
        ValueCodec(Item, WHAT).decode('{"count": "many"}')
    with pytest.raises(Invalid, match="cannot be read from JSON"):
        ValueCodec(Any, WHAT).decode("{")


def test_a_validator_that_raises_anything_is_reported_as_unfit():
    @dataclasses.dataclass
    class Moody:
        number: int

        def __post_init__(self) -> None:
            if self.number == 13:
                raise RuntimeError("not today")

    unlucky = Moody(1)
    unlucky.number = 13
    moody = ValueCodec(Moody, WHAT)
    with pytest.raises(Unstorable, match="not today"):
        moody.restore(unlucky)
    with pytest.raises(Invalid, match="not today"):
        moody.decode('{"number": 13}')


def test_a_hint_that_cannot_be_stored_is_refused_by_name():
    with pytest.raises(InvalidDefinition, match="the result of step 'charge' cannot be stored by its hint"):
        ValueCodec(ModuleType, WHAT).encode(math)
    with pytest.raises(InvalidDefinition, match="NoSuchThing"):
        ValueCodec("NoSuchThing", WHAT).encode(1)


def test_a_hint_over_which_pydantic_stumbles_is_refused_by_name():
    class Stumbling:
        @classmethod
        def __get_pydantic_core_schema__(cls, *_):
            raise ValueError("zip() argument 2 is shorter than argument 1")

    with pytest.raises(InvalidDefinition, match=r"the result of step 'charge' .* zip\(\) argument 2 is shorter"):
        ValueCodec(Stumbling, WHAT).encode(1)


def test_a_hint_of_a_parameter_that_cannot_be_stored_is_refused_by_the_name_of_the_parameter():
    def pack(count: int, data: bytearray | None = None) -> None: ...

    with pytest.raises(InvalidDefinition, match=r"the argument 'data' of step 'pack' .* by its hint \S*bytearray"):
        ArgumentsCodec(pack, "step 'pack'").encode({"count": 1, "data": None})


@pytest.mark.parametrize("value", [len, lambda: 1, (each for each in [1]), int, math, object(), Item.model_dump])
def test_what_no_hint_could_restore_is_not_told_to_be_annotated(value):
    with pytest.raises(Unstorable, match=r"at \[0\] is an object .* Such a value cannot be stored: use") as refusal:
        ValueCodec(Any, WHAT).encode([value])
    assert "Annotate" not in str(refusal.value)


def test_equal_sets_have_equal_text():
    names = ValueCodec(set[int], WHAT)
    assert list({8, 0}) != list({0, 8}), "these two iterate in the order in which they were filled"
    assert names.encode({8, 0}) == names.encode({0, 8})


def test_the_result_hint_of_a_function_is_resolved_at_the_first_use():
    def count_votes() -> OnlyForTheTypeChecker[str]:
        raise LookupError

    with pytest.raises(InvalidDefinition, match=r"the hint 'OnlyForTheTypeChecker.*' of its result cannot be resolved"):
        ValueCodec.for_result(count_votes, WHAT).encode(1)

    def find_place() -> Place:
        return Place("a")

    assert ValueCodec.for_result(find_place, WHAT).decode('{"name": "a"}') == Place("a")
    assert ValueCodec.for_result(lambda: 1, WHAT).encode([1]) == "[1]"


def test_a_hint_that_only_the_type_checker_sees_is_refused_by_parameter_and_name():
    def tally(order: Order, votes: OnlyForTheTypeChecker[str]) -> int:
        return len(votes)

    with pytest.raises(InvalidDefinition, match=r"tally: the hint 'OnlyForTheTypeChecker\[str\]' of 'votes'"):
        ArgumentsCodec(tally, "step 'tally'").encode({})


def test_a_hint_finds_a_class_that_its_function_closes_over():
    @dataclasses.dataclass
    class Local:
        number: int

    def double(local: Local) -> Local:
        return Local(local.number * 2)

    assert ArgumentsCodec(double, "step 'double'").decode('{"local": {"number": 3}}') == {"local": Local(3)}
    assert ValueCodec.for_result(double, WHAT).decode('{"number": 3}') == Local(3)


def test_a_decorated_function_has_the_hints_of_what_it_wraps():
    def ship(place: Place) -> Place:
        return place

    @functools.wraps(ship)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ship(*args, **kwargs)

    arguments = ArgumentsCodec(wrapper, "step 'ship'")
    assert arguments.restore(arguments.bind((Place("a"),), {})) == (
        '{"place":{"name":"a","inside":null}}',
        {"place": Place("a")},
    )


def add(first: int, second: int = 2, third: str = typing.cast(Any, None)) -> tuple[int, int, str | None]:
    return first, second, third


def mixed(first: int, /, second: Place, *rest: bytes, flag: bool = False, **options: date) -> Any:
    return first, second, rest, flag, options


ARGUMENTS = [
    (add, (1, 5, "x"), {}, (1, 5, "x")),
    (add, (1,), {}, (1, 2, None)),
    (add, (), {"second": 4, "first": 3}, (3, 4, None)),
    (add, (1,), {"third": "y"}, (1, 2, "y")),
    (mixed, (1, Place("a")), {}, (1, Place("a"), (), False, {})),
    (mixed, (1, Place("a"), b"\xff", b""), {"flag": True}, (1, Place("a"), (b"\xff", b""), True, {})),
    (
        mixed,
        (1,),
        {"second": Place("a"), "due": date(2026, 1, 1)},
        (1, Place("a"), (), False, {"due": date(2026, 1, 1)}),
    ),
    (mixed, (1, Place("a")), {"first": date(2026, 1, 1)}, (1, Place("a"), (), False, {"first": date(2026, 1, 1)})),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "result"), ARGUMENTS)
def test_arguments_reach_the_function_as_they_were_given(function, args, kwargs, result):
    arguments = ArgumentsCodec(function, "step 'add'")
    bound = arguments.bind(args, kwargs)
    text, restored = arguments.restore(bound)
    assert restored == bound
    assert arguments.decode(text) == bound
    assert arguments.encode(restored) == arguments.encode(bound) == text
    assert arguments.apply(function, restored) == result


def test_the_same_call_has_the_same_text_however_it_is_written():
    arguments = ArgumentsCodec(add, "step 'add'")
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1, 2, None), {}),
        ((1,), {}),
        ((), {"second": 2, "first": 1}),
        ((1,), {"third": None}),
    ]
    assert {arguments.encode(arguments.bind(args, kwargs)) for args, kwargs in calls} == {
        '{"first":1,"second":2,"third":null}'
    }


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ((), {}, "missing a required argument: 'first'"),
        ((1, 2, "x", 4), {}, "too many positional arguments"),
        ((1,), {"fourth": 4}, "unexpected keyword argument 'fourth'"),
        ((1,), {"first": 1}, "multiple values for argument 'first'"),
        ((1, 2, "x"), {"third": "y"}, "multiple values for argument 'third'"),
    ],
)
def test_a_call_that_does_not_fit_the_parameters_is_invalid_and_named(args, kwargs, told):
    with pytest.raises(Invalid, match=rf"step 'add': .*{told}.*\. Its parameters are \(first"):
        ArgumentsCodec(add, "step 'add'").bind(args, kwargs)


def test_an_argument_of_the_wrong_type_is_invalid_with_its_path():
    arguments = ArgumentsCodec(mixed, "step 'mixed'")
    with pytest.raises(
        Invalid, match=r"arguments of step 'mixed' cannot be stored: at \.first is '1' \(str\)"
    ) as refusal:
        arguments.restore(arguments.bind(("1", Place("a")), {}))
    assert refusal.value.code == "E-VAL-001"
    with pytest.raises(Invalid, match=r"at \.second is a value of 1 part \(dict\)"):
        arguments.restore(arguments.bind((1, {"name": "a"}), {}))


@pytest.mark.parametrize(
    ("hint", "value", "place"),
    [(Path, "a/b", ".at"), (Path | None, "a/b", ".at"), (list[Path], [Path("a"), "a/b"], r".at\[1\]")],
    ids=repr,
)
def test_a_text_is_no_path_and_is_refused_as_any_other_misfit(hint, value, place):
    def move(at) -> None: ...

    move.__annotations__["at"] = hint
    with pytest.raises(
        Invalid, match=f"at {place} is 'a/b' \\(str\\), which does not fit its hint: expected path"
    ) as raised:
        ArgumentsCodec(move, "step 'move'").restore({"at": value})
    assert raised.value.code == "E-VAL-001"
    with pytest.raises(Unstorable, match="which does not fit its hint: expected path"):
        ValueCodec(hint, WHAT).restore(value)


def test_an_argument_without_a_form_in_json_is_unstorable():
    def weigh(grams: float, note): ...

    arguments = ArgumentsCodec(weigh, "step 'weigh'")
    with pytest.raises(Unstorable, match=r"at \.grams is nan"):
        arguments.restore({"grams": math.nan, "note": None})
    with pytest.raises(Unstorable, match=r"at \.note is an object \(Item\), .* Annotate the return type or parameter"):
        arguments.restore({"grams": 1.0, "note": Item()})


def test_text_from_before_a_parameter_was_added_has_its_default():
    assert ArgumentsCodec(add, "step 'add'").decode('{"first": 1}') == {"first": 1, "second": 2, "third": None}
    assert ArgumentsCodec(mixed, "step 'mixed'").decode('{"first":1,"second":{"name":"a"}}')["flag"] is False
    with pytest.raises(Invalid, match="the arguments of step 'add' cannot be read from JSON: first: Field required"):
        ArgumentsCodec(add, "step 'add'").decode("{}")


def test_text_from_before_variable_parameters_were_added_has_none_of_them():
    def gather(first: int, *rest: int, **named: int) -> None: ...

    arguments = ArgumentsCodec(gather, "step 'gather'")
    assert arguments.decode('{"first": 1}') == arguments.bind((1,), {}) == {"first": 1, "rest": (), "named": {}}


def test_keyword_arguments_may_be_described_by_a_typed_dict():
    def move(**to: Unpack[Partial]) -> Any:
        return to

    arguments = ArgumentsCodec(move, "step 'move'")
    bound = arguments.bind((), {"street": "a", "photo": b"\xff"})
    assert arguments.apply(move, arguments.restore(bound)[1]) == {"street": "a", "photo": b"\xff"}


def test_arguments_may_be_recursive_typed_dicts():
    def grow(on: Branch, *more: Branch, at: Leaf | None = None) -> Any:
        return on, more, at

    arguments = ArgumentsCodec(grow, "step 'grow'")
    tree: Branch = {"name": "a", "branches": [{"name": "b"}]}
    bound = arguments.bind((tree, tree), {"at": {"on": tree}})
    assert arguments.apply(grow, arguments.restore(bound)[1]) == (tree, (tree,), {"on": tree})


def test_a_part_of_a_recursive_typed_dict_that_does_not_fit_is_named_by_its_path():
    with pytest.raises(Unstorable, match=r"at \.branches\[0\] is .*, which does not fit its hint: Field required"):
        ValueCodec(Branch, WHAT).restore({"name": "a", "branches": [{"branches": []}]})


def test_a_function_without_parameters_has_an_empty_object():
    arguments = ArgumentsCodec(lambda: 5, "step 'five'")
    assert arguments.restore(arguments.bind((), {})) == ("{}", {})
    assert arguments.apply(lambda: 5, {}) == 5


def test_the_codec_is_imported_without_pydantic():
    script = "import sys, stepfast.workflows.codec, stepfast.workflows.failures; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_digest_is_32_hex_digits_and_depends_on_the_text():
    assert digest("a") == digest("a") != digest("b")
    assert len(digest("é")) == 32
    assert int(digest("é"), 16)


texts = st.text(st.characters(exclude_categories=["Cs"]))
natives = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)
instants = st.datetimes(timezones=st.none() | st.just(UTC) | st.just(timezone(timedelta(hours=-3, minutes=-30))))
places = st.recursive(st.builds(Place, texts, st.none()), lambda inner: st.builds(Place, texts, inner), max_leaves=4)


@dataclasses.dataclass
class Everything:
    data: bytes
    number: int
    exact: Decimal
    at: datetime
    span: timedelta
    places: list[Place]
    sizes: dict[int, float]
    marks: set[str]
    either: int | str | None
    rest: Any


class EverythingModel(BaseModel):
    number: int = Field(alias="no")
    at: datetime
    span: timedelta
    exact: Decimal
    places: tuple[Place, ...]
    marks: frozenset[int]
    items: dict[str, Item | None]
    rest: Any


everything = st.builds(
    Everything,
    data=st.binary(),
    number=st.integers(),
    exact=st.decimals(allow_nan=False, allow_infinity=False),
    at=instants,
    span=st.timedeltas(),
    places=st.lists(places, max_size=3),
    sizes=st.dictionaries(st.integers(), st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    marks=st.sets(texts, max_size=5),
    either=st.none() | st.integers() | texts,
    rest=natives,
)
models = st.builds(
    EverythingModel,
    no=st.integers(),
    at=instants,
    span=st.timedeltas(),
    exact=st.decimals(allow_nan=False, allow_infinity=False),
    places=st.lists(places, max_size=3).map(tuple),
    marks=st.frozensets(st.integers(), max_size=5),
    items=st.dictionaries(texts, st.none() | st.builds(Item, price=st.none() | st.floats(0, 1)), max_size=3),
    rest=natives,
)
NATIVE, DATACLASS, MODEL = (ValueCodec(hint, WHAT) for hint in (Any, Everything, EverythingModel))


@given(st.one_of(*(st.tuples(st.just(c), v) for c, v in [(NATIVE, natives), (DATACLASS, everything), (MODEL, models)])))
def test_any_value_comes_back_equal_and_with_the_same_text(case):
    value_codec, value = case
    text, restored = value_codec.restore(value)
    assert restored == value
    assert value_codec.encode(restored) == text == value_codec.encode(value)
    assert value_codec.decode(text) == value


scalars = st.floats() | st.text() | st.binary() | st.integers()


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(scalars, inner)))
def test_any_other_value_is_stored_or_refused_and_nothing_else(value):
    with contextlib.suppress(Unstorable):
        text, restored = NATIVE.restore(value)
        assert NATIVE.encode(restored) == text


@given(st.fixed_dictionaries({"text": st.text(), "number": st.integers(), "flag": st.booleans(), "nothing": st.none()}))
def test_plain_arguments_are_written_and_restored_as_their_hints_say(arguments: dict[str, Any]):
    def pay(text: str, number: int, flag: bool, nothing: None) -> None: ...

    form = ArgumentsCodec(pay, "step 'pay'")._form
    assert isinstance(form, codec.ArgumentsForm)
    assert form.atoms
    by_hints = super(codec.ArgumentsForm, form).restore
    assert tried(form.restore, arguments) == tried(by_hints, arguments)


def tried(restore: Callable[[object], tuple[str, Any]], value: object) -> object:
    try:
        return restore(value)
    except Invalid as error:
        return type(error), str(error)


@pytest.mark.parametrize("number", [0, True, "1", 1.0])
def test_arguments_that_do_not_fit_their_hints_are_not_taken_for_plain(number: object):
    def pay(number: Annotated[int, Field(gt=0)], text: str = "") -> None: ...

    form = ArgumentsCodec(pay, "step 'pay'")._form
    assert isinstance(form, codec.ArgumentsForm)
    arguments = {"number": number, "text": ""}
    by_hints = super(codec.ArgumentsForm, form).restore
    assert tried(form.restore, arguments) == tried(by_hints, arguments)


@pytest.mark.parametrize("number", [True, "1", 1.0, None])
def test_a_plain_argument_of_another_type_goes_by_its_hint(number: object):
    def pay(number: int = 1) -> None: ...

    form = ArgumentsCodec(pay, "step 'pay'")._form
    assert isinstance(form, codec.ArgumentsForm)
    by_hints = super(codec.ArgumentsForm, form).restore
    assert tried(form.restore, {"number": number}) == tried(by_hints, {"number": number})
