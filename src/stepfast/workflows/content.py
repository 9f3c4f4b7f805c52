"""Content as people give it: bytes, a text, or the path of a file."""

from __future__ import annotations

import asyncio
import mimetypes
from pathlib import Path
from typing import NamedTuple

from stepfast.kernel.assets import MAX_CONTENT, check_size
from stepfast.kernel.errors import Invalid
from stepfast.kernel.media_types import PLAIN_BYTES, PLAIN_TEXT
from stepfast.kernel.texts import shown

Content = bytes | bytearray | memoryview | str | Path


class Given(NamedTuple):
    """A content, and the media type that it has if nobody says another."""

    content: bytes
    media_type: str


async def content_of(what: str, given: Content) -> Given:
    """The bytes that are meant; what is too large is refused before it is read."""
    if isinstance(given, Path):
        return await asyncio.to_thread(_read, what, given)
    if isinstance(given, str):
        found = Given(_encoded(what, given), PLAIN_TEXT)
    elif isinstance(given, bytes | bytearray | memoryview):
        found = Given(bytes(given), PLAIN_BYTES)
    else:
        raise Invalid(f"{what} is {shown(given)}; give bytes, a text, or the Path of a file.")
    check_size(what, len(found.content))
    return found


def _encoded(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(
            f"{what} has a lone surrogate at {error.start:,}, which cannot be stored. Leave it out."
        ) from error


def _read(what: str, path: Path) -> Given:
    try:
        with path.open("rb") as file:
            check_size(what, path.stat().st_size)
            # The file may grow meanwhile, and what tells no size, as a pipe does, may have no end.
            content = file.read(MAX_CONTENT + 1)
    except OSError as error:
        raise Invalid(f"{what} cannot be read from {path}: {error.strerror or error}.") from error
    check_size(what, len(content))
    return Given(content, mimetypes.guess_type(path.name)[0] or PLAIN_BYTES)
