"""The queues on an app's store."""

from __future__ import annotations

from stepfast.base import AppBase
from stepfast.filters import page_size
from stepfast.kernel.texts import check_text
from stepfast.kernel.views import Backlog, QueueView

Views = list[QueueView]


class Queues:
    """How much there is to do in every queue."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(self) -> Views:
        """Every queue that has open runs."""
        return await self._app._open_parts().store.queues()

    async def backlog(self, limit: int = 1_000) -> Backlog:
        """What is ready, by queue and code, counted up to a limit; quick, however much stands in line."""
        return await self._app._open_parts().store.backlog(page_size(limit))

    async def get(self, name: str) -> QueueView:
        """One queue; a queue is no more than its name, so that one without open runs is empty."""
        wanted = check_text("The queue's name", name)
        views = {view.queue: view for view in await self.list()}
        return views.get(wanted, QueueView(wanted, 0, 0, 0, 0, 0, None))
