"""Annotations: facts that are noted with a commit or by command, and found by what they say."""

from __future__ import annotations

import json
from typing import Any

from stepfast.conformance.store.acts import NOON, decide, end, fail, park, step, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.annotations import Annotate, AnnotationFilter, AnnotationView, annotated, digest_of
from stepfast.kernel.commands import Cancel
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NotFound, StepNotFound
from stepfast.kernel.states import RunState


async def found(harness: Harness, **where: Any) -> list[AnnotationView]:
    return await harness.store.annotations(AnnotationFilter(**where))


async def values(harness: Harness, **where: Any) -> list[Any]:
    """What was noted, newest first."""
    return [json.loads(each.value) for each in await found(harness, **where)]


@on_fresh_stores
class AnnotationsSuite(StoreSuite):
    """An annotation is an event of its run, and is found by its name, value, step and author."""

    async def test_what_is_noted_with_a_commit_is_found_whole(self, harness: Harness) -> None:
        run = await harness.held()
        about: dict[str, Any] = {"step": "charge#1", "attempt": 2, "actor": "ann"}
        event = annotated(
            "quality", '{"stars": [4, null], "by": "Zoé"}', "page 1", Instant(NOON), reason="why", **about
        )
        await harness.save(decide(run, events=(event,)))
        (noted,) = await found(harness)
        told = await harness.last_event(run.run_id)
        assert noted == AnnotationView(
            *(told.position, told.seq, run.run_id, "acme", 1, Instant(NOON)),
            **about,
            name="quality",
            value='{"stars":[4,null],"by":"Zoé"}',
            scope="page 1",
            reason="why",
        )

    @cases(ends={"of a run that waits": False, "of a run that has ended": True})
    async def test_what_somebody_notes_changes_nothing_else(self, harness: Harness, ends: bool) -> None:
        run = await harness.held()
        await harness.save(step(run), end(run) if ends else park(run, wait()))
        before = await harness.view(run.run_id)
        await harness.change(run.run_id, Annotate("seen", "true", step="charge"), actor="ben", reason="asked to")
        assert await harness.view(run.run_id) == before
        (noted,) = await found(harness, run_id=run.run_id)
        assert (noted.step, noted.actor, noted.reason) == ("charge#0", "ben", "asked to")

    async def test_what_is_noted_of_a_run_that_is_held_is_left_to_its_holder(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Annotate("seen", "1"), actor="ben")
        (message,) = (await harness.look(run.run_id)).inbox
        assert (message.kind, message.actor, await found(harness)) == ("annotated", "ben", [])

    @cases(ends={"by itself": end, "by a failure": fail, "by a command": None})
    async def test_what_is_noted_of_a_run_that_is_held_is_told_however_it_ends(
        self, harness: Harness, ends: Any
    ) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Annotate("n", "1"))
        if ends is None:
            await harness.change(run.run_id, Cancel())
        else:
            await harness.save(ends(run))
        assert await values(harness) == [1]
        seqs = [event.seq for event in await harness.store.events(run.run_id)]
        assert seqs == list(range(1, len(seqs) + 1))

    async def test_what_is_noted_of_a_run_outlives_a_holder_that_dies_too_often(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Annotate("n", "1"))
        await harness.bury(max_crashes=1)
        assert (await harness.state(run.run_id), await values(harness)) == (RunState.FAILED, [1])

    async def test_what_nobody_told_yet_is_told_before_the_next_fact(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Annotate("n", "1"))
        await harness.save(park(run, wait(), wakes=1))
        await harness.change(run.run_id, Annotate("n", "2"))
        assert await values(harness) == [2, 1]

    async def test_facts_are_found_by_name_value_step_and_author(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), step(run, "ship"), end(run))
        await harness.change(run.run_id, Annotate("n", '{"b": 1, "a": 2}', step="charge"), actor="ann")
        await harness.change(run.run_id, Annotate("n", "1", step="ship"), actor="ben")
        await harness.change(run.run_id, Annotate("m", "1"))
        assert await values(harness, name="n") == [1, {"a": 2, "b": 1}]
        assert await values(harness, digest=digest_of("n", '{"a":2,"b":1}')) == [{"a": 2, "b": 1}]
        assert await values(harness, step="charge#0") == await values(harness, actor="ann") == [{"a": 2, "b": 1}]
        assert await values(harness, step_name="ship") == [1]
        assert await values(harness, step_name="hip") == []

    async def test_facts_come_page_by_page_newest_first(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        for n in range(4):
            await harness.change(run.run_id, Annotate("n", str(n)))
        page = await found(harness, limit=2)
        assert [each.value for each in page] == ["3", "2"]
        assert await values(harness, before=page[-1].position, limit=5) == [1, 0]

    async def test_a_tenant_finds_and_notes_facts_of_its_own_runs_only(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        refused = await harness.refusal(run.run_id, Annotate("n", "1"), tenant="other")
        await harness.change(run.run_id, Annotate("n", "1"), tenant="acme")
        assert isinstance(refused, NotFound)
        assert (await values(harness, tenant="other"), await values(harness, tenant="acme")) == ([], [1])

    async def test_an_unknown_step_is_refused_and_the_nearest_named(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), end(run))
        refused = await harness.refusal(run.run_id, Annotate("n", "1", step="chrage"))
        assert isinstance(refused, StepNotFound)
        assert "charge#0" in str(refused)
        assert (await found(harness), await harness.state(run.run_id)) == ([], RunState.COMPLETED)
