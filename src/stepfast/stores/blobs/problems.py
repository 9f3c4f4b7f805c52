"""What the file system complains about, as errors that name the folder, its state and the next step."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepfast.kernel.errors import StoreUnavailable, StoreUnusable

_NOT_ALLOWED = "may not be used. Allow this program to read and write it."
_STATES = {
    errno.ENOSPC: "cannot grow: the disk is full. Nothing was written; free some space.",
    errno.EDQUOT: "cannot grow: the quota is used up. Nothing was written; free some space.",
    errno.EROFS: "cannot be written: its file system is read-only. Mount it for writing.",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.ENOTDIR: "has a file or a link where a folder should be. Move it away.",
    errno.ELOOP: "has a link where a folder or file of its own should be. Move it away.",
}
_AWAY = "is away, or another without `.unfinished` is in its place. Put it back, or mount it, with all that was in it."
_OTHER = "cannot be used by the system. Check the path and the disk."


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn what the file system raises about the folder into an error of the kernel."""
    try:
        yield
    except FileNotFoundError as problem:
        raise StoreUnavailable(f"The blob folder {folder} {_AWAY} ({problem})") from problem
    except OSError as problem:
        state = _STATES.get(problem.errno or 0, _OTHER)
        raise StoreUnusable(f"The blob folder {folder} {state} ({problem})") from problem
