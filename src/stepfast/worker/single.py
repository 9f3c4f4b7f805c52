"""A worker for runs that it is told by their ids: it claims nothing by itself, and looks after nobody else."""

from __future__ import annotations

from stepfast.kernel.ids import RunId
from stepfast.worker.worker import Worker


class SingleWorker(Worker):
    """Executes given runs, one at a time, from `start` to `stop`."""

    async def start(self) -> None:
        """Announce the worker and keep its lease."""
        self._wire()
        await self._lease.take()
        self._watch_lease()

    async def execute(self, run_id: RunId) -> bool:
        """Take the run as often as it is ready, until it ends or waits; False: it could not be taken at all."""
        taken = False
        while await self._execute_once(run_id):
            taken = True
        return taken

    async def _execute_once(self, run_id: RunId) -> bool:
        run = await self._store.claim_run(self.worker_id, run_id, self._registry.codes())
        if run is None:
            return False
        await self._begin_all([run])
        await self.finish_all()
        return True
