"""Reviews for tests that are not about the code that asks: opened as the holder of a run would."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

from stepfast import Stepfast
from stepfast.conformance.store.acts import asked, park, worker
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.exchange import Enrolment
from stepfast.kernel.ports import Store
from stepfast.kernel.reviews import parse_review_id
from tests.support.workflows import say

LONG_LEASE_MS = 10**10
KEYS = {number: f"{number}:{base64.b64encode(bytes([number]) * 32).decode()}" for number in (1, 2)}
"""Keys for tokens, as people set them."""


def store_of(app: Stepfast) -> Store:
    return app._open_parts().store


async def held_run(app: Stepfast, **options: Any) -> HeldRun:
    """A run that a worker of the test's own holds."""
    run = await app.start(say, "hello", **options)
    holder, codes = worker("w1"), ("say@1",)
    await store_of(app).enrol(Enrolment(holder, "first", "host", 7, ("default",), codes, LONG_LEASE_MS))
    held = await store_of(app).claim_run(holder, run._run_id, codes)
    assert held is not None
    return held


async def review_of(app: Stepfast, is_parked: bool = True, start: Any = None, **changes: Any) -> str:
    """The id of a review that was just opened; unless its run is parked, its holder still has it."""
    run = await held_run(app, **(start or {}))
    decision = asked(run, **changes)
    await store_of(app).save([decision])
    if is_parked:
        await store_of(app).save([park(run)])
    return f"{run.run_id}.{decision.reviews[0].wait_id}"


async def events_of(app: Stepfast, review_id: str, kind: str) -> list[tuple[Any, str | None]]:
    """What the events of a type say in the history of a review's run, and by whom."""
    events = await store_of(app).events(parse_review_id(review_id).run_id)
    return [(json.loads(event.data or "null"), event.actor) for event in events if event.type == kind]


class Process:
    """A Python process that says a line when it is ready, and goes on when it is told something."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def rest(self) -> str:
        """What else it says until its end."""
        said, _ = self._process.communicate()
        assert self._process.returncode == 0
        return said.strip()
