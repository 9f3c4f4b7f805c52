"""The names by which classes are recorded, and found again where their script goes by another name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

SCRIPT = "__main__"


def name_of(cls: type) -> str:
    """The module and the name of a class; of one in a script, with the name by which others import the script."""
    script = _script_name() if cls.__module__ == SCRIPT else None
    return f"{SCRIPT}.{script}:{cls.__qualname__}" if script else f"{cls.__module__}:{cls.__qualname__}"


def find_class(name: str) -> type | None:
    """The class of that name, imported if need be; a class inside a function has none that can be found."""
    module, _, path = name.partition(":")
    found = (_part(place, path) for place in _places(module))
    return next((each for each in found if isinstance(each, type)), None)


def _places(module: str) -> Iterator[ModuleType]:
    """Where a module's classes may be here, the likeliest first."""
    of_script = module.startswith(f"{SCRIPT}.")
    known_as = module.removeprefix(f"{SCRIPT}.")
    if known_as == _script_name() and (of_script or module not in sys.modules):
        yield sys.modules[SCRIPT]
    if not of_script:
        yield importlib.import_module(module)
    elif known_as in sys.modules:
        # Only where somebody has imported it: a script does its work when it is loaded.
        yield sys.modules[known_as]


def _part(module: ModuleType, path: str) -> object:
    found: object = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _script_name() -> str | None:
    """The name by which others import what this process runs; None: it runs no file."""
    main = sys.modules[SCRIPT]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return None if file is None else Path(file).stem
