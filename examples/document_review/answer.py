"""Answers a review by a token, in a process that knows nothing of the workflow.

The token comes on standard input, since arguments can be seen by everybody on the machine:
`python answer.py continue < outbox/ann.token`, or `python answer.py correct '{"words": 7, ...}' < outbox/ann.token`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from stepfast import Stepfast, StepfastError


async def main(verdict: str, value: str = "null") -> int:
    token = sys.stdin.read().strip()
    async with Stepfast(
        os.environ.get("STEPFAST_DATABASE_URL") or "sqlite:///review.db", workflows=[], worker=False
    ) as app:
        try:
            await app.reviews.resume(token, verdict, json.loads(value))
        except StepfastError as refusal:
            print(f"{refusal.code}: {refusal}")
            return 1
    print("Thank you.")
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(*sys.argv[1:])))
