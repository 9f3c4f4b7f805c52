"""The committer when a run that wants to park has been woken, and what stands behind that park in its batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from stepfast.engine.committer import Committer
from stepfast.kernel import rules
from stepfast.kernel.decisions import Decision, HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event
from stepfast.kernel.exchange import Saving, Woken
from stepfast.kernel.ids import RunId, WorkerId

NOW = Instant(1)


class WokenOnce:
    """A store for which the first park comes too late, as both stores answer it."""

    def __init__(self) -> None:
        self.saved: list[Decision] = []

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        woken = False
        answers = []
        for decision in decisions:
            if decision.release is not None and not self.saved:
                woken = True
                answers.append(Saving.WOKEN)
                continue
            answers.append(Saving.LOST if woken else Saving.SAVED)
            if not woken:
                self.saved.append(decision)
        return answers


def held() -> HeldRun:
    return HeldRun(
        run_id=RunId("r"),
        tenant="t",
        workflow="w",
        version=1,
        kind="workflow",
        queue="q",
        generation=1,
        token=1,
        worker_id=WorkerId("me"),
        input="{}",
        wakes=0,
        hold=False,
        claims=1,
        crashes=0,
        last_seq=4,
        last_event=7,
        queued_at=NOW,
    )


async def woken_with_a_decision_behind() -> tuple[list[Decision], list[BaseException | None]]:
    """What is saved, and what is answered, of [park with a rider, another decision] when the park is refused."""
    store: Any = WokenOnce()
    answers: list[BaseException | None] = []
    committer, run = Committer(store), held()
    committer.start()
    committer.ride(run, Event("rider", NOW))
    committer.save(run, rules.park(run, NOW), answers.append)
    answered: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    behind = Decision(run.fence, run.tenant, run.generation, events=(Event("behind", NOW),))
    committer.save(run, behind, answered.set_result)
    answers.append(await answered)
    await committer.close()
    return store.saved, answers


async def test_a_decision_behind_a_park_that_was_woken_is_saved_in_the_next_commit():
    saved, (park, behind) = await woken_with_a_decision_behind()
    assert isinstance(park, Woken)
    assert behind is None
    assert [decision.first_event for decision in saved] == [8]


async def test_riders_of_a_park_that_was_woken_go_along_with_the_next_decision():
    saved, _ = await woken_with_a_decision_behind()
    assert [str(event.type) for decision in saved for event in decision.events] == ["rider", "behind"]
