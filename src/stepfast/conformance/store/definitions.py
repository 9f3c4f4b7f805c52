"""Definitions: kept once for each version, with their events, in numbers that miss none; and runs pinned to them."""

from __future__ import annotations

import asyncio
from typing import Any

from stepfast.conformance.store.acts import continued, decide, end, told_by
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Changed, Rerun, RetryRun
from stepfast.kernel.decisions import Continue, HeldRun
from stepfast.kernel.definitions import (
    DefinitionFilter,
    DefinitionId,
    DefinitionKind,
    DefinitionView,
    NewDefinition,
    Registered,
    code_of,
)
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId, new_id
from stepfast.kernel.states import RunState

DIGEST = "3f2a9c1b7d5e4f60"
OTHER = "a0b1c2d3e4f56789"
PINNED = {"code": code_of("order", 1, DIGEST), "definition": DIGEST}


def definition(harness: Harness, **changes: Any) -> NewDefinition:
    number = DefinitionId(new_id(Instant(harness.now), next(harness.counter)))
    whole = NewDefinition(number, "acme", "order", 1, DIGEST, DefinitionKind.TEMPLATE, '{"steps":[]}', "ada")
    return whole._replace(**changes)


async def register(harness: Harness, **changes: Any) -> Registered:
    return await harness.store.register(definition(harness, **changes))


async def pinned(harness: Harness) -> HeldRun:
    """A run that is pinned to a definition, as its worker holds it."""
    await harness.enrol()
    await harness.start(**PINNED)
    (run,) = await harness.claim(codes=(PINNED["code"],))
    return run


