"""The files of a blob folder: written whole or not at all, readable by their owner alone, reached by no link.

Every folder below the root is opened by its name in the one above it, and a link in its place is refused: whoever can
write into the folder still cannot make a blob lead out of it. The root is found by its path for every call: one that
was moved away, or is no longer mounted, is not written to unseen, and is found when it is back. It is known by the
identity in it, for another may be in its place.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from stepfast.file_locks import locked
from stepfast.kernel.blobs import BlobInfo, BlobKey
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StoreUnavailable
from stepfast.stores.blobs.names import HASHED, folder_of
from stepfast.stores.blobs.problems import IDENTITY, another_there

T = TypeVar("T")

FOLDER_MODE, FILE_MODE = 0o700, 0o600
# Names with a dot in front are no tenants.
UNFINISHED, LOCK, TENANT = ".unfinished", ".lock", ".tenant"
IDENTITY_BYTES = 16
LEFT_BEHIND_S = 24 * 3_600

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to hang at a pipe that somebody has put in a file's place.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Files:
    """The folder of that path, which is ours if it holds our identity.

    Without one no folder is ours yet. Whatever is called but `make` makes no folder in the place of one that is away.
    """

    def __init__(self, folder: Path) -> None:
        # Code that changes the working directory later does not change which folder is meant.
        self._folder = folder.absolute()

    def identity(self) -> str | None:
        """That of the folder that is there now; None where there is none, or it has none."""
        with suppress(FileNotFoundError), self._root() as root:
            return _identity(root)
        return None

    def prepare(self, identity: str | None) -> None:
        """Clear away what a crash left unfinished long ago; where no folder is ours yet, see that one can be made."""
        if identity is None:
            self._check_room()
            return
        with suppress(StoreUnavailable, FileNotFoundError), self.whole(identity) as (_, unfinished):
            _clear_away(unfinished)

    def make(self) -> str:
        """Make the folder where there is none, and an identity in it if it has none; which it has."""
        self._folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        with self._root() as root, opened(root, UNFINISHED, make=True) as unfinished:
            return _made_identity(root, unfinished)

    def write(self, key: BlobKey, content: bytes, put_at: int, identity: str) -> None:
        """Write beside all blobs, then move into place: nobody ever sees half a file."""
        with (
            self.whole(identity) as (root, unfinished),
            _written(unfinished, key.run_id, content, put_at) as file,
            # Removing is kept out meanwhile, with the folders that it would find empty.
            _locked(root, fcntl.LOCK_SH),
            opened(root, folder_of(key.tenant), make=True) as tenant,
        ):
            _name(tenant, key.tenant, unfinished)
            with opened(tenant, key.run_id, make=True) as run:
                _move(file, unfinished, key.name, run)

    def read(self, key: BlobKey, identity: str | None) -> bytes | None:
        return self._found(key, identity, lambda folder: read_file(folder, key.name))

    def info(self, key: BlobKey, identity: str | None) -> BlobInfo | None:
        return self._found(key, identity, lambda folder: info_of(key, folder))

    def remove(self, key: BlobKey, put_before: Instant | None, identity: str) -> bool:
        with self.whole(identity) as (root, _), _locked(root, fcntl.LOCK_EX), suppress(FileNotFoundError):
            with _of_run(root, key) as folder:
                found = info_of(key, folder)
                if found is None or (put_before is not None and found.put_at >= put_before):
                    return False
                os.unlink(key.name, dir_fd=folder)
            _leave(root, key)
            return True
        return False

    @contextmanager
    def whole(self, identity: str) -> Iterator[tuple[int, int]]:
        """The root, and what is unfinished in it, if it is ours.

        Another, as the empty one where ours should be mounted, is not: what was written there would be out of sight
        later, and what is not found there need not be gone.
        """
        with self._root() as root:
            self._check(root, identity)
            with opened(root, UNFINISHED, make=True) as unfinished:
                yield root, unfinished

    def _found(self, key: BlobKey, identity: str | None, look: Callable[[int], T]) -> T | None:
        """What there is of a blob; None where there is none, and raises where that says nothing."""
        if identity is None and not self._folder.exists():
            return None
        with self._root() as root:
            with suppress(FileNotFoundError), _of_run(root, key) as folder:
                return look(folder)
            if identity is not None:
                self._check(root, identity)
            return None

    def _check(self, root: int, identity: str) -> None:
        found = _identity(root)
        if found != identity:
            raise another_there(self._folder, identity, found)

    def _check_room(self) -> None:
        nearest = next(path for path in (self._folder, *self._folder.parents) if path.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(nearest))
        if not os.access(nearest, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(nearest))

    @contextmanager
    def _root(self) -> Iterator[int]:
        # The one place where a link is followed: it is not in the folder, but leads to it.
        root = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield root
        finally:
            os.close(root)


def _identity(root: int) -> str | None:
    """What a folder holds as its identity; people may have written it, with an end of line."""
    try:
        return read_file(root, IDENTITY).decode(errors="replace").strip() or None
    except FileNotFoundError:
        return None


def _made_identity(root: int, unfinished: int) -> str:
    """Give a folder an identity; of several at once who would, one gives it."""
    with _locked(root, fcntl.LOCK_EX):
        given = _identity(root)
        if given is None:
            given = secrets.token_hex(IDENTITY_BYTES)
            with _written(unfinished, "identity", given.encode(), _now_ms()) as file:
                _move(file, unfinished, IDENTITY, root)
        return given


@contextmanager
def opened(parent: int, name: str, make: bool = False) -> Iterator[int]:
    """A folder within another; a link is refused."""
    folder = _enter(parent, name) if make else os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _of_run(root: int, key: BlobKey) -> Iterator[int]:
    """The folder of the key's run."""
    with opened(root, folder_of(key.tenant)) as tenant, opened(tenant, key.run_id) as run:
        yield run


