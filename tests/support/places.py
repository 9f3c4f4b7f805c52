"""Where tests keep their files: in memory where there is room for it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 2 * 1024**3


def keep_files_in_memory(folder: Path = MEMORY) -> None:
    """Let this process, and those that it starts, make temporary files in memory, unless somebody chose a place.

    No test cuts the power, and what a killed process has written stays there too. A PostgreSQL database is made and
    dropped in a tenth of the time, and a commit waits for no disk.
    """
    if "TMPDIR" not in os.environ and _is_good(folder):
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None


def _is_good(folder: Path) -> bool:
    if not os.access(folder, os.W_OK | os.X_OK) or shutil.disk_usage(folder).free < ENOUGH_BYTES:
        return False
    # Tests run programs that they have written themselves.
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC
