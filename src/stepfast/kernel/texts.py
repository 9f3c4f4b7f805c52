"""Short texts that people give: names, keys, tenants, tags."""

from __future__ import annotations

from stepfast.kernel.errors import Invalid

MAX_TEXT = 1_000


def check_text(what: str, text: str) -> str:
    """Refuse what no store can hold as plain text: nothing at all, too much, NUL, lone surrogates."""
    if not isinstance(text, str):
        raise Invalid(f"{what} is {text!r}; it must be text.")
    if not 1 <= len(text) <= MAX_TEXT:
        raise Invalid(f"{what} has {len(text):,} characters; allowed are 1 to {MAX_TEXT:,}.")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid(f"{what} is {text!r}; a NUL character or a lone surrogate cannot be stored. Leave it out.")
    return text


def check_optional_text(what: str, text: str | None) -> str | None:
    """The same for a text that may be missing."""
    return None if text is None else check_text(what, text)
