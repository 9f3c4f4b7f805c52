"""Upkeep: burying workers, and what becomes of their runs; runs past their deadline."""

from __future__ import annotations

from stepfast.conformance.store.acts import LEASE_MS, VERDICT, park, step, told_by, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Pause, TimeOut
from stepfast.kernel.exchange import Saving, UpkeepReport
from stepfast.kernel.states import RunState, TaskState


async def crash_alone(harness: Harness, worker: str, max_crashes: int = 3) -> UpkeepReport:
    """A worker claims what there is and is never heard of again."""
    await harness.enrol(worker)
    if not await harness.claim(worker=worker):
        await harness.claim(worker=worker, suspects=[100])
    return await harness.bury(worker, max_crashes)


@on_fresh_stores
class UpkeepSuite(StoreSuite):
    """What a dead worker held goes back to the line."""

    async def test_a_crash_of_a_worker_that_held_several_runs_fails_none(self, harness: Harness) -> None:
        await harness.enrol()
        ids = await harness.start_many(2)
        await harness.claim()
        report = await harness.bury(max_crashes=1)
        assert (sorted(report.returned), report.failed) == (sorted(ids), [])

    async def test_a_worker_that_beats_is_not_buried(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        await harness.advance(LEASE_MS)
        await harness.store.beat(worker_id)
        await harness.advance(LEASE_MS)
        assert (await harness.upkeep()).buried == []

    async def test_a_pass_keeps_the_lease_of_the_worker_that_makes_it(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        await harness.advance(LEASE_MS)
        assert (await harness.upkeep(by=worker_id)).kept
        await harness.advance(LEASE_MS)
        assert (await harness.upkeep()).buried == []

    async def test_a_pass_soon_after_a_heartbeat_writes_nothing_of_its_worker(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        await harness.advance(LEASE_MS // 10 - 1)
        assert not (await harness.upkeep(by=worker_id)).kept
        await harness.advance(1)
        assert (await harness.upkeep(by=worker_id)).kept

    async def test_a_pass_brings_no_dead_worker_back(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        await harness.bury()
        assert not (await harness.upkeep(by=worker_id)).kept
        assert not (await harness.store.beat(worker_id)).alive

    async def test_a_worker_is_buried_when_its_lease_has_run_out(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.advance(LEASE_MS)
        assert (await harness.upkeep()).buried == []
        await harness.advance(1)
        assert (await harness.upkeep()).buried == [worker("w1")]

    async def test_a_pass_says_when_the_next_lease_is_over(self, harness: Harness) -> None:
        first = await harness.upkeep()
        await harness.enrol()
        begun = await harness.store.now()
        second = await harness.upkeep()
        assert first.silent_at is None
        assert second.silent_at is not None
        await harness.advance(second.silent_at - begun + 1)
        assert len((await harness.upkeep()).buried) == 1

    async def test_a_pass_says_whether_a_worker_holds_runs_although_its_lease_is_over(self, harness: Harness) -> None:
        await harness.held("w1")
        await harness.advance(LEASE_MS)
        alive = await harness.upkeep(may_bury=False)
        await harness.advance(1)
        silent = await harness.upkeep(may_bury=False)
        buried = await harness.upkeep()
        assert [alive.silent_holds, silent.silent_holds, buried.silent_holds] == [False, True, False]

    async def test_a_worker_that_is_silent_and_holds_nothing_is_not_told_of(self, harness: Harness) -> None:
        await harness.enrol("w1")
        await harness.advance(LEASE_MS + 1)
        await harness.held("w2")
        assert not (await harness.upkeep(may_bury=False)).silent_holds

    async def test_who_may_not_bury_buries_nobody(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.advance(10 * LEASE_MS)
        assert (await harness.upkeep(may_bury=False)).buried == []

    async def test_a_worker_is_buried_once(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.bury()
        assert (await harness.upkeep()).buried == []

    async def test_the_run_of_a_buried_worker_goes_back_to_the_line(self, harness: Harness) -> None:
        run = await harness.held()
        report = await harness.bury()
        view = await harness.view(run.run_id)
        assert report.returned == [run.run_id]
        assert (view.worker_id, view.token, view.crashes) == (None, run.token + 1, 1)
        assert await harness.standing(run.run_id) == (TaskState.READY, 0)

    async def test_runs_of_the_dead_go_back_in_a_pass_that_may_not_bury(self, harness: Harness) -> None:
        await harness.enrol()
        ids = await harness.start_many(3)
        await harness.claim()
        first = await harness.bury(limit=1)
        second = await harness.upkeep(may_bury=False)
        assert sorted([*first.returned, *second.returned]) == sorted(ids)

    async def test_runs_of_the_living_stay(self, harness: Harness) -> None:
        lost = await harness.held("w1")
        await harness.advance(LEASE_MS)
        kept = await harness.held("w2")
        await harness.advance(1)
        report = await harness.upkeep()
        assert (report.buried, report.returned) == ([worker("w1")], [lost.run_id])
        assert [held.run_id for held in (await harness.store.beat(worker("w2"))).holdings] == [kept.run_id]

    async def test_a_reaped_run_has_the_event(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.bury()
        event = await harness.last_event(run.run_id)
        assert (event.seq, event.type, told_by(event)) == (3, "reaped", {"worker": worker("w1"), "crashes": 1})

    async def test_a_buried_worker_that_comes_back_changes_nothing(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.bury()
        assert await harness.save(step(run)) == [Saving.LOST]
        assert await harness.store.steps(run.run_id) == []

    async def test_a_buried_worker_that_comes_back_under_a_new_id_takes_its_run_up(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.bury()
        await harness.enrol("w1-again")
        (again,) = await harness.claim(worker="w1-again", suspects=[100])
        assert (again.run_id, again.token > run.token, again.crashes) == (run.run_id, True, 1)

    async def test_a_pass_gives_back_no_more_than_its_limit(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(10)
        await harness.claim()
        assert len((await harness.bury(limit=4)).returned) == 4

    async def test_later_passes_give_back_the_rest(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(10)
        await harness.claim()
        first = await harness.bury(limit=4)
        second = await harness.upkeep()
        assert len({*first.returned, *second.returned}) == 10

    async def test_a_run_that_the_limit_left_over_is_not_taken_for_one_that_was_alone(self, harness: Harness) -> None:
        await harness.enrol()
        ids = await harness.start_many(5)
        await harness.claim()
        reports = [await harness.bury(limit=2, max_crashes=1)]
        reports += [await harness.upkeep(limit=2, max_crashes=1) for _ in range(5)]
        assert [report.failed for report in reports] == [[]] * 6
        assert [(await harness.view(run_id)).crashes for run_id in ids] == [1] * 5

    async def test_a_run_that_crashes_in_company_is_never_failed_for_it(self, harness: Harness) -> None:
        await harness.start_many(2)
        for number in range(5):
            report = await crash_alone(harness, f"w{number}", max_crashes=2)
            assert report.failed == []

    async def test_a_run_fails_when_its_strikes_are_spent(self, harness: Harness) -> None:
        started = await harness.start()
        assert (await crash_alone(harness, "w1", 2)).returned == [started.run_id]
        assert (await crash_alone(harness, "w2", 2)).failed == [started.run_id]
        view = await harness.view(started.run_id)
        assert (view.state, view.error) == (RunState.FAILED, VERDICT.error)

    async def test_a_run_that_was_brought_on_in_between_has_its_strikes_behind_it(self, harness: Harness) -> None:
        started = await harness.start()
        await crash_alone(harness, "w1", 2)
        await harness.enrol("w2")
        (run,) = await harness.claim(worker="w2", suspects=[100])
        assert await harness.save(step(run)) == [Saving.SAVED]
        assert (await harness.bury("w2", 2)).returned == [started.run_id]
        assert (await crash_alone(harness, "w3", 2)).failed == [started.run_id]

    async def test_a_worker_that_brings_a_run_on_and_hands_it_back_begins_a_new_row(self, harness: Harness) -> None:
        started = await harness.start()
        await crash_alone(harness, "w1", 2)
        worker_id = await harness.enrol("w2")
        (run,) = await harness.claim(worker="w2", suspects=[100])
        assert await harness.save(step(run)) == [Saving.SAVED]
        assert await harness.store.retire(worker_id) == [started.run_id]
        assert (await crash_alone(harness, "w3", 2)).returned == [started.run_id]
        assert (await crash_alone(harness, "w4", 2)).failed == [started.run_id]

    async def test_a_worker_that_only_hands_a_run_back_begins_no_new_row(self, harness: Harness) -> None:
        run = await harness.held("w0")
        assert await harness.save(step(run)) == [Saving.SAVED]
        await harness.bury("w0", 2)
        worker_id = await harness.enrol("w1")
        await harness.claim(worker="w1", suspects=[100])
        assert await harness.store.retire(worker_id) == [run.run_id]
        assert (await crash_alone(harness, "w2", 2)).failed == [run.run_id]

    async def test_a_run_whose_strikes_are_spent_becomes_a_dead_letter(self, harness: Harness) -> None:
        started = await harness.start()
        await crash_alone(harness, "w1", max_crashes=1)
        (letter,) = await harness.letters()
        assert letter[:5] == (started.run_id, 1, "acme", "order", 1)
        assert (letter.error_type, letter.message) == (VERDICT.error_type, VERDICT.message)

    async def test_the_end_of_such_a_run_is_told_in_order(self, harness: Harness) -> None:
        started = await harness.start()
        await crash_alone(harness, "w1", max_crashes=1)
        events = await harness.store.events(started.run_id)
        ends = ["exception_opened", "dlq_pending", "dlq_recorded", "failed"]
        assert [event.type for event in events[2:]] == ["reaped", *ends]
        assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6, 7]

    async def test_the_outcome_of_such_a_run_carries_a_token_above_its_last_holders(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.bury(max_crashes=1)
        view = await harness.view(run.run_id)
        assert (view.state, view.token) == (RunState.FAILED, run.token + 1)

    async def test_a_child_that_crashes_too_often_counts_as_failed_and_is_no_dead_letter(
        self, harness: Harness
    ) -> None:
        parent, (child,) = await harness.parent(children=1, need=1)
        await harness.save(park(parent))
        await harness.enrol("w2")
        await harness.claim(worker="w2", queue="children")
        assert (await harness.bury("w2", max_crashes=1)).failed == [child]
        assert await harness.standing(parent.run_id) == (TaskState.READY, 1)
        assert await harness.letters() == []
        assert [event.type for event in (await harness.store.events(child))[2:]] == ["reaped", "failed"]

    @cases(delay_ms={"ready": 0, "waiting": 50})
    async def test_a_pass_reports_runs_past_their_deadline(self, harness: Harness, delay_ms: int) -> None:
        started = await harness.start(delay_ms=delay_ms, timeout_ms=100 - delay_ms)
        await harness.start()
        await harness.advance(99)
        assert (await harness.upkeep()).overdue == []
        await harness.advance(1)
        assert (await harness.upkeep()).overdue == [started.run_id]
        assert await harness.state(started.run_id) is RunState.PENDING

    async def test_a_run_past_its_deadline_is_reported_while_a_person_holds_it(self, harness: Harness) -> None:
        started = await harness.start(timeout_ms=100)
        await harness.change(started.run_id, Pause())
        await harness.advance(100)
        assert (await harness.upkeep()).overdue == [started.run_id]

    async def test_a_run_past_its_deadline_is_left_to_the_worker_that_holds_it(self, harness: Harness) -> None:
        await harness.held(timeout_ms=100)
        await harness.advance(100)
        assert (await harness.upkeep()).overdue == []

    async def test_a_run_past_its_deadline_whose_holder_died_is_reported_by_the_same_pass(
        self, harness: Harness
    ) -> None:
        run = await harness.held(timeout_ms=100)
        report = await harness.bury()
        assert (report.returned, report.overdue) == ([run.run_id], [run.run_id])

    async def test_a_pass_reports_no_more_overdue_runs_than_its_limit_the_longest_overdue_first(
        self, harness: Harness
    ) -> None:
        late = await harness.start(timeout_ms=100)
        later = await harness.start(timeout_ms=50)
        await harness.start(timeout_ms=150)
        await harness.advance(200)
        assert (await harness.upkeep(limit=2)).overdue == [later.run_id, late.run_id]

    async def test_a_run_that_was_timed_out_is_reported_no_more(self, harness: Harness) -> None:
        started = await harness.start(timeout_ms=100)
        await harness.advance(100)
        await harness.change(started.run_id, TimeOut(VERDICT))
        assert (await harness.upkeep()).overdue == []
