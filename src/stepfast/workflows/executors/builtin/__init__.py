"""The executors that every app has: programs, HTTP, and functions of modules, each within limits."""

from __future__ import annotations

from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.executor import BUILTIN, Executor


def builtin_executors(allowed: Allowed) -> list[Executor]:
    """Each of them, with what an operator allows."""
    # With all that HTTP and programs need, which most apps never ask for.
    from stepfast.workflows.executors.builtin.call import PythonCall
    from stepfast.workflows.executors.builtin.command import CommandRun
    from stepfast.workflows.executors.builtin.http import HttpCall

    return [Executor.of(make(allowed), kind=BUILTIN, origin="stepfast") for make in (CommandRun, HttpCall, PythonCall)]
