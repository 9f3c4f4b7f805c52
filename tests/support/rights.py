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
    if os.geteuid() != 0:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


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
