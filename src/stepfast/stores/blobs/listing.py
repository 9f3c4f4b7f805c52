"""Walking through a blob folder from where the last page ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, check_key
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import RunId
from stepfast.stores.blobs.files import TENANT, info_of, opened, read_file
from stepfast.stores.blobs.names import HASHED, folder_of, tenant_of

# What is gone by now, and files or links that somebody has put where folders are.
NO_FOLDER = (FileNotFoundError, NotADirectoryError)


def walk(root: int, where: BlobFilter) -> Iterator[BlobInfo]:
    """Every blob that is asked for, by the names of folders and files; what is no blob is passed over."""
    only = None if where.tenant is None else folder_of(where.tenant)
    begin = "" if where.after is None else folder_of(where.after.tenant)
    for name in _names(root, begin, only):
        with suppress(*NO_FOLDER), opened(root, name) as folder:
            tenant = _tenant(folder, name)
            if tenant is not None:
                yield from _of_tenant(folder, tenant, where.run_id, where.after if name == begin else None)


def _of_tenant(folder: int, tenant: str, only: RunId | None, after: BlobKey | None) -> Iterator[BlobInfo]:
    begin = "" if after is None else after.run_id
    for name in _names(folder, begin, only):
        with suppress(*NO_FOLDER), opened(folder, name) as run:
            yield from _of_run(run, tenant, RunId(name), after.name if after and name == begin else "")


def _of_run(folder: int, tenant: str, run_id: RunId, after: str) -> Iterator[BlobInfo]:
    for name in _names(folder, after, None):
        with suppress(FileNotFoundError, Invalid):
            found = info_of(check_key(BlobKey(tenant, run_id, name)), folder)
            if found is not None and name > after:
                yield found


def _names(folder: int, begin: str, only: str | None) -> list[str]:
    """The names in a folder from one on, in order; those with a dot in front are ours."""
    names = os.listdir(folder) if only is None else [only]
    return sorted(name for name in names if name >= begin and not name.startswith("."))


def _tenant(folder: int, name: str) -> str | None:
    """Whose folder it is; None when it is none of ours."""
    try:
        tenant = read_file(folder, TENANT).decode() if name.startswith(HASHED) else tenant_of(name)
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return tenant if folder_of(tenant) == name else None
