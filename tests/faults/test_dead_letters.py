"""The end of a run as a dead letter: told once each and in order, whole or not at all, wherever a process dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from stepfast import Retry, step, workflow
from stepfast.kernel.decisions import Decision
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ports import Store
from stepfast.testing import Engine, crash_points
from tests.faults.test_crash_points import IS_LONG, emptied
from tests.support.owing import OwingStore

LETTER = ["dlq_pending", "dlq_recorded", "failed"]


@step(retry=Retry(attempts=1))
async def refuse() -> None:
    raise ValueError("no")


@workflow
async def doomed() -> None:
    await refuse()


async def fail(engine: Engine) -> int:
    """Let a run fail; what it tells, and how many letters there are, is the same whoever dies when."""
    run = await engine.start(doomed)
    await engine.run_until_idle()
    told = [event.type for event in await engine.events(run)]
    assert [kind for kind in told if kind in LETTER] == LETTER, f"P11: {told}."
    assert told[-3:] == LETTER, f"P11: something came in between: {told}."
    return len(await engine.app.dead_letters.list())


class TellsFirst(OwingStore):
    """The broken twin: a store that tells of the dead letter at once, and writes the rest when it is next asked."""

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        await self._pay()
        now = [decision if decision.dead_letter is None else told_first(decision) for decision in decisions]
        rest = [told_after(decision) for decision in decisions if decision.dead_letter is not None]
        self._owed = [lambda: self._store.save(rest)] if rest else []
        return await self._store.save(now, again)


def told_first(decision: Decision) -> Decision:
    """The part of an end up to `dlq_pending`."""
    first = [event.type for event in decision.events].index("dlq_pending") + 1
    return replace(decision, events=decision.events[:first], outcome=None, dead_letter=None)


def told_after(decision: Decision) -> Decision:
    """The rest of it."""
    first = len(told_first(decision).events)
    return replace(decision, records=(), events=decision.events[first:], first_event=decision.first_event + first)


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    """Every point on SQLite; on PostgreSQL a spread of them in the short form."""
    if database.startswith("sqlite"):
        return {"workflows": [doomed], "every": 1}
    return {"workflows": [doomed], "every": 1 if IS_LONG else 3, "databases": emptied(database)}


async def test_a_dead_letter_is_told_once_and_in_order_wherever_the_process_dies(options):
    tried = await crash_points(fail, **options)
    assert len(tried.points) * options["every"] >= len(tried.calls)


async def test_the_broken_twin_that_tells_of_the_letter_first_tells_it_twice(options):
    with pytest.raises(AssertionError, match="P11"):
        await crash_points(fail, around=lambda store: cast(Store, TellsFirst(store)), **options | {"every": 1})