@contextmanager
def _locked(root: int, how: int) -> Iterator[None]:
    """Not to be entered while others are inside, or, shared, while somebody removes."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=root)
    try:
        with locked(lock, how):
            yield
    finally:
        os.close(lock)


def _leave(root: int, key: BlobKey) -> None:
    """Take away the run's folder if that was its last blob."""
    with suppress(OSError), opened(root, folder_of(key.tenant)) as tenant:
        os.rmdir(key.run_id, dir_fd=tenant)


def _clear_away(unfinished: int) -> None:
    """By the file system's own clock: whoever still writes a file has written to it today."""
    for name in os.listdir(unfinished):
        with suppress(FileNotFoundError):
            changed_at = os.stat(name, dir_fd=unfinished, follow_symlinks=False).st_ctime
            if changed_at < time.time() - LEFT_BEHIND_S:
                os.unlink(name, dir_fd=unfinished)


def read_file(folder: int, name: str) -> bytes:
    file = os.open(name, _READ, dir_fd=folder)
    with open(file, "rb") as readable:
        return readable.read()


def info_of(key: BlobKey, folder: int) -> BlobInfo | None:
    """What is known of a blob without reading it; None for what is no plain file."""
    found = os.stat(key.name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return None
    return BlobInfo(key, found.st_size, Instant(found.st_mtime_ns // 1_000_000))


def _enter(parent: int, name: str) -> int:
    """Open a folder, which is made first where there is none, and is on disk then."""
    try:
        os.mkdir(name, FOLDER_MODE, dir_fd=parent)
    except FileExistsError:
        pass
    else:
        os.fsync(parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _name(folder: int, tenant: str, unfinished: int) -> None:
    """Write down whose folder it is, where its name does not say it."""
    if not folder_of(tenant).startswith(HASHED) or _exists(folder, TENANT):
        return
    with _written(unfinished, "tenant", tenant.encode(), _now_ms()) as file:
        _move(file, unfinished, TENANT, folder)


@contextmanager
def _written(unfinished: int, name: str, content: bytes, changed_at: int) -> Iterator[str]:
    """The name of a new file beside all blobs, which goes if it is not moved into its place."""
    file = f"{name}.{secrets.token_hex(8)}"
    try:
        _write_new(unfinished, file, content, changed_at)
        yield file
    except BaseException:
        with suppress(OSError):
            os.unlink(file, dir_fd=unfinished)
        raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _move(file: str, unfinished: int, name: str, folder: int) -> None:
    os.rename(file, name, src_dir_fd=unfinished, dst_dir_fd=folder)
    os.fsync(folder)


def _write_new(folder: int, name: str, content: bytes, changed_at: int) -> None:
    file = os.open(name, _NEW, FILE_MODE, dir_fd=folder)
    with open(file, "wb", buffering=0) as writable:
        left = memoryview(content)
        while left:
            left = left[writable.write(left) :]
        os.utime(file, ns=(changed_at * 1_000_000, changed_at * 1_000_000))
        os.fsync(file)
