"""Rows of definitions, in the column order of their statements, as the kernel's views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepfast.kernel.definitions import DefinitionFilter, DefinitionId, DefinitionKind, DefinitionView

Row = Sequence[Any]

ABOVE_ALL_NUMBERS = 2**62


def definition_view(row: Row) -> DefinitionView:
    """A row of any statement that reads definitions."""
    number, definition_id, tenant, name, version, digest, kind, *rest = row
    whose = (DefinitionId(str(definition_id)), tenant, name, version, digest)
    return DefinitionView(number, *whose, DefinitionKind(kind), *rest)


def filter_parameters(where: DefinitionFilter) -> dict[str, Any]:
    """The parameters of `list_definitions`; a condition that is not asked for is None."""
    return {**where._asdict(), "before": ABOVE_ALL_NUMBERS if where.before is None else where.before}
