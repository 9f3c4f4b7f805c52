"""What steps of a graph are likely to cost."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepfast.workflows.plans.plan import Reference, Scope

if TYPE_CHECKING:
    from stepfast.workflows.graphs.compiling import Compiler


@dataclass(frozen=True, slots=True)
class Estimating:
    """What a step is likely to cost, of the run's input and the step's config."""

    function: Callable[..., float]
    names: tuple[str, ...]
    references: tuple[Reference, ...] = (("inputs",), ("config",))

    @classmethod
    def of(cls, function: Callable[..., float], compiler: Compiler) -> Estimating:
        names = tuple(inspect.signature(function).parameters)
        for name in names:
            if name not in ("input", "config"):
                hint = "Before a run only `input` and `config` are known."
                compiler.refuse(f"{compiler.place} has an estimate with the parameter {name!r}", hint)
        return cls(function, names)

    def evaluate(self, scope: Scope) -> Any:
        known = {"input": scope["inputs"], "config": scope["config"]}
        return self.function(*(known[name] for name in self.names))
