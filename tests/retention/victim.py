"""A process that prunes all it can, again and again, and dies where it is told to.

Called as `python -m tests.retention.victim OPTIONS` with a JSON object: database, blobs, keys, point and after (where
it dies, and at which passage of that point), limit and workflow (of what goes at once), twin (`tells_later`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from stepfast import Stepfast
from stepfast.engine import pruning
from stepfast.kernel.retention import PruneBatch
from stepfast.signing import KeyedSigner, read_seal_keys
from stepfast.stores.sqlite import retention as on_sqlite

POINTS = ("before_pruning", "after_pruning", "before_sweeping", "amid_sweeping", "amid_the_transaction")
PIECE = 3


class Death:
    """Where and when the process dies."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._point, self._left = options.get("point"), options.get("after", 1)

    def at(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


def make_mortal(store: Any, death: Death, twin: str | None) -> None:
    """Let calls of a store be the last; the broken twin signs later what it has let go."""
    prune, unswept, swept = store.prune, store.unswept, store.swept

    async def dying_prune(batch: PruneBatch, told: str) -> str | None:
        death.at("before_pruning")
        answer: str | None = await prune(batch, batch.told(None) if twin == "tells_later" else told)
        death.at("after_pruning")
        return answer

    async def dying_unswept(after: str, limit: int) -> Any:
        death.at("before_sweeping")
        return await unswept(after, limit)

    async def dying_swept(run_ids: Any) -> None:
        death.at("amid_sweeping")
        await swept(run_ids)

    store.prune, store.unswept, store.swept = dying_prune, dying_unswept, dying_swept


def die_amid_the_transaction(on_sqlite: Any, death: Death) -> None:
    """On SQLite the rows are gone and nothing tells of it yet; nothing is committed either."""
    write_events = on_sqlite.write_events

    def dying(connection: Any, rows: Any) -> None:
        death.at("amid_the_transaction")
        write_events(connection, rows)

    on_sqlite.write_events = dying


async def main(options: dict[str, Any]) -> None:
    pruning.MAX_RUNS = PIECE
    death = Death(options)
    die_amid_the_transaction(on_sqlite, death)
    app = Stepfast(options["database"], workflows=[], worker=False, blobs=options["blobs"])
    app.signer = KeyedSigner(read_seal_keys(options["keys"]))
    async with app:
        make_mortal(app._open_parts().store, death, options.get("twin"))
        chosen: dict[str, Any] = {"limit": options.get("limit"), "workflow": options.get("workflow")}
        while (await app.retention.prune(older_than="0s", **chosen)).runs:
            pass


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
