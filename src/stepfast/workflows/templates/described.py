"""Executors as templates see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Described(Protocol):
    """What a template must know of an executor."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def inputs(self) -> Mapping[str, Any]: ...

    @property
    def output(self) -> Mapping[str, Any] | None: ...

    @property
    def config(self) -> Mapping[str, Any] | None: ...

    def validate_config(self, given: dict[str, Any]) -> list[str]: ...


Executors = Mapping[str, Described]
"""The executors that there are, by name."""
