"""What an error was made from and carries, as JSON that restores it; of what is too long for that, head and tail."""

from __future__ import annotations

import base64
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from stepfast.kernel.texts import clean, guarded, joined
from stepfast.workflows.culprits import MAX_DEPTH, SURROGATE, is_native

MAX_PACKED = 16_000
# How long a text may be where all together is too long, from the first that will do.
CUTS = (8_000, 2_000, 500)
WHOLE = sys.maxsize
LIMITS = (WHOLE, *CUTS)
# How many parts are looked at of all that an error carries, and of what it says: the event loop stands still meanwhile.
MAX_CARRIED = 40_000
MAX_SAID = 10_000
# What else takes as long as some parts, or as one.
PARTS_OF_A_VALUE = 10
CHARACTERS_OF_A_PART = 50

BYTES = "__stepfast_bytes__"
TUPLE = "__stepfast_tuple__"
MARKS = ({BYTES}, {TUPLE})


class Unfit(Exception):
    """The value has a part that does not come back equal, or takes more room than there is."""


class Forms(NamedTuple):
    """A value as JSON by each of the limits for its texts, None where it does not fit, and what it took to find out."""

    texts: tuple[str | None, ...]
    effort: int

    @property
    def best(self) -> str | None:
        return next((text for text in self.texts if text), None)


def pack(value: object) -> str | None:
    """The value as JSON, long texts shortened if need be; None for what does not come back equal."""
    return forms_of(value).best


def pack_all(values: Mapping[str, object]) -> str | None:
    """The values by their names as JSON, texts shortened and the largest left out if need be; None: none is left."""
    forms = dict(forms_of_all(values))
    kept = fitting({name: forms[name] for name in values if name in forms})
    together = (merged(texts) for texts in zip(*(forms[name].texts for name in values if name in kept), strict=True))
    return next((text for text in together if text and len(text) <= MAX_PACKED), None)


def unpack(text: str) -> Any:
    return json.loads(text, object_hook=from_mark)


