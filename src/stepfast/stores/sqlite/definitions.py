"""Definitions in the SQLite file."""

from __future__ import annotations

from functools import partial
from typing import Any

import apsw

from stepfast.kernel.definitions import DefinitionFilter, DefinitionView, NewDefinition, Registered
from stepfast.kernel.events import EventType
from stepfast.stores.definitions import definition_view, filter_parameters
from stepfast.stores.sqlite.asking import fetch, moment, one
from stepfast.stores.sqlite.connection import Reader, Writer
from stepfast.stores.sqlite.pending import write_events
from stepfast.stores.statements import definition_statements, narrowed, unprefixed

SQL = {name: unprefixed(text) for name, text in definition_statements().items()}


class SqliteDefinitions:
    """What a store of this kind does for definitions."""

    _writer: Writer
    _views: Reader

    async def register(self, definition: NewDefinition) -> Registered:
        """Keep a definition, unless one stands under its version."""
        return await self._writer.run(partial(_register, new=definition))

    async def definitions(self, where: DefinitionFilter) -> list[DefinitionView]:
        """A page of definitions, newest first."""
        return await self._views.run(partial(_all, name="list_definitions", parameters=filter_parameters(where)))

    async def definitions_after(self, number: int, limit: int = 100) -> list[DefinitionView]:
        """Those with higher numbers, in order."""
        parameters = {"after": number, "limit": limit}
        return await self._views.run(partial(_all, name="definitions_after", parameters=parameters))


def _register(connection: apsw.Connection, new: NewDefinition) -> Registered:
    now = moment(connection)
    which = {"tenant": new.tenant, "name": new.name, "version": new.version}
    if not _all(connection, "get_definition", which):
        connection.execute(SQL["insert_definition"], {**new._asdict(), "now": now})
        told = (EventType.TEMPLATE_REGISTERED.value, now, None, None, 0, new.actor, new.told)
        write_events(connection, [(new.definition_id, 1, new.tenant, 1, *told)])
    (stands,) = _all(connection, "get_definition", which)
    return Registered(stands, stands.definition_id == new.definition_id, one(connection, SQL["newest_version"], which))


def _all(connection: apsw.Connection, name: str, parameters: dict[str, Any]) -> list[DefinitionView]:
    given = {parameter for parameter, value in parameters.items() if value is not None}
    return [definition_view(row) for row in fetch(connection, narrowed(SQL[name], given), parameters)]
