"""A process that stops in the middle of a command, between locking its run and writing the change.

Called as `python -m tests.stores.postgres_victim URL RUN_ID`; says `locked` when it has got there, and stays there.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from stepfast.kernel import control
from stepfast.kernel.commands import Cancel, Request
from stepfast.kernel.ids import RunId
from stepfast.stores.postgres.store import PostgresStore


def stop_here(*_: Any) -> Any:
    print("locked", flush=True)
    signal.pause()


async def main(url: str, run_id: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.change([Request(RunId(run_id), Cancel(), key="k")])


if __name__ == "__main__":
    setattr(control, "decide", stop_here)  # noqa: B010 - as a type checker must not see it
    asyncio.run(main(*sys.argv[1:]))
