"""Dead letters: listed until somebody has seen to them."""

from __future__ import annotations

from typing import Any

from stepfast.conformance.store.acts import NOON, end, fail
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Changed, Command, Discard, Rerun, RetryRun
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState
from stepfast.kernel.views import LetterFilter, LetterView


async def letter(harness: Harness, error_type: str = "ValueError", step: str | None = None, **changes: Any) -> HeldRun:
    """A run that has just become a dead letter."""
    run = await harness.held(**changes)
    await harness.save(fail(run, step, error_type))
    return run


async def listed(harness: Harness, **where: Any) -> list[RunId]:
    return [view.run_id for view in await harness.letters(**where)]


@on_fresh_stores
class LettersSuite(StoreSuite):
    """A dead letter is there until it is replayed or discarded."""

    async def test_a_dead_letter_is_listed_as_it_was_recorded(self, harness: Harness) -> None:
        run = await letter(harness, step="ship#1")
        view = LetterView(run.run_id, 1, "acme", "order", 1, "ship#1", "ValueError", "no", NOON, None, None, None)
        assert await harness.store.dead_letters(LetterFilter()) == [view]

    async def test_a_run_that_ended_well_is_no_dead_letter(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        assert await listed(harness) == []

    async def test_the_newest_run_comes_first(self, harness: Harness) -> None:
        runs = [await letter(harness) for _ in range(3)]
        assert await listed(harness) == [run.run_id for run in reversed(runs)]

    async def test_a_list_goes_on_where_the_page_before_ended(self, harness: Harness) -> None:
        oldest, middle, newest = [(await letter(harness)).run_id for _ in range(3)]
        assert await listed(harness, limit=2) == [newest, middle]
        assert await listed(harness, limit=2, before=middle) == [oldest]

    @cases(
        wanted={
            "tenant": {"tenant": "other"},
            "workflow": {"workflow": "mail"},
            "step": {"step": "ship#1"},
            "error type": {"error_type": "KeyError"},
        }
    )
    async def test_a_list_holds_only_what_is_asked_for(self, harness: Harness, wanted: dict[str, Any]) -> None:
        await letter(harness)
        run = await letter(harness, **wanted)
        assert await listed(harness, **wanted) == [run.run_id]

    async def test_all_calls_of_a_step_may_be_asked_for_by_its_name(self, harness: Harness) -> None:
        steps = ("ship#1", "ship#2", "0.1/ship#1", "reship#1", None)
        runs = [(await letter(harness, step=step)).run_id for step in steps]
        assert await listed(harness, step_name="ship") == [runs[2], runs[1], runs[0]]

    @cases(wanted={"its name": "Refused", "its whole name": "shop:Refused"})
    async def test_an_error_may_be_asked_for_by(self, harness: Harness, wanted: str) -> None:
        kinds = ("shop:Refused", "shop:CardRefused", "shop:Refused.Late", "shop:refused", "Late", "No")
        runs = [(await letter(harness, error_type=kind)).run_id for kind in kinds]
        assert await listed(harness, error_type=wanted) == [runs[0]]

    async def test_one_run_may_be_asked_for(self, harness: Harness) -> None:
        wanted, _ = await letter(harness), await letter(harness)
        assert await listed(harness, run_id=wanted.run_id) == [wanted.run_id]

    async def test_only_those_recorded_lately_may_be_asked_for(self, harness: Harness) -> None:
        await letter(harness)
        await harness.advance(5)
        late = await letter(harness)
        assert await listed(harness, recorded_after=Instant(NOON)) == [late.run_id]

    async def test_a_discarded_letter_is_out_of_the_list_and_its_run_stays_failed(self, harness: Harness) -> None:
        run = await letter(harness)
        await harness.advance(5)
        changed = await harness.change(run.run_id, Discard(), actor="ann", reason="known")
        assert changed == Changed(run.run_id, RunState.FAILED, 1, "default", Instant(NOON + 5))
        assert await harness.state(run.run_id) is RunState.FAILED
        assert await listed(harness) == []

    async def test_a_discarded_letter_says_who_discarded_it_and_when(self, harness: Harness) -> None:
        run = await letter(harness)
        await harness.advance(5)
        await harness.change(run.run_id, Discard(), actor="ann")
        (view,) = await harness.store.dead_letters(LetterFilter(resolved=True))
        assert (view.run_id, view.resolution, view.actor, view.resolved_at) == (
            run.run_id,
            "discarded",
            "ann",
            NOON + 5,
        )

    async def test_discarding_is_told_with_the_token_of_the_end(self, harness: Harness) -> None:
        run = await letter(harness)
        await harness.change(run.run_id, Discard(), actor="ann")
        event = await harness.last_event(run.run_id)
        assert (event.seq, event.type, event.actor) == (run.last_event + 2, "dlq_discarded", "ann")
        assert (event.token, event.generation) == (run.token, 1)

    async def test_a_letter_is_discarded_once(self, harness: Harness) -> None:
        run = await letter(harness)
        await harness.change(run.run_id, Discard())
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, Discard()), IllegalMove)
        assert await harness.contents() == before

    async def test_a_run_that_is_no_letter_is_not_discarded(self, harness: Harness) -> None:
        started = await harness.start()
        assert isinstance(await harness.refusal(started.run_id, Discard()), IllegalMove)

    @cases(command={"retry": RetryRun(), "rerun": Rerun()})
    async def test_a_letter_whose_run_is_reopened_is_replayed(self, harness: Harness, command: Command) -> None:
        run = await letter(harness)
        await harness.change(run.run_id, command, actor="ann")
        assert await listed(harness) == []
        (view,) = await harness.letters(resolved=True)
        assert (view.generation, view.resolution, view.actor, view.resolved_at) == (1, "replayed", "ann", NOON)

    async def test_a_discarded_letter_that_is_replayed_stays_discarded(self, harness: Harness) -> None:
        run = await letter(harness)
        await harness.change(run.run_id, Discard(), actor="ann")
        await harness.change(run.run_id, RetryRun(), actor="ben")
        (view,) = await harness.store.dead_letters(LetterFilter(resolved=True))
        assert (view.resolution, view.actor) == ("discarded", "ann")

    async def test_a_replayed_run_that_fails_again_is_a_letter_again(self, harness: Harness) -> None:
        run = await letter(harness)
        await harness.change(run.run_id, RetryRun())
        (run,) = await harness.claim()
        await harness.save(fail(run))
        assert [(view.run_id, view.generation) for view in await harness.store.dead_letters(LetterFilter())] == [
            (run.run_id, 2)
        ]
        both = await harness.store.dead_letters(LetterFilter(resolved=True))
        assert [(view.generation, view.resolution) for view in both] == [(2, None), (1, "replayed")]
