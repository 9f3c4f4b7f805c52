"""Permissions that apply, also where tests run as root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user to whom permissions apply."""
    with as_user(NOBODY):
        yield


@contextmanager
def as_user(user: int, *groups: int) -> Iterator[None]:
    """As a user with a group of its own, and of these; where tests do not run as root, as the one they run as."""
    if os.geteuid() != 0:
        yield
        return
    before = os.getgroups()
    os.setgroups(groups)
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that everybody may look into, which a test's own temporary one is not; removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="stepfast-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
