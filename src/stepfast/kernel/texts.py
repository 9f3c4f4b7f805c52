"""Short texts that people give: names, keys, tenants, tags."""

from __future__ import annotations

from collections.abc import Iterable

from stepfast.kernel.errors import Invalid

MAX_TEXT = 1_000
MAX_NOTE = 10_000
"""Of what a person has to say."""
SHOWN = 100
# A number that is longer takes Python long to write, and above 4,300 digits it refuses.
SHOWN_BITS = 256


def shown(value: object) -> str:
    """What somebody gave, for a message: of something long only its beginning or its size."""
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        return f"a number of {value.bit_length():,} bits"
    try:
        text = repr(value[: SHOWN + 1] if isinstance(value, str | bytes) else value)
    except Exception:  # noqa: BLE001 - how a thing shows itself is up to its class, and may fail
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def check_text(what: str, text: str, longest: int = MAX_TEXT) -> str:
    """Refuse what no store can hold as plain text: nothing at all, too much, NUL, lone surrogates."""
    if not isinstance(text, str):
        raise Invalid(f"{what} is {shown(text)}; it must be text.")
    if not 1 <= len(text) <= longest:
        raise Invalid(f"{what} has {len(text):,} characters; allowed are 1 to {longest:,}.")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid(f"{what} is {shown(text)}; a NUL character or a lone surrogate cannot be stored. Leave it out.")
    return text


def storable(text: str) -> str:
    """A text of anybody's in which escapes stand for what no store can hold: NUL, lone surrogates."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def check_optional_text(what: str, text: str | None) -> str | None:
    """The same for a text that may be missing."""
    return None if text is None else check_text(what, text)


def check_texts(what: str, texts: object) -> tuple[str, ...]:
    """The same for several; a single text is no list of its letters."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise Invalid(f"{what} is {shown(texts)}; give a list of texts.")
    return tuple(check_text(f"One of {what}", text) for text in texts)
