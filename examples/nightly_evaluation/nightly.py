"""Evaluates a night: `python nightly.py 2026-11-15`. For each night it is done once, however often it is started."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import executors

from stepfast import RunFailed, Stepfast

app = Stepfast(
    os.environ.get("STEPFAST_DATABASE_URL") or "sqlite:///nightly.db",
    workflows=[],
    executors=[*executors.data.list(), *executors.model.list()],
)


async def main(night: str) -> None:
    async with app:
        await app.register(Path(__file__).with_name("nightly.yaml"))
        run = await app.start("nightly-evaluation", night=night, key=night)
        try:
            print(json.dumps(await run))
        except RunFailed as failure:
            print(failure)
        print("The run is", (await run.info()).state)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
