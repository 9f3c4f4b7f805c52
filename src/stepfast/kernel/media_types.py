"""Media types: what content is, and what of it is wanted."""

from __future__ import annotations

import re

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown

PLAIN_BYTES = "application/octet-stream"
PLAIN_TEXT = "text/plain"
JSON_TYPE = "application/json"
ANY_TYPE = "*/*"

_NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_MEDIA_TYPE = re.compile(rf"{_NAME}/{_NAME}(; ?[ -~]{{1,200}})?")
_WHOLE_KIND = re.compile(rf"({_NAME}|\*)/\*")


def check_media_type(media_type: object) -> str:
    """A media type in small letters."""
    text = media_type.lower() if isinstance(media_type, str) else ""
    if not _MEDIA_TYPE.fullmatch(text):
        raise Invalid(f"The media type is {shown(media_type)}; write one like 'application/pdf'.")
    return text


def check_kind(wanted: object) -> str:
    """What `fits_type` is asked for, in small letters: a media type, or all of a kind."""
    text = wanted.lower() if isinstance(wanted, str) else ""
    if not _WHOLE_KIND.fullmatch(text) and not _MEDIA_TYPE.fullmatch(text):
        raise Invalid(
            f"The media type is {shown(wanted)}; write one like 'application/pdf', or all of a kind, like 'image/*'."
        )
    return text


def fits_type(media_type: str, wanted: str) -> bool:
    """Whether a media type is the wanted one, or of the wanted kind: `image/*`, `*/*`."""
    plain = media_type.partition(";")[0].rstrip()
    if wanted.endswith("/*"):
        return wanted == ANY_TYPE or plain.startswith(wanted[:-1])
    return wanted in (media_type, plain)
