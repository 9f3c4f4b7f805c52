"""`python.call`: a function of a module that an operator has allowed."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from stepfast.kernel.errors import Invalid, StepTimeout
from stepfast.kernel.executor_errors import NotAllowed
from stepfast.kernel.texts import shown
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin.bounds import timeout_problems, timeout_s
from stepfast.workflows.executors.threads import called, in_thread
from stepfast.workflows.steps import AsyncStep, SyncStep


@dataclass(frozen=True)
class CallConfig:
    """How long a function may take; a plain function that does not end is left behind in its thread."""

    timeout: float | str = "5m"


class PythonCall:
    """Call a function of an allowed module, and give what it returns."""

    name = "python.call"

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed

    async def execute(
        self,
        target: str,
        arguments: dict[str, Any] | list[Any] | None = None,
        config: CallConfig = CallConfig(),  # noqa: B008 - it is frozen
    ) -> Any:
        """Call `module:function`, with keywords or with a list of values."""
        limit_s = timeout_s(config.timeout)
        try:
            async with asyncio.timeout(limit_s) as timer:
                function = await self._function(target)
                return await called(function, _with(function, arguments))
        except TimeoutError:
            if not timer.expired():
                raise
            raise StepTimeout(f"{target} did not end within {limit_s:g} s.") from None

    def validate_config(self, config: CallConfig) -> list[str]:
        """What no type can say of the limit."""
        return timeout_problems(config.timeout)

    async def _function(self, target: str) -> Callable[..., Any]:
        module, _, name = target.partition(":")
        if not module or not name.isidentifier() or name.startswith("_"):
            raise Invalid(f"{shown(target)} is no target: write `module:function`, with a name that is public.")
        self._check_module(module)
        try:
            # Beside the event loop: an import may take its time, and do anything.
            found: Any = getattr(await in_thread(partial(importlib.import_module, module)), name, None)
        except ImportError as error:
            raise Invalid(f"{module} cannot be imported on this worker: {error}.") from error
        if not callable(found):
            raise Invalid(f"{module} has no function {shown(name)}.")
        # What a module has imported from elsewhere is no function of its own.
        self._check_module(getattr(found, "__module__", None) or "")
        # Inside the body of a step, and this is one, other steps are plain functions.
        return found.body.function if isinstance(found, AsyncStep | SyncStep) else found

    def _check_module(self, module: str) -> None:
        if not self._allowed.has_module(module):
            raise NotAllowed(f"The module {shown(module)} is not allowed here: name it in STEPFAST_CALL_MODULES.")


def _with(function: Callable[..., Any], arguments: dict[str, Any] | list[Any] | None) -> Callable[[], Any]:
    return partial(function, **arguments) if isinstance(arguments, dict) else partial(function, *arguments or ())