@on_fresh_stores
class DefinitionsSuite(StoreSuite):
    """What is registered stands for good, and a run is executed by the content that it began with."""

    async def test_a_definition_is_kept_as_it_was_registered(self, harness: Harness) -> None:
        new = definition(harness)
        answer = await harness.store.register(new)
        whole = DefinitionView(1, *new[:-1], Instant(harness.now), "ada")
        assert answer == Registered(whole, True, 1)
        assert await harness.store.definitions(DefinitionFilter()) == [whole]

    async def test_its_event_is_the_whole_history_under_its_id(self, harness: Harness) -> None:
        new = definition(harness)
        await harness.store.register(new)
        (event,) = await harness.store.events(RunId(new.definition_id))
        assert (event.seq, event.type, event.tenant, event.actor) == (1, "template_registered", "acme", "ada")
        assert told_by(event) == {"name": "order", "version": 1, "kind": "template", "digest": DIGEST}

    @cases(digest={"the same content": DIGEST, "other content": OTHER})
    async def test_what_stands_under_a_version_stays(self, harness: Harness, digest: str) -> None:
        first = await register(harness)
        again = definition(harness, digest=digest)
        assert await harness.store.register(again) == Registered(first.definition, False, 1)
        assert await harness.store.events(RunId(again.definition_id)) == []

    async def test_a_registration_that_is_sent_twice_is_one_and_new_both_times(self, harness: Harness) -> None:
        new = definition(harness)
        first = await harness.store.register(new)
        assert await harness.store.register(new) == first
        assert len(await harness.store.events(RunId(new.definition_id))) == 1

    async def test_the_answer_names_the_newest_version(self, harness: Harness) -> None:
        for version in (1, 7, 3):
            await register(harness, version=version)
        assert (await register(harness, digest=OTHER)).newest == 7

    async def test_every_tenant_has_its_own(self, harness: Harness) -> None:
        await register(harness)
        theirs = await register(harness, tenant="globex", digest=OTHER)
        assert theirs.is_new
        assert await harness.store.definitions(DefinitionFilter("globex")) == [theirs.definition]

    async def test_they_are_listed_newest_first_page_by_page(self, harness: Harness) -> None:
        for version in (1, 2, 3):
            await register(harness, version=version)
        first = await harness.store.definitions(DefinitionFilter(limit=2))
        second = await harness.store.definitions(DefinitionFilter(before=first[-1].number, limit=2))
        assert [each.version for each in (*first, *second)] == [3, 2, 1]

    async def test_they_are_found_by_name_and_version(self, harness: Harness) -> None:
        for name, version in (("order", 1), ("order", 2), ("refund", 1)):
            await register(harness, name=name, version=version)
        found = await harness.store.definitions(DefinitionFilter("acme", "order", 2))
        assert [(each.name, each.version) for each in found] == [("order", 2)]

    async def test_whoever_goes_by_numbers_misses_none_that_are_registered_at_once(self, harness: Harness) -> None:
        async with harness.another() as other:
            stores = (harness.store, other)
            new = [definition(harness, version=version) for version in range(1, 21)]
            seen: list[int] = []

            async def follow() -> None:
                while len(seen) < len(new):
                    found = await other.definitions_after(seen[-1] if seen else 0, limit=3)
                    seen.extend(each.number for each in found)
                    await asyncio.sleep(0)

            await asyncio.gather(follow(), *(stores[each.version % 2].register(each) for each in new))
        assert seen == list(range(1, 21))

    async def test_two_that_register_one_version_at_once_are_answered_with_the_same(self, harness: Harness) -> None:
        async with harness.another() as other:
            rivals = [definition(harness, digest=DIGEST), definition(harness, digest=OTHER)]
            answers = await asyncio.gather(harness.store.register(rivals[0]), other.register(rivals[1]))
        assert len({answer.definition for answer in answers}) == 1
        assert [answer.is_new for answer in answers].count(True) == 1

    async def test_a_run_is_pinned_to_its_definition(self, harness: Harness) -> None:
        run = await pinned(harness)
        assert (run.definition, run.code) == (DIGEST, PINNED["code"])
        view = await harness.view(run.run_id)
        assert (view.definition, view.code) == (DIGEST, PINNED["code"])

    async def test_a_worker_with_other_content_under_that_version_does_not_get_it(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start(**PINNED)
        assert await harness.claim(codes=("order@1", code_of("order", 1, OTHER))) == []

    async def test_a_generation_that_a_run_opens_itself_keeps_its_definition(self, harness: Harness) -> None:
        run = await pinned(harness)
        then = Continue(1, run.code, "[2]", definition=run.definition)
        await harness.save(continued(run, then))
        (again,) = await harness.claim(codes=(run.code,))
        assert (again.generation, again.definition) == (2, DIGEST)

    @cases(command={"retry": RetryRun(), "rerun": Rerun()})
    async def test_a_run_that_is_opened_again_keeps_its_definition(
        self, harness: Harness, command: RetryRun | Rerun
    ) -> None:
        run = await pinned(harness)
        await harness.save(end(run, RunState.PARTIAL))
        assert isinstance(await harness.change(run.run_id, command), Changed)
        (again,) = await harness.claim(codes=(run.code,))
        assert (again.generation, again.definition) == (2, DIGEST)

    async def test_a_run_that_is_opened_in_another_version_is_pinned_to_that(self, harness: Harness) -> None:
        run = await pinned(harness)
        await harness.save(end(run))
        await harness.change(run.run_id, Rerun(version=2, definition=OTHER))
        view = await harness.view(run.run_id)
        assert (view.version, view.code, view.definition) == (2, code_of("order", 2, OTHER), OTHER)

    async def test_a_run_that_goes_over_to_a_function_is_pinned_no_more(self, harness: Harness) -> None:
        run = await pinned(harness)
        await harness.save(end(run))
        await harness.change(run.run_id, Rerun(version=2))
        view = await harness.view(run.run_id)
        assert (view.code, view.definition) == ("order@2", None)

    async def test_a_child_is_pinned_too(self, harness: Harness) -> None:
        run = await harness.held()
        child = harness.new_run(**PINNED)
        await harness.save(decide(run, children=(child,)))
        assert (await harness.view(child.run_id)).definition == DIGEST

    async def test_a_partial_child_counts_as_one_that_came_to_a_good_end(self, harness: Harness) -> None:
        parent, _ = await harness.parent(1, 1)
        (child,) = await harness.claim(queue="children")
        await harness.save(end(child, RunState.PARTIAL))
        (history,) = (await harness.store.histories([parent.run_id])).values()
        assert [(wait.got, wait.failed) for wait in history.waits] == [(1, 0)]

    async def test_what_a_worker_lacks_is_told_with_it(self, harness: Harness) -> None:
        lacks = {PINNED["code"]: "executor 'pdf.parse' is missing"}
        await harness.enrol(lacks=lacks)
        assert [worker.lacks for worker in await harness.store.workers()] == [lacks]
        await harness.enrol()
        assert [worker.lacks for worker in await harness.store.workers()] == [{}]
