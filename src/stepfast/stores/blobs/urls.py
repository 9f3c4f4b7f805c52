"""From what people say to the blob store they mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from stepfast.kernel.blobs import IN_THE_DATABASE, Blobs
from stepfast.kernel.errors import Invalid

if TYPE_CHECKING:
    from stepfast.kernel.ports import Store

FORMS = "`database`, a folder, or file:///folder"


def blobs_for(given: str | Path | Blobs, store: Store, clock: Callable[[], int]) -> Blobs:
    """The blob store that is meant; opening it is the caller's."""
    # Whoever only checks what is meant needs neither.
    from stepfast.stores.blobs.database import DatabaseBlobs
    from stepfast.stores.blobs.folder import FolderBlobs
    from stepfast.stores.blobs.memory import StoreMemory

    if given == IN_THE_DATABASE:
        return DatabaseBlobs(store)
    if isinstance(given, str | Path):
        given = FolderBlobs(_folder(given) if isinstance(given, str) else given, clock)
    if isinstance(given, FolderBlobs):
        given.memory = StoreMemory(store)
    return given


def check_blobs(text: str) -> None:
    """Refuse a text that names no blob store."""
    _folder(text)


def _folder(text: str) -> Path:
    parts = urlsplit(text)
    if "://" not in text:
        return Path(text)
    if parts.scheme != "file" or parts.netloc or parts.path in ("", "/"):
        raise Invalid(f"The blob store {text!r} is not understood; write {FORMS}.")
    return Path(unquote(parts.path))
