"""Runs whose records a person changes: steps that are done by hand, and runs that are taken back."""

from __future__ import annotations

from stepfast.conformance.store.acts import HOUR_MS, decide, end, fail, hand_back, park, record, step, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Command, Pause, Resume, Rollback, Skip
from stepfast.kernel.decisions import HeldRun, Record
from stepfast.kernel.errors import IllegalMove
from stepfast.kernel.events import EventType
from stepfast.kernel.plan_control import Ties
from stepfast.kernel.states import RunState, StepState, TaskState, WaitKind

NAMES = ("charge", "ship", "tell")
NOBODY: frozenset[str] = frozenset()
PLAN = Ties(
    followers={"charge": frozenset({"ship"}), "ship": NOBODY, "tell": NOBODY},
    inside=dict.fromkeys(NAMES, NOBODY),
    around=dict.fromkeys(NAMES, ()),
    undoes={},
    fans=NOBODY,
    many=NOBODY,
)
SHIP = Skip("ship", '"by hand"', PLAN)


async def failed(harness: Harness) -> HeldRun:
    """A run with a good step `charge#0` that failed by its step `ship#1`."""
    run = await harness.held()
    shipping = record("ship", 1)._replace(state=StepState.FAILED, value=None, error="{}")
    await harness.save(step(run, "charge"), decide(run, EventType.STEP_FAILED, records=(shipping,)))
    await harness.save(fail(run, "ship#1"))
    return run


async def parked(harness: Harness) -> HeldRun:
    """A run that waits twice: for its step `ship#1`, and for its step `tell#2`, which nothing ties to it."""
    run = await harness.held()
    waits = [
        record(name, nth)._replace(state=StepState.WAITING, value=None) for nth, name in ((1, "ship"), (2, "tell"))
    ]
    await harness.save(step(run, "charge"), decide(run, EventType.STEP_WAITING, records=waits))
    await harness.save(park(run, wait(2), wait(3, WaitKind.TIME)))
    return run


async def standing_records(harness: Harness, run: HeldRun) -> list[Record]:
    return await harness.records(run.run_id)


@on_fresh_stores
class RewritingSuite(StoreSuite):
    """What a person gives and takes away is written with the command, whole, and numbered like anything else."""

    async def test_a_step_that_was_done_by_hand_is_recorded_in_the_next_generation(self, harness: Harness) -> None:
        run = await failed(harness)
        changed = await harness.change(run.run_id, SHIP, actor="ann", reason="on paper")
        assert (changed.state, changed.generation) == (RunState.PENDING, 2)
        given = (await harness.store.steps(run.run_id))[-1]
        assert (given.seq, given.generation, given.superseded_by) == (3, 2, None)
        assert (given.call.address, given.kind, given.state, given.value) == (
            "ship#1",
            "given",
            StepState.SKIPPED,
            '"by hand"',
        )

    async def test_what_is_recorded_next_is_numbered_behind_what_was_given(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, SHIP)
        (again,) = await harness.claim()
        assert again.last_seq == 3
        await harness.save(step(again, "tell"), end(again))
        assert [shown.seq for shown in await harness.store.steps(run.run_id)] == [1, 2, 3, 4]

    async def test_the_history_says_that_a_step_was_done_by_hand(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, SHIP)
        assert (await harness.event_types(run.run_id))[-2:] == ["retried", "step_skipped"]

    async def test_a_run_that_waits_goes_on_in_its_generation_with_what_was_given(self, harness: Harness) -> None:
        run = await parked(harness)
        changed = await harness.change(run.run_id, SHIP)
        assert (changed.generation, await harness.standing(run.run_id)) == (1, (TaskState.READY, 0))
        found = [(kept.call.name, kept.state) for kept in await standing_records(harness, run)]
        assert found == [
            ("charge", StepState.COMPLETED),
            ("tell", StepState.WAITING),
            ("ship", StepState.SKIPPED),
        ]

    async def test_what_a_step_waited_for_that_was_done_by_hand_is_waited_for_no_more(self, harness: Harness) -> None:
        run = await parked(harness)
        await harness.change(run.run_id, SHIP)
        assert [left.wait_id for left in (await harness.look(run.run_id)).waits] == [3]

    async def test_children_of_a_step_that_was_done_by_hand_are_joined_by_nobody(self, harness: Harness) -> None:
        parent, (child,) = await harness.parent(children=1, need=1)
        opening = record("ship", 1)._replace(state=StepState.WAITING, value=None)
        await harness.save(decide(parent, EventType.STEP_WAITING, records=(opening,)))
        await harness.save(park(parent))
        await harness.change(parent.run_id, SHIP)
        assert (await harness.look(parent.run_id)).waits == []
        report = await harness.upkeep()
        assert child in report.unjoined

    async def test_a_run_that_is_rolled_back_is_held(self, harness: Harness) -> None:
        run = await failed(harness)
        changed = await harness.change(run.run_id, Rollback(seq=1, event=3))
        assert (changed.state, changed.generation) == (RunState.PAUSED, 2)
        assert await harness.claim() == []
        assert (await harness.event_types(run.run_id))[-1] == "rolled_back"

    async def test_a_run_that_was_rolled_back_goes_on_with_what_was_left(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, Rollback(seq=1, event=3))
        await harness.change(run.run_id, Resume())
        (again,) = await harness.claim()
        assert (again.generation, again.hold) == (2, False)
        assert [kept.call.name for kept in await standing_records(harness, run)] == ["charge"]

    async def test_a_run_that_waits_is_rolled_back_in_its_generation(self, harness: Harness) -> None:
        run = await parked(harness)
        changed = await harness.change(run.run_id, Rollback(seq=1, event=3))
        assert (changed.state, changed.generation) == (RunState.PAUSED, 1)
        assert (await harness.look(run.run_id)).waits == []
        assert [shown.superseded_by for shown in await harness.store.steps(run.run_id)] == [None, 1, 1]

    async def test_a_run_taken_back_to_before_all_its_waits_is_not_found_to_wait_for_nothing(
        self, harness: Harness
    ) -> None:
        run = await parked(harness)
        await harness.change(run.run_id, Rollback(seq=1, event=3))
        assert (await harness.store.findings(), await harness.claim()) == ([], [])

    async def test_a_delayed_run_that_is_taken_back_keeps_its_delay(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), hand_back(run, HOUR_MS))
        await harness.change(run.run_id, Pause())
        await harness.change(run.run_id, Rollback(seq=1, event=3))
        await harness.change(run.run_id, Resume())
        assert await harness.claim() == []
        await harness.advance(HOUR_MS)
        assert len(await harness.claim()) == 1

    async def test_a_run_taken_back_behind_a_wait_for_time_goes_on_at_once(self, harness: Harness) -> None:
        run = await harness.held()
        opening = record("nap", 1)._replace(state=StepState.WAITING, value=None)
        await harness.save(step(run, "charge"), decide(run, EventType.STEP_WAITING, records=(opening,)))
        await harness.save(park(run, wait(2, WaitKind.TIME, due_in_ms=HOUR_MS)))
        await harness.change(run.run_id, Rollback(seq=1, event=3))
        changed = await harness.change(run.run_id, Resume())
        assert (changed.state, len(await harness.claim())) == (RunState.RUNNING, 1)

    @cases(command={"skip": SHIP, "rollback": Rollback(seq=1, event=3)})
    async def test_a_run_that_somebody_holds_is_left_alone(self, harness: Harness, command: Command) -> None:
        run = await harness.held()
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, command), IllegalMove)
        assert await harness.contents() == before
