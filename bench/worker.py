"""The worker that is measured: `stepfast worker` itself, in a process of its own, until it is killed."""

from __future__ import annotations

from contextlib import AbstractContextManager

from bench.processes import Child, background
from bench.workflows import ALL
from stepfast import Stepfast

app = Stepfast(workflows=ALL)


def worker(url: str, *options: object) -> AbstractContextManager[Child]:
    """A worker of this database with the options of the command."""
    return background("stepfast", "worker", "--app", "bench.worker:app", "--database", url, *options)
