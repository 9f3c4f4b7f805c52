"""Definitions in the PostgreSQL database."""

from __future__ import annotations

from functools import cache
from typing import Any

from stepfast.kernel.definitions import DefinitionFilter, DefinitionView, NewDefinition, Registered
from stepfast.stores.definitions import definition_view, filter_parameters
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.statements import Numbered, definition_statements, narrowed, numbered

REGISTER = """
select * from stepfast.register(
    $1::uuid, $2::text, $3::text, $4::integer, $5::text, $6::text, $7::text, $8::text, $9::text
)
"""


class PostgresDefinitions:
    """What a store of this kind does for definitions."""

    _cold: Pool

    async def register(self, definition: NewDefinition) -> Registered:
        """Keep a definition, unless one stands under its version."""
        # Sent twice it is one: the second finds the first by its id.
        (row,) = await self._cold.fetch(REGISTER, [*definition, definition.told])
        *columns, is_new, newest = row
        return Registered(definition_view(columns), is_new, newest)

    async def definitions(self, where: DefinitionFilter) -> list[DefinitionView]:
        """A page of definitions, newest first."""
        return await self._read("list_definitions", filter_parameters(where))

    async def definitions_after(self, number: int, limit: int = 100) -> list[DefinitionView]:
        """Those with higher numbers, in order."""
        return await self._read("definitions_after", {"after": number, "limit": limit})

    async def _read(self, name: str, parameters: dict[str, Any]) -> list[DefinitionView]:
        given = frozenset(parameter for parameter, value in parameters.items() if value is not None)
        statement = _statement(name, given)
        found = await self._cold.fetch(statement.text, [parameters[each] for each in statement.names])
        return [definition_view(row) for row in found]


@cache
def _statement(name: str, given: frozenset[str]) -> Numbered:
    return numbered(narrowed(definition_statements()[name], given))
