"""A process that answers one review many times at once by one token, which it is told and never given as an argument.

Its arguments are the database and how often; it says how each answer was met, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys

from stepfast import Stepfast, StepfastError
from tests.support.workflows import say


async def main(database: str, times: int) -> None:
    async with Stepfast(database, workflows=[say], worker=False) as app:

        async def answer(token: str, verdict: str) -> str:
            try:
                await app.reviews.resume(token, verdict)
            except StepfastError as refusal:
                return refusal.code
            return "accepted"

        await app.reviews.list()
        print("ready", flush=True)
        token = sys.stdin.readline().strip()
        verdicts = ["continue", "reject"] * times
        print(json.dumps(await asyncio.gather(*(answer(token, verdict) for verdict in verdicts[:times]))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
