"""A function of this process as a sink: unlike `@app.on` it hears of every event, also of other processes'."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown
from stepfast.kernel.views import EventView
from stepfast.sinks.filtered import FilteredSink


class CallbackSink(FilteredSink):
    """Calls a function with one event after the other; what it raises counts as not taken."""

    def __init__(
        self,
        name: str,
        call: Callable[[EventView], Any],
        *,
        types: Iterable[str] | None = None,
        tenants: Iterable[str] | None = None,
    ) -> None:
        super().__init__(name, types=types, tenants=tenants)
        if not callable(call):
            raise Invalid(f"Sink {name!r} is to call {shown(call)}; give a function that takes an event.")
        self._call = call

    async def deliver(self, events: Sequence[EventView]) -> None:
        """Call the function with each."""
        for event in events:
            answer = self._call(event)
            if inspect.isawaitable(answer):
                await answer
