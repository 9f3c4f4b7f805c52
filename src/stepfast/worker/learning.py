"""Learning of workflows that were registered as data: they are compiled here, and this worker can execute them too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepfast.kernel.definitions import DefinitionKind, DefinitionView
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Store
from stepfast.log import Log
from stepfast.workflows.functions import Workflow
from stepfast.workflows.registry import Registry

log = Log("worker")

PAGE = 100

CompileDefinition = Callable[[DefinitionView], Workflow]
"""Makes a workflow of what was registered; raises what is missing for it here."""


class Learner:
    """What one app knows of the definitions on its store; its workers share it."""

    def __init__(
        self, store: Store, registry: Registry, compile_definition: CompileDefinition, learned: Callable[[], None]
    ) -> None:
        self._store = store
        self._registry = registry
        self._compile = compile_definition
        self._learned = learned
        self._seen = 0
        self._lacking: list[DefinitionView] = []
        self._tried_at: tuple[int, ...] = ()
        self._looking = asyncio.Lock()

    def has_to_learn(self, newest: int) -> bool:
        """Whether there is a definition that was not seen here, or what one lacked may be there by now."""
        return newest > self._seen or (bool(self._lacking) and self._registry.changes != self._tried_at)

    async def look(self) -> None:
        """Learn what is new, and try again what could not be compiled, if more can be by now."""
        async with self._looking:
            try:
                found = await self._read_new()
            except StepfastError as error:
                log.warning("definitions_not_read", error=error)
                return
            changed = self._try_again()
            for definition in found:
                changed = self.take(definition) or changed
        if changed:
            self._learned()

    def take(self, definition: DefinitionView) -> bool:
        """Compile a definition and make it known; whether anything is to be said of it."""
        # The code of a graph stays with whoever has it; its content describes it only.
        if definition.kind is not DefinitionKind.TEMPLATE:
            return False
        problem = self._problem_of(definition)
        if problem is None:
            return True
        log.warning("definition_not_compiled", code=definition.code, tenant=definition.tenant, problem=problem)
        self._lacking.append(definition)
        self._registry.lack(definition.code, problem)
        return True

    async def _read_new(self) -> list[DefinitionView]:
        found: list[DefinitionView] = []
        while page := await self._store.definitions_after(self._seen, PAGE):
            found += page
            self._seen = page[-1].number
            if len(page) < PAGE:
                break
        return found

    def _try_again(self) -> bool:
        """What was missing may have been registered since."""
        changes = self._registry.changes
        if not self._lacking or changes == self._tried_at:
            return False
        self._tried_at = changes
        before, self._lacking = self._lacking, []
        for definition in before:
            problem = self._problem_of(definition)
            if problem is not None:
                self._lacking.append(definition)
                self._registry.lack(definition.code, problem)
        return len(self._lacking) < len(before)

    def _problem_of(self, definition: DefinitionView) -> str | None:
        try:
            workflow = self._compile(definition)
        except StepfastError as error:
            return str(error)
        except Exception as error:
            # Other people's content and executors: one definition must not keep the others from being learned.
            log.exception("definition_not_compiled", code=definition.code)
            return f"{type(error).__name__}: {error}"
        self._registry.learn(definition.tenant, workflow)
        return None
