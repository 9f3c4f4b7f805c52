"""A process that executes transformations, and dies where it is told to.

Called as `python -m tests.transformations.victim OPTIONS` with a JSON object: database, blobs, point (where it dies),
twin (`knows_nothing_again`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from stepfast import Stepfast
from stepfast.engine.contents import BlobContents
from stepfast.stores.postgres.assets import PostgresAssets
from stepfast.stores.sqlite.assets import SqliteAssets
from tests.support.apps import MORTAL
from tests.transformations.harness import docs, transforming

STORES = (SqliteAssets, PostgresAssets)
# Contents are put twice: aside by the transformation's run, and as an asset by whoever called it.
POINTS = ("content 1", "artifact 1", "content 2", "asset 1", "trace 1", "trace 2")


class Death:
    """Kills the process behind the passage of a point that is its own, counted from one."""

    def __init__(self, point: str | None) -> None:
        self._point = point
        self._passages: dict[str, int] = {}

    def behind(self, name: str, call: Any) -> Any:
        async def passing(*args: Any, **kwargs: Any) -> Any:
            answer = await call(*args, **kwargs)
            self._passages[name] = self._passages.get(name, 0) + 1
            if self._point == f"{name} {self._passages[name]}":
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return passing


def make_mortal(death: Death, twin: str | None) -> None:
    BlobContents.put = death.behind("content", BlobContents.put)  # type: ignore[method-assign]
    for store in STORES:
        put_asset = without_a_key(store.put_asset) if twin == "knows_nothing_again" else store.put_asset
        setattr(store, "put_asset", death.behind("asset", put_asset))  # noqa: B010
        setattr(store, "keep_artifact", death.behind("artifact", store.keep_artifact))  # noqa: B010
        setattr(store, "trace", death.behind("trace", store.trace))  # noqa: B010


def without_a_key(put_asset: Any) -> Any:
    """The broken twin: what a dead process has made is made once more."""

    async def put(self: Any, new: Any, content: Any) -> Any:
        return await put_asset(self, new._replace(key=None), content)

    return put


async def main(options: dict[str, Any]) -> None:
    make_mortal(Death(options.get("point")), options.get("twin"))
    kept = {"database": options["database"], "blobs": options["blobs"]}
    async with Stepfast(**kept, workflows=[transforming], executors=[docs], worker=MORTAL):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
