"""What sinks have in common: a name, and which events they want."""

from __future__ import annotations

from collections.abc import Iterable

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import check_text
from stepfast.kernel.views import EventView


class FilteredSink:
    """A sink that wants the events of some types, some tenants, or all; subclass it and write `deliver`."""

    def __init__(self, name: str, *, types: Iterable[str] | None = None, tenants: Iterable[str] | None = None) -> None:
        self.name = check_text("The sink's name", name)
        self._types = _chosen("types", types)
        self._tenants = _chosen("tenants", tenants)

    def wants(self, event: EventView) -> bool:
        """Whether it is to have an event."""
        if self._types is not None and event.type not in self._types:
            return False
        return self._tenants is None or event.tenant in self._tenants

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of."""


def _chosen(what: str, given: Iterable[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    if isinstance(given, str):
        raise Invalid(f"{what} of a sink is the text {given!r}; give several, as in [{given!r}].")
    return frozenset(check_text(what, each) for each in given)
