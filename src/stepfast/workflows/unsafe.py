"""Calls in workflow code that give another answer on every replay: found by reading the code, before anything runs."""

from __future__ import annotations

import ast
import asyncio
import builtins
import concurrent.futures.thread
import datetime
import inspect
import os
import random
import secrets
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from stepfast.workflows.registry import Executable

_DO_IN_A_STEP = "do it in a function marked @step"
_SIDE_BY_SIDE = "use stepfast.each()"
_DURABLE_NOW, _DURABLE_SLEEP = "use durable.now()", "use stepfast.sleep()"
_DURABLE_RANDOM, _DURABLE_TIMEOUT = "use durable.random()", "use stepfast.timeout()"

INSTEAD: Mapping[str, str] = {
    "time.time": _DURABLE_NOW,
    "time.time_ns": _DURABLE_NOW,
    "time.monotonic": _DURABLE_NOW,
    "time.perf_counter": _DURABLE_NOW,
    "time.sleep": _DURABLE_SLEEP,
    "datetime.datetime.now": _DURABLE_NOW,
    "datetime.datetime.utcnow": _DURABLE_NOW,
    "datetime.date.today": _DURABLE_NOW,
    "datetime.datetime.today": _DURABLE_NOW,
    "uuid.uuid1": "use durable.uuid()",
    "uuid.uuid4": "use durable.uuid()",
    "random.random": _DURABLE_RANDOM,
    "random.randint": _DURABLE_RANDOM,
    "random.choice": _DURABLE_RANDOM,
    "random.shuffle": _DURABLE_RANDOM,
    "random.uniform": _DURABLE_RANDOM,
    "secrets.token_hex": "use durable.uuid()",
    "secrets.token_bytes": _DO_IN_A_STEP,
    "secrets.token_urlsafe": _DO_IN_A_STEP,
    "os.getenv": _DO_IN_A_STEP,
    "os.urandom": _DO_IN_A_STEP,
    "asyncio.sleep": _DURABLE_SLEEP,
    "asyncio.timeout": _DURABLE_TIMEOUT,
    "asyncio.wait_for": _DURABLE_TIMEOUT,
    "asyncio.to_thread": _DO_IN_A_STEP,
    "asyncio.run": _DO_IN_A_STEP,
    # It may stand in a set, which has another order each time.
    "asyncio.Future": "use asyncio.get_running_loop().create_future()",
    "threading.Thread": _SIDE_BY_SIDE,
    "concurrent.futures.thread.ThreadPoolExecutor": _SIDE_BY_SIDE,
    "builtins.open": _DO_IN_A_STEP,
    "builtins.input": "use stepfast.receive()",
}

_MODULES = {
    module.__name__: module
    for module in (asyncio, builtins, concurrent, datetime, os, random, secrets, threading, time, uuid)
} | {"concurrent.futures": concurrent.futures}


class UnsafeCall(NamedTuple):
    """A call in a workflow's own code that does not replay, where it stands, and what to use instead."""

    workflow: str
    file: str
    line: int
    call: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.workflow} calls {self.call}(), which does not replay: {self.instead}."


def unsafe_calls(workflow: Executable) -> list[UnsafeCall]:
    """The calls in a workflow's function that give another answer each time; what it calls is not looked into."""
    try:
        lines, first = inspect.getsourcelines(workflow.function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        # Code without a file, as in a console: there is nothing to read.
        return []
    file = inspect.getsourcefile(workflow.function) or "?"
    names = {**_names_of(workflow.function), **dict(_imported(tree))}
    calls = sorted(_found(tree, names), key=lambda call: (call[0].lineno, call[0].col_offset))
    return [UnsafeCall(workflow.code, file, first + node.lineno - 1, call, INSTEAD[call]) for node, call in calls]


def _found(tree: ast.AST, names: Mapping[str, object]) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (found := _unsafe_name(node.func, names)) is not None:
            if found == "asyncio.sleep" and _is_zero(node):
                continue
            yield node, found


def _names_of(function: Callable[..., Any]) -> Mapping[str, object]:
    plain: Any = inspect.unwrap(function)
    return {**vars(builtins), **plain.__globals__, **inspect.getclosurevars(plain).nonlocals}


def _imported(tree: ast.AST) -> Iterator[tuple[str, object]]:
    """What the names that the function itself imports stand for: not what they are in its file, None if not known."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import os.path` gives the name os.
                bound = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or bound, _MODULES.get(bound)
        elif isinstance(node, ast.ImportFrom):
            module = None if node.level else _MODULES.get(node.module or "")
            for alias in node.names:
                yield alias.asname or alias.name, inspect.getattr_static(module, alias.name, None)


def _value(node: ast.expr, names: Mapping[str, object]) -> object:
    """What a name, or a name with dots, stands for in the code; None when that is not known without running it."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return inspect.getattr_static(_value(node.value, names), node.attr, None)
    return None


def _unsafe_name(called: ast.expr, names: Mapping[str, object]) -> str | None:
    value = _value(called, names)
    if value is None:
        return None
    owner = _value(called.value, names) if isinstance(called, ast.Attribute) else None
    found = [known for known in _KNOWN if known.value is value]
    # One class may have it from another, as datetime has today() from date: the one that was called is meant.
    return next((known.name for known in found if known.owner is owner), found[0].name if found else None)


class Known(NamedTuple):
    """A function that does not replay, and what it is called on."""

    name: str
    owner: object
    value: object


def _known() -> Iterator[Known]:
    for name in INSTEAD:
        module, *path = name.split(".")
        owner: object = None
        value: object = _MODULES[module]
        for part in path:
            owner, value = value, inspect.getattr_static(value, part)
        yield Known(name, owner, value)


_KNOWN = list(_known())


def _is_zero(call: ast.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
