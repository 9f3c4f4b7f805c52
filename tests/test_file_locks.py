"""Locks on files, and copies of the process that holds them (fork)."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# A copy is made in the middle of a lock, and stays until stdin ends, whatever becomes of the process itself.
MAKES_A_COPY = """
import fcntl, os, sys
from stepfast.file_locks import locked

file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
begun, begins = os.pipe()
with locked(file, fcntl.LOCK_EX):
    if os.fork() == 0:
        os.write(begins, b".")
        sys.stdin.read()
        os._exit(0)
    os.read(begun, 1)
    if sys.argv[2] == "dies":
        os._exit(1)
"""


@contextmanager
def left_behind(path: Path, how: str) -> Iterator[None]:
    """What a process leaves behind that made a copy of itself while it held a lock on a file."""
    command = [sys.executable, "-c", MAKES_A_COPY, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        process.wait()
        yield


@pytest.mark.parametrize("how", ["lets go of it", "dies"])
def test_a_copy_of_a_process_does_not_keep_its_lock(tmp_path, how):
    path = tmp_path / "lock"
    with left_behind(path, how):
        file = os.open(path, os.O_RDWR)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(file)
