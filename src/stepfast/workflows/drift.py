"""What a value came back as: finding the first part of it that changed on its way through JSON."""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from stepfast.workflows.culprits import ATOMS, MAX_DEPTH, Culprit, brief, children, has_hint, remedy_of, step_to

# Classes that may stand in for a subclass of theirs; `date` is not one, since a datetime would lose its time.
PLAIN = frozenset((str, int, float, bytes, list, tuple, dict, datetime))
# Parts of sets have no place, so one that is not found again is held against all that are new; so many are, at most.
MAX_PAIRED = 20
ABSENT: Any = object()
KEY = " (the key)"
MIND = "Mind exclude, init=False, serializers and validators: what they leave out or rewrite is lost"

Pairs = Iterator[tuple[str, object, object]]


def is_equal(value: object, restored: object) -> bool:
    """By their own word; classes of users may answer anything, or raise."""
    try:
        return bool(value == restored)
    except Exception:  # noqa: BLE001 - other people's code
        return False


class Comparison:
    """Holds a value against what it came back as, part by part.

    Strictly, a part that is equal but of another class has changed too: a subclass, or the wrong branch of a union.
    `is_tuple` says whether a tuple that came back as a list was to be a tuple. What is not shown is in no message.
    """

    def __init__(self, is_strict: bool, is_shown: bool, is_tuple: Callable[[object], bool]) -> None:
        self._is_strict, self._is_shown, self._is_tuple = is_strict, is_shown, is_tuple

    def culprit(self, value: object, restored: object, path: str = "", above: tuple[int, ...] = ()) -> Culprit | None:
        """The first part that came back as another, or not at all."""
        kind, own = type(restored), type(value)
        if kind is own and own in ATOMS:
            return None if value == restored else self._changed(path, value, restored)
        if not (kind is own or self._may_stand_in(value, restored)):
            return Culprit(
                path, value, f"would come back as {kind.__name__}", remedy(path, value, restored), self._is_shown
            )
        # What refers to itself does so only beside the stored fields: JSON has no form for it.
        if id(value) in above or len(above) > MAX_DEPTH:
            return None
        if isinstance(value, (set, frozenset)) and isinstance(restored, (set, frozenset)):
            return self._of_sets(value, restored, path, above)
        pairs = pairs_of(value, restored)
        if pairs is None:
            return None if is_kept(value, restored) else self._changed(path, value, restored)
        for step, child, twin in pairs:
            place = path + self._told(step, isinstance(value, Mapping) and twin is ABSENT)
            if twin is ABSENT:
                named = "Name it in the hint, or leave it out"
                return Culprit(place, child, "would not come back", named, self._is_shown)
            if found := self.culprit(child, twin, place, (*above, id(value))):
                return found
        return None

    def _told(self, step: str, is_lost_key: bool) -> str:
        """The step of a path; a key that does not come back is as little shown as a value."""
        is_key = step.endswith(KEY)
        if self._is_shown or not (is_key or is_lost_key):
            return step
        return f"[a key]{KEY if is_key else ''}"

    def _may_stand_in(self, value: object, restored: object) -> bool:
        """Whether a value of another class is what the hint makes of this one, as 3.0 of 3."""
        kind, own = type(restored), type(value)
        if kind is list and own is tuple:
            return not self._is_tuple(value)
        # What the hint Sequence makes of them; beside a union it may as well be the wrong branch.
        if kind is list and isinstance(value, (tuple, deque)):
            return not self._is_strict
        if kind in PLAIN and isinstance(value, kind) and not isinstance(value, Enum):
            return True
        if kind is float and own is int:
            return True
        return not self._is_strict and is_equal(value, restored)

    def _of_sets(self, value: Any, restored: Any, path: str, above: tuple[int, ...]) -> Culprit | None:
        if len(value) != len(restored):
            return self._changed(path, value, restored)
        try:
            gained = [each for each in restored if each not in value]
            lost = [(index, each) for index, each in enumerate(value) if each not in restored]
        except Exception:  # noqa: BLE001 - other people's code
            return None
        for index, each in lost[:MAX_PAIRED]:
            twins = (twin for twin in gained if self.culprit(each, twin, "", (*above, id(value))) is None)
            if (twin := next(twins, ABSENT)) is ABSENT:
                return self._changed(f"{path}[{index}]", each, ABSENT)
            gained = [other for other in gained if other is not twin]
        return None

    def _changed(self, path: str, value: object, restored: object) -> Culprit:
        is_telling = self._is_shown and isinstance(restored, (str, int, float)) and brief(restored) != brief(value)
        another = brief(restored) if is_telling else "another"
        return Culprit(path, value, f"would come back as {another}", MIND, self._is_shown)