def forms_of_all(values: Mapping[str, object]) -> Iterator[tuple[str, Forms]]:
    """Each value that can be kept in its forms, those that look small first, until the effort is spent."""
    left = MAX_CARRIED
    # No more than these would fit, however small they are.
    first = itertools.islice(values.items(), MAX_CARRIED // PARTS_OF_A_VALUE)
    for name, value in sorted(first, key=lambda named: rough_size(named[1])):
        if left <= 0:
            return
        forms = guarded(forms_of, {name: value})
        left -= PARTS_OF_A_VALUE + (forms.effort if forms else 0)
        if forms and forms.texts[-1]:
            yield name, forms


def fitting(forms: Mapping[str, Forms]) -> set[str]:
    """The names of those that fit together where texts are cut as short as can be, once the largest are left out."""
    # Of those that are as large as each other, the first is left out first.
    last_first = list(forms)[::-1]
    smallest_first = sorted(last_first, key=lambda name: len(forms[name].best or ""))
    sizes = itertools.accumulate(len(forms[name].texts[-1] or "") for name in smallest_first)
    return {name for name, size in zip(smallest_first, sizes, strict=True) if size <= MAX_PACKED}


def merged(objects: Iterable[str | None]) -> str | None:
    """Objects of JSON as one, if all of them are there."""
    inside = [text and text[1:-1] for text in objects]
    return f"{{{', '.join(filter(None, inside))}}}" if all(inside) else None


def rough_size(value: object) -> tuple[bool, int]:
    """How large a value looks from outside, to be compared: parts may be larger than they look, and texts not."""
    has_parts = isinstance(value, (list, tuple, dict))
    return has_parts, len(value) if isinstance(value, (str, bytes, list, tuple, dict)) else 0


def forms_of(value: object) -> Forms:
    texts: list[str | None] = []
    longest, effort = WHOLE, 0
    for limit in LIMITS:
        # What has no text to cut comes out as it did before.
        if longest > limit or not texts:
            writing = Writing(limit)
            texts.append(writing.text_of(value))
            longest, effort = writing.longest, effort + writing.effort
        else:
            texts.append(texts[-1])
    return Forms(tuple(texts), effort)


class Writing:
    """One value on its way into JSON with its texts cut to a limit, given up as soon as it takes too much room.

    That also ends a value that contains itself, or the same part again and again.
    """

    def __init__(self, limit: int) -> None:
        self.longest = 0
        self._limit = limit
        self._parts = 0
        self._room = MAX_PACKED

    @property
    def effort(self) -> int:
        return self._parts + (MAX_PACKED - max(self._room, 0)) // CHARACTERS_OF_A_PART

    def text_of(self, value: object) -> str | None:
        try:
            marked = self._marked(value, MAX_DEPTH)
            text = json.dumps(marked, ensure_ascii=False)
            if not text.isascii() and SURROGATE.search(text):
                # No store holds a lone surrogate, but an escape stands for it; what is cut has neither.
                self.longest, text = WHOLE, json.dumps(marked)
        except (Unfit, ValueError):
            # A ValueError is that of a number with more digits than Python writes.
            return None
        return text if len(text) <= MAX_PACKED else None

    def _marked(self, value: object, depth: int) -> object:
        """The value with a form of JSON for each part that JSON does not have."""
        self._parts += 1
        if type(value) is str:
            return self._text(value)
        if type(value) is bytes and depth:
            return self._bytes(value)
        if type(value) is list and depth:
            return self._list(value, depth)
        if type(value) is tuple and depth:
            return {TUPLE: self._list(value, depth - 1)}
        if type(value) is dict and depth:
            return self._dict(value, depth)
        if not is_native(value, 0):
            raise Unfit
        self._take(value.bit_length() // 4 if isinstance(value, int) else 1)
        return value

    def _text(self, text: str) -> str:
        self.longest = max(self.longest, len(text))
        kept = text if self._limit == WHOLE else shortened(text, self._limit)
        self._take(len(kept))
        return joined(kept)

    def _bytes(self, value: bytes) -> object:
        self.longest = max(self.longest, len(value))
        self._take(min(len(value), self._limit))
        return {BYTES: base64.b64encode(value[: self._limit]).decode()}

    def _list(self, values: list[Any] | tuple[Any, ...], depth: int) -> list[object]:
        # Brackets, and what is between the parts.
        self._take(2 * len(values) or 2)
        if not depth:
            raise Unfit
        return [self._marked(each, depth - 1) for each in values]

    def _dict(self, values: dict[Any, Any], depth: int) -> dict[str, object]:
        self._take(6 * len(values) or 2)
        marked = {self._key(name): self._marked(each, depth - 1) for name, each in values.items()}
        # Read back it would be something else, or less.
        if marked.keys() in MARKS or len(marked) < len(values):
            raise Unfit
        return marked

    def _key(self, name: object) -> str:
        if type(name) is not str:
            raise Unfit
        self._take(len(name))
        return joined(name)

    def _take(self, room: int) -> None:
        self._room -= room
        if self._room < 0:
            raise Unfit


def from_mark(data: dict[str, Any]) -> Any:
    if data.keys() == {BYTES}:
        return base64.b64decode(data[BYTES])
    return tuple(data[TUPLE]) if data.keys() == {TUPLE} else data


class Excerpt:
    """The beginning of a value that may be too vast to be written out; texts lose their middle."""

    def __init__(self, longest_text: int, parts: int = MAX_SAID) -> None:
        self._left = parts
        self._longest_text = longest_text

    @property
    def is_whole(self) -> bool:
        return self._left > 0

    def of(self, value: Any, depth: int = MAX_DEPTH) -> Any:
        self._left -= 1
        if type(value) is str or type(value) is bytes:
            return self._cut(value)
        if type(value) in (list, tuple) and depth:
            parts = [self.of(each, depth - 1) for each in itertools.takewhile(self._has_room, value)]
            return type(value)(parts + [f"... {left} more left out ..." for left in [len(value) - len(parts)] if left])
        if type(value) is dict and depth:
            items = itertools.takewhile(self._has_room, value.items())
            return {key: self.of(each, depth - 1) for key, each in items}
        return value

    def _cut(self, value: str | bytes) -> str | bytes:
        self._left -= len(value) // CHARACTERS_OF_A_PART
        return shortened(value, self._longest_text) if isinstance(value, str) else value[: self._longest_text]

    def _has_room(self, _: object) -> bool:
        return self._left > 0


def shortened(text: str, limit: int) -> str:
    """The head and tail of a long text: the one says what was called, the other what went wrong."""
    if len(text) > limit:
        half = limit // 2 - 30
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    return clean(text)
