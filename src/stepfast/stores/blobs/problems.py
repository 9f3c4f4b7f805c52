"""What the file system complains about, as errors that name the folder, its state and the next step."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from stepfast.kernel.errors import StoreUnavailable, StoreUnusable

IDENTITY = ".identity"
"""The file by which a folder is told from another in its place."""

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
_PUT_BACK = "Put it back, or mount it, with all that was in it."
_OTHER = "cannot be used by the system. Check the path and the disk."


def another_there(folder: Path, identity: str, found: str | None) -> StoreUnavailable:
    """The error for a folder that is not the one in which the database's large values are."""
    other = f"a folder without `{IDENTITY}`" if found is None else f"another folder, {found!r},"
    return StoreUnavailable(
        f"The blob folder {folder} is away: {other} is in its place. {_PUT_BACK} To go on with the one that is there "
        f"for good: `echo {identity} > {quote(str(folder / IDENTITY))}`."
    )


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn what the file system raises about the folder into an error of the kernel."""
    try:
        yield
    except FileNotFoundError as problem:
        raise StoreUnavailable(f"The blob folder {folder} is away. {_PUT_BACK} ({problem})") from problem
    except OSError as problem:
        state = _STATES.get(problem.errno or 0, _OTHER)
        raise StoreUnusable(f"The blob folder {folder} {state} ({problem})") from problem
