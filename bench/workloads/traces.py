"""Traces of step bodies: a file with a line for each time that one ran."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.workflows import TRACE_VARIABLE


class Trace:
    """What bodies have written so far."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    def run_again(self) -> int:
        """How many bodies ran that had run before."""
        lines = self.lines()
        return len(lines) - len(set(lines))


@contextmanager
def tracing() -> Iterator[Trace]:
    """A trace that all processes started in the block write to."""
    with tempfile.TemporaryDirectory(prefix="stepfast-bench-") as folder:
        path = Path(folder, "trace")
        os.environ[TRACE_VARIABLE] = str(path)
        try:
            yield Trace(path)
        finally:
            del os.environ[TRACE_VARIABLE]
