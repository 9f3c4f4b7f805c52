"""What tests take from the shell that they are started from: nothing but what is meant for them."""

from __future__ import annotations

import os

SETTINGS = ("STEPFAST_", "WORKER_", "WORKFLOW_")
MEANT_FOR_TESTS = ("STEPFAST_TEST_", "STEPFAST_LONG")
# What was asked of these tests is not asked of those that they run in processes of their own, and look at.
OF_THE_RUNNER = ("PYTEST_ADDOPTS",)


def forget_settings() -> None:
    """Let no setting of somebody's own app change what this process, and those that it starts, are tested with."""
    for name in [*os.environ]:
        is_a_setting = name.startswith(SETTINGS) and not name.startswith(MEANT_FOR_TESTS)
        if is_a_setting or name in OF_THE_RUNNER:
            del os.environ[name]
