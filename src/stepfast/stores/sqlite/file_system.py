"""Where a store's file may lie: not on a network, where locks and shared memory do not hold."""

from __future__ import annotations

import os
from pathlib import Path

from stepfast.kernel.errors import StoreUnusable

MOUNTS = Path("/proc/mounts")

NETWORK_FILE_SYSTEMS = frozenset({
    "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
    "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs",
})  # fmt: skip


def prepare_folder(path: Path, mounts: Path = MOUNTS) -> None:
    """Make the folder of a store's file, unless it would lie on a network, or is there and no file."""
    kind = file_system_of(path.absolute(), mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreUnusable(
            f"The store {path} lies on a network file system ({kind}), where SQLite's locks do not hold. "
            "Put it on a local disk, or use PostgreSQL."
        )
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise StoreUnusable(f"The store {path} is a device, a pipe or a socket. Name a file.")
    path.parent.mkdir(parents=True, exist_ok=True)


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The kind of file system that a path lies on; None where the system does not tell."""
    if not mounts.exists():
        return None
    lines = (line.split(" ") for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines())
    kinds = {Path(_unescaped(fields[1])): fields[2] for fields in lines}
    # Path.resolve raises RuntimeError at a loop of links, up to Python 3.12; this leaves it to whoever opens the file.
    real = Path(os.path.realpath(path))
    return next((kinds[folder] for folder in (real, *real.parents) if folder in kinds), None)


def _unescaped(mount_point: str) -> str:
    return mount_point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
