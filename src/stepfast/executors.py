"""The executors of an app: what steps of graphs and templates can call by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.retry import Retry
from stepfast.workflows.executors import plugins
from stepfast.workflows.executors.domains import Domain
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.executors.health import Health, HealthCheck
from stepfast.workflows.executors.plugins import Plugin, Problem
from stepfast.workflows.executors.registry import ExecutorRegistry

Listed = list[Executor]
Plugins = list[Plugin]


class ExecutorList:
    """What an app has under which name. Plain calls: they may come before the app is open, and from any thread."""

    def __init__(self, registry: ExecutorRegistry) -> None:
        self._registry = registry

    def register(
        self,
        thing: object,
        name: str | None = None,
        description: str | None = None,
        *,
        health: HealthCheck | None = None,
    ) -> Executor:
        """Make a function, a step, a class with `execute` (made without arguments) or an instance an executor.

        Two under one name are refused, unless they are the very same thing. Workers that run already say so at once.
        """
        return self._registry.register(thing, name, description, health=health)

    def unregister(self, name: str) -> None:
        """Forget an executor; open runs of it wait for a worker that has it, and `why` says so."""
        self._registry.unregister(name)

    def domain(self, name: str, *, retry: Retry | None = None) -> Domain:
        """A domain whose executors are those of this app alone; `retry` is for those without a policy of their own."""
        return self._registry.domain(name, retry=retry)

    def get(self, name: str) -> Executor:
        """One executor; plugins are looked through when nobody else has the name."""
        return self._registry.get(name)

    def list(self, domain: str | None = None) -> Listed:
        """Every executor, by name, with those of plugins; or those of one domain."""
        return self._registry.list(domain)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The plugins that could not be used, and why."""
        return self._registry.problems

    def plugins(self, group: str | None = None) -> Plugins:
        """What installed packages offer by their entry points, as their metadata has it; nothing is imported."""
        return plugins.plugins(group)


class Executors(ExecutorList):
    """The same, and whether they are well."""

    async def health(
        self, names: Iterable[str] | None = None, timeout: Duration = "5s", *, apart: bool = False
    ) -> dict[str, Health]:
        """Ask executors, all of them at once, whether they could do their work now; without names, every one.

        `apart` asks each in a thread and an event loop of its own: one that blocks then holds up nobody else.
        """
        timeout_s = span_ms(timeout, "timeout") / 1_000
        asked = {each.name: each for each in (self.list() if names is None else map(self.get, names))}
        answers = await asyncio.gather(*(each.check_health(timeout_s, apart=apart) for each in asked.values()))
        return dict(zip(asked, answers, strict=True))
