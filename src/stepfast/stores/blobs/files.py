"""The files of a blob folder: written whole or not at all, readable by their owner alone, reached by no link.

Every folder below the root is opened by its name in the one above it, and a link in its place is refused: whoever can
write into the folder still cannot make a blob lead out of it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from stepfast.kernel.blobs import BlobInfo, BlobKey
from stepfast.kernel.durations import Instant
from stepfast.stores.blobs.names import HASHED, folder_of

FOLDER_MODE, FILE_MODE = 0o700, 0o600
# Names with a dot in front are no tenants.
UNFINISHED, LOCK, TENANT = ".unfinished", ".lock", ".tenant"
LEFT_BEHIND_S = 24 * 3_600

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to hang at a pipe that somebody has put in a file's place.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Files:
    """An open blob folder."""

    def __init__(self, root: int, unfinished: int) -> None:
        self.root = root
        self._unfinished = unfinished

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Make the folder where there is none, and clear away what a crash left unfinished long ago."""
        folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            files = cls(root, _enter(root, UNFINISHED))
        except BaseException:
            os.close(root)
            raise
        files._clear_away()
        return files

    def close(self) -> None:
        os.close(self._unfinished)
        os.close(self.root)

    def write(self, key: BlobKey, content: bytes, put_at: int) -> None:
        """Write beside all blobs, then move into place: nobody ever sees half a file."""
        unfinished = f"{key.run_id}.{secrets.token_hex(8)}"
        try:
            _write_new(self._unfinished, unfinished, content, put_at)
            # Removing is kept out meanwhile, with the folders that it would find empty.
            with self._locked(fcntl.LOCK_SH), self._folder(key, make=True) as folder:
                os.rename(unfinished, key.name, src_dir_fd=self._unfinished, dst_dir_fd=folder)
                os.fsync(folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=self._unfinished)
            raise

    def read(self, key: BlobKey) -> bytes | None:
        with suppress(FileNotFoundError), self._folder(key) as folder:
            return read_file(folder, key.name)
        return None

    def info(self, key: BlobKey) -> BlobInfo | None:
        with suppress(FileNotFoundError), self._folder(key) as folder:
            return info_of(key, folder)
        return None

    def remove(self, key: BlobKey, put_before: Instant | None) -> bool:
        with self._locked(fcntl.LOCK_EX), suppress(FileNotFoundError):
            with self._folder(key) as folder:
                found = info_of(key, folder)
                if found is None or (put_before is not None and found.put_at >= put_before):
                    return False
                os.unlink(key.name, dir_fd=folder)
            self._leave(key)
            return True
        return False

    def _leave(self, key: BlobKey) -> None:
        """Take away the run's folder if that was its last blob."""
        with suppress(OSError), opened(self.root, folder_of(key.tenant)) as tenant:
            os.rmdir(key.run_id, dir_fd=tenant)

    @contextmanager
    def _folder(self, key: BlobKey, make: bool = False) -> Iterator[int]:
        """The folder of the key's run."""
        name = folder_of(key.tenant)
        with opened(self.root, name, make) as tenant:
            if make and name.startswith(HASHED):
                self._name(tenant, key.tenant)
            with opened(tenant, key.run_id, make) as run:
                yield run

    def _name(self, folder: int, tenant: str) -> None:
        """Write down whose folder it is, where its name does not say it."""
        if _exists(folder, TENANT):
            return
        unfinished = f"tenant.{secrets.token_hex(8)}"
        _write_new(self._unfinished, unfinished, tenant.encode(), time.time_ns() // 1_000_000)
        os.rename(unfinished, TENANT, src_dir_fd=self._unfinished, dst_dir_fd=folder)
        os.fsync(folder)

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        """Not to be entered while others are inside, or, shared, while somebody removes."""
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=self.root)
        try:
            fcntl.flock(lock, how)
            yield
        finally:
            os.close(lock)

    def _clear_away(self) -> None:
        """By the file system's own clock: whoever still writes a file has written to it today."""
        for name in os.listdir(self._unfinished):
            with suppress(FileNotFoundError):
                changed_at = os.stat(name, dir_fd=self._unfinished, follow_symlinks=False).st_ctime
                if changed_at < time.time() - LEFT_BEHIND_S:
                    os.unlink(name, dir_fd=self._unfinished)


@contextmanager
def opened(parent: int, name: str, make: bool = False) -> Iterator[int]:
    """A folder within another; a link is refused."""
    folder = _enter(parent, name) if make else os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


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


def _write_new(folder: int, name: str, content: bytes, changed_at: int) -> None:
    file = os.open(name, _NEW, FILE_MODE, dir_fd=folder)
    with open(file, "wb", buffering=0) as writable:
        left = memoryview(content)
        while left:
            left = left[writable.write(left) :]
        os.utime(file, ns=(changed_at * 1_000_000, changed_at * 1_000_000))
        os.fsync(file)
