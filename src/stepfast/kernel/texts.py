"""Short texts that people give: names, keys, tenants, tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from stepfast.kernel.errors import Invalid

MAX_TEXT = 1_000
MAX_BYTES = 1_000
"""Of a text by which rows are found: a row of an index has 2,704 bytes on PostgreSQL, and some hold three such."""
MAX_NAME = 200
MAX_NAME_BYTES = 500
"""Of what steps, workflows, assets and annotations are called: it stands beside two such texts."""
MAX_NOTE = 10_000
"""Of what a person has to say."""
SHOWN = 100
# A number that is longer takes Python long to write, and above 4,300 digits it refuses.
SHOWN_BITS = 256

# NUL, and surrogates that have no other half.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

T = TypeVar("T")


def shown(value: object) -> str:
    """What somebody gave, for a message: of something long only its beginning or its size."""
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        return f"a number of {value.bit_length():,} bits"
    try:
        text = repr(value[: SHOWN + 1] if isinstance(value, str | bytes) else value)
    except Exception:  # noqa: BLE001 - how a thing shows itself is up to its class, and may fail
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 event, 2 events."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def class_name(stored: str) -> str:
    """The name of a class as it is stored, without the module that it comes from."""
    return stored.rpartition(":")[2]


def error_line(stored_type: str, message: str) -> str:
    """A stored error in one line: the name of its class, and what it says."""
    kind = class_name(stored_type)
    return f"{kind}: {message}" if kind and message else kind or message


def check_text(what: str, text: str, longest: int = MAX_TEXT) -> str:
    """Refuse what no store can hold as plain text: nothing at all, too much, NUL, lone surrogates.

    What may be longer than a name or a key is in no index, and not bounded by its bytes.
    """
    if not isinstance(text, str):
        raise Invalid(f"{what} is {shown(text)}; it must be text.")
    if not 1 <= len(text) <= longest:
        raise Invalid(f"{what} has {len(text):,} characters; allowed are 1 to {longest:,}.")
    if _UNSTORABLE.search(text):
        raise Invalid(f"{what} is {shown(text)}; a NUL character or a lone surrogate cannot be stored. Leave it out.")
    widest = {MAX_TEXT: MAX_BYTES, MAX_NAME: MAX_NAME_BYTES}.get(longest)
    if widest is not None and (size := len(text.encode())) > widest:
        raise Invalid(f"{what} has {size:,} bytes as UTF-8; allowed are 1 to {widest:,}.")
    return text


def is_name(text: str) -> bool:
    """Whether a text is short enough for a name, and can be shown."""
    return 0 < len(text) <= MAX_NAME and text.isprintable() and len(text.encode()) <= MAX_NAME_BYTES


def storable(text: str) -> str:
    """A text of anybody's in which escapes stand for what no store can hold, so that different texts stay different."""
    return _UNSTORABLE.sub(_escape, text)


def clean(text: str) -> str:
    """The same for people, who are shown that something stood there, and not what."""
    return _UNSTORABLE.sub("\ufffd", joined(text))


def joined(text: str) -> str:
    """The text in which two halves of a character that stand side by side are that character."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(found: re.Match[str]) -> str:
    return "\\0" if found[0] == "\0" else f"\\u{ord(found[0]):x}"


def guarded(look: Callable[[Any], T], subject: object) -> T | None:
    """What the look finds, or None: the classes of users may override anything, and raise anything."""
    try:
        return look(subject)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - its class may raise anything at a look, even SystemExit
        return None


def check_optional_text(what: str, text: str | None, longest: int = MAX_TEXT) -> str | None:
    """The same for a text that may be missing."""
    return None if text is None else check_text(what, text, longest)


def check_texts(what: str, texts: object) -> tuple[str, ...]:
    """The same for several; a single text is no list of its letters."""
    return tuple(check_text(f"One of {what}", text) for text in check_list(what, texts, "texts"))


def check_list(what: str, given: object, of: str) -> Iterable[Any]:
    """Several of something; a single text is none, and neither is one of them alone."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise Invalid(f"{what} is {shown(given)}; give a list of {of}.")
    return given