def remedy(path: str, value: object, restored: object) -> str:
    """What to do about a part that would be of another class."""
    if path.endswith(KEY):
        return "Use keys of one type"
    if isinstance(value, Enum) and restored is None:
        return "Give that member a value of its own: null stands for None"
    # No branch of a union makes None of something, or something of None.
    if value is None or restored is None:
        return MIND
    kind = type(value)
    annotated = f"Annotate it with {kind.__name__} itself, or with a union told apart by a tag"
    return annotated if has_hint(kind) else remedy_of(value)


def is_kept(value: object, restored: object) -> bool:
    """Whether a part without parts of its own came back; one that knows only identity is held to its class alone."""
    if value is restored:
        return True
    # Members of an enum know only identity too, but those that came back are the same objects.
    if type(value).__eq__ is object.__eq__ and not isinstance(value, Enum):
        return True
    try:
        answer: object = value == restored
        # Arrays answer part by part; an empty one has no parts that say yes.
        if answer or hasattr(answer, "__len__") or (value != value and restored != restored):
            return True
    except Exception:  # noqa: BLE001 - other people's code
        # Nobody can tell, so it is not refused.
        return True
    # Python takes a time that a clock shows twice for unequal to the same one in any other zone.
    return isinstance(value, datetime) and isinstance(restored, datetime) and shows(value) == shows(restored)


def shows(time: datetime) -> tuple[object, object]:
    return time.replace(tzinfo=None, fold=0), time.utcoffset()


def pairs_of(value: object, restored: object) -> Pairs | None:
    """Parts of a value and what each came back as, with the steps that lead to them; None if it has no parts.

    Parts of lists and mappings that plainly came back are left out.
    """
    if isinstance(value, Mapping) and isinstance(restored, Mapping):
        return of_mappings(value, restored)
    if isinstance(value, (list, tuple, deque)) and isinstance(restored, (list, tuple, deque)):
        return of_lists(value, restored) if len(value) == len(restored) else None
    if dataclasses.is_dataclass(value):
        return of_dataclasses(value, restored)
    return of_models(value, restored) if hasattr(type(value), "__pydantic_fields__") else None


def is_settled(item: object, twin: object) -> bool:
    """Whether a part plainly came back, so that no path to it is needed; most parts are such."""
    return item is twin or (type(item) is type(twin) and type(item) in ATOMS and item == twin)


def of_mappings(value: Mapping[Any, Any], restored: Mapping[Any, Any]) -> Pairs:
    """By key; a key that is not there became the one in its place."""
    twins = {key: key for key in restored}
    in_place = list(restored) if len(value) == len(restored) else [ABSENT] * len(value)
    for place, (key, item) in zip(in_place, value.items(), strict=True):
        twin = found_twin(key, twins, place)
        if twin is not ABSENT and not is_settled(key, twin):
            yield step_to(key) + KEY, key, twin
        other = ABSENT if twin is ABSENT else restored[twin]
        if not is_settled(item, other):
            yield step_to(key), item, other


def found_twin(key: object, twins: Mapping[Any, Any], otherwise: object) -> Any:
    try:
        return twins.get(key, otherwise)
    except Exception:  # noqa: BLE001 - other people's code
        return otherwise


def of_lists(value: Any, restored: Any) -> Pairs:
    names = getattr(value, "_fields", None)
    for index, (item, twin) in enumerate(zip(value, restored, strict=True)):
        if not is_settled(item, twin):
            yield f".{names[index]}" if names else f"[{index}]", item, twin


def of_dataclasses(value: Any, restored: Any) -> Pairs:
    for field in dataclasses.fields(value):
        # A field that is neither given nor compared is a cache of its class, like a private attribute of a model.
        if field.init or field.compare:
            yield f".{field.name}", getattr(value, field.name, None), getattr(restored, field.name, None)


def of_models(value: Any, restored: Any) -> Pairs:
    """The fields of a model, and what else it allows; private attributes come back as their defaults."""
    own, other = vars(value), vars(restored)
    for name in type(value).__pydantic_fields__:
        yield f".{name}", own.get(name), other.get(name)
    extra = getattr(restored, "__pydantic_extra__", None) or {}
    for name, item in (getattr(value, "__pydantic_extra__", None) or {}).items():
        yield f".{name}", item, extra.get(name, ABSENT)


def in_many_places(value: object) -> set[int]:
    """The ids of parts that stand in more than one place, as all empty tuples are one; nothing is visited thrice."""
    visits: Counter[int] = Counter()
    left = [value]
    while left:
        part = left.pop()
        if type(part) not in ATOMS and visits[id(part)] < 2:
            visits[id(part)] += 1
            left.extend(child for _, child in children(part))
    return {each for each, count in visits.items() if count > 1}
