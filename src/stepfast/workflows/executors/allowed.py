"""What the built-in executors may touch: nothing that an operator has not named."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

EVERYTHING = "*"


class Allowed(NamedTuple):
    """The programs, variables, networks and modules that an operator lets steps use; by default none."""

    commands: tuple[str, ...] = ()
    command_env: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    """Of those that are not public: the ones that may be called."""
    modules: tuple[str, ...] = ()

    def has_command(self, program: str) -> bool:
        """By its exact name: one of the same name in another folder is another program."""
        return program in self.commands or EVERYTHING in self.commands

    def has_variable(self, name: str) -> bool:
        return name in self.command_env

    def has_module(self, module: str) -> bool:
        return any(fnmatchcase(module, pattern) for pattern in self.modules)


def read_names(text: str) -> tuple[str, ...]:
    """Several names with commas between them; raises ValueError for what is none."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(name and name.isprintable() for name in names):
        raise ValueError
    return names


def read_variables(text: str) -> tuple[str, ...]:
    """The same for names of variables; each must be spelled out."""
    names = read_names(text)
    if not all(name.isidentifier() for name in names):
        raise ValueError
    return names


def read_modules(text: str) -> tuple[str, ...]:
    """The same for names of modules; `*` stands for any letters, dots included."""
    names = read_names(text)
    if not all(part.replace(EVERYTHING, "_").isidentifier() for name in names for part in name.split(".")):
        raise ValueError
    return names


def read_networks(text: str) -> tuple[str, ...]:
    """Networks or single addresses with commas between them, or `*` for all."""
    from ipaddress import ip_network

    names = read_names(text)
    for name in names:
        if name != EVERYTHING:
            ip_network(name)
    return names
