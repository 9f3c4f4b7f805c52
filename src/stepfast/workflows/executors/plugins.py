"""Plugins: what installed packages bring, found by their entry points; a broken one concerns nobody else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepfast.log import Log
from stepfast.workflows.executors.threads import within

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

log = Log("plugins")

EXECUTORS = "stepfast.executors"
GROUPS = (EXECUTORS, "stepfast.nodes", "stepfast.sinks", "stepfast.metrics")
DEFAULT_ORDER = 100
# How long a plugin may take to be imported, and to register what it brings.
PATIENCE_S = 60.0

T = TypeVar("T")
_LOADING: ContextVar[bool] = ContextVar("stepfast_plugin_loading", default=False)


class Plugin(NamedTuple):
    """An entry point of an installed package, as its metadata has it; nothing of it is imported yet."""

    group: str
    name: str
    target: str
    distribution: str
    version: str

    @property
    def origin(self) -> str:
        """Where it comes from, for people."""
        return f"{self.distribution} {self.version}".rstrip()


class Problem(NamedTuple):
    """A plugin that could not be used, and why."""

    plugin: Plugin
    error: str

    def __str__(self) -> str:
        return f"Plugin {self.plugin.name} of {self.plugin.origin} cannot be used: {self.error}"


class Loaded(NamedTuple):
    """What a plugin's entry point stands for."""

    plugin: Plugin
    thing: Any
    order: int


def plugins(group: str | None = None) -> list[Plugin]:
    """What the installed packages offer, by their metadata alone."""
    known = [plugin for plugin, _ in _found(tuple(sys.path))]
    return [plugin for plugin in known if group in (None, plugin.group)]


def load(group: str, problems: list[Problem]) -> list[Loaded]:
    """Import what a group's plugins stand for, in their declared order; those that cannot be go to `problems`."""
    ours = [(plugin, entry_point) for plugin, entry_point in _found(tuple(sys.path)) if plugin.group == group]
    tried = [contained(plugin, problems, partial(_loaded, plugin, entry_point)) for plugin, entry_point in ours]
    loaded = [each for each in tried if each is not None]
    return sorted(loaded, key=lambda each: (each.order, each.plugin.distribution.lower(), each.plugin.name))


def contained(plugin: Plugin, problems: list[Problem], act: Callable[[], T]) -> T | None:
    """Let a plugin do something; whatever it raises, and that it does not come to an end, is told and goes no further.

    It does so in a thread, which is left behind if it hangs.
    """
    try:
        return within(partial(_as_plugin, act), PATIENCE_S)
    except KeyboardInterrupt:
        # A person wants to stop, and means everything.
        raise
    except BaseException as error:  # noqa: BLE001 - other people's code: also one that ends its process when imported
        problems.append(problem_of(plugin, error))
        return None


def problem_of(plugin: Plugin, error: BaseException) -> Problem:
    """Why a plugin cannot be used; the log is told."""
    told = f"{type(error).__name__}: {error}".rstrip(": ")
    log.warning("plugin_failed", plugin=plugin.name, distribution=plugin.origin, error=told)
    return Problem(plugin, told)


def is_loading() -> bool:
    """Whether this is the code of a plugin that is being loaded."""
    return _LOADING.get()


def _as_plugin(act: Callable[[], T]) -> T:
    # In the context of its thread alone, which ends with it.
    _LOADING.set(True)
    return act()


def _loaded(plugin: Plugin, entry_point: EntryPoint) -> Loaded:
    thing = entry_point.load()
    return Loaded(plugin, thing, _order_of(thing))


def _order_of(thing: object) -> int:
    order = getattr(thing, "order", DEFAULT_ORDER)
    return order if isinstance(order, int) else DEFAULT_ORDER


@lru_cache(maxsize=8)
def _found(path: tuple[str, ...]) -> list[tuple[Plugin, EntryPoint]]:
    """Every entry point of ours, for the places where Python looks for packages now."""
    # Slow to import, and needed only where somebody looks for executors.
    from importlib.metadata import distributions

    installed = list(distributions(path=list(path)))
    if not any(map(_may_offer, installed)):
        return []
    found, seen = [], set[str]()
    for distribution in installed:
        for plugin, entry_point in _of_distribution(distribution, seen):
            found.append((plugin, entry_point))
    return found


def _may_offer(distribution: Distribution) -> bool:
    """Whether a package has entry points of ours; what is wrong with one is told when all are looked through.

    To read the names of all packages takes several times as long as their entry points, and nearly nobody has a plugin.
    """
    try:
        return bool(_ours(distribution))
    except Exception:  # noqa: BLE001 - a package whose metadata cannot be read
        return True


def _ours(distribution: Distribution) -> list[EntryPoint]:
    return [each for each in distribution.entry_points if each.group in GROUPS]


def _of_distribution(distribution: Distribution, seen: set[str]) -> Iterator[tuple[Plugin, EntryPoint]]:
    try:
        name, version = distribution.name or "", distribution.version or ""
        # Of two with one name the first on the path is the one that is imported.
        if name.lower() in seen:
            return
        seen.add(name.lower())
        ours = _ours(distribution)
    except Exception as error:  # noqa: BLE001 - a package whose metadata cannot be read
        log.warning("plugin_failed", distribution=str(distribution), error=f"{type(error).__name__}: {error}")
        return
    for each in ours:
        yield Plugin(each.group, each.name, each.value, name, version), each
