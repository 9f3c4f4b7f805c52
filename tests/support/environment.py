"""What tests take from the shell that they are started from: nothing but what is meant for them."""

from __future__ import annotations

import os

SETTINGS = ("STEPFAST_", "WORKER_", "WORKFLOW_")
MEANT_FOR_TESTS = ("STEPFAST_TEST_", "STEPFAST_LONG")


def forget_settings() -> None:
    """Let no setting of somebody's own app change what this process, and those that it starts, are tested with."""
    for name in [*os.environ]:
        if name.startswith(SETTINGS) and not name.startswith(MEANT_FOR_TESTS):
            del os.environ[name]
