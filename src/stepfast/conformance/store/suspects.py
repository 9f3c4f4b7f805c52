"""Runs whose worker died: they wait apart, and are tried again in smaller and smaller company."""

from __future__ import annotations

from stepfast.conformance.store.acts import park, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores


async def crashed(harness: Harness, count: int, times: int = 1) -> None:
    """So many runs whose worker died so often."""
    await harness.start_many(count)
    for number in range(times):
        name = f"victim-{next(harness.counter)}"
        await harness.enrol(name)
        await harness.claim(worker=name, suspects=None if number == 0 else [count] * 8)
        await harness.bury(name)


@on_fresh_stores
class SuspectsSuite(StoreSuite):
    """A run whose worker died is claimed by those who ask for suspects."""

    async def test_an_ordinary_claim_gets_no_suspects_but_hears_of_them(self, harness: Harness) -> None:
        await crashed(harness, 3)
        await harness.enrol()
        claimed = await harness.ask()
        assert (claimed.runs, claimed.suspects_wait) == ([], True)

    async def test_a_claim_hears_when_no_suspects_wait(self, harness: Harness) -> None:
        await harness.held()
        assert (await harness.ask()).suspects_wait is False

    async def test_a_claim_for_suspects_takes_as_many_as_their_level_allows(self, harness: Harness) -> None:
        await crashed(harness, 5)
        await harness.enrol()
        assert len(await harness.claim(suspects=[2, 1])) == 2

    async def test_a_claim_for_suspects_takes_the_least_suspicious_first(self, harness: Harness) -> None:
        await crashed(harness, 2, times=2)
        await crashed(harness, 2)
        await harness.enrol()
        assert {run.crashes for run in await harness.claim(suspects=[10, 10])} == {1}

    async def test_a_suspect_beyond_the_last_level_has_the_last_levels_room(self, harness: Harness) -> None:
        await crashed(harness, 2, times=4)
        await harness.enrol()
        assert len(await harness.claim(suspects=[9, 1])) == 1

    async def test_suspects_of_code_the_worker_lacks_are_left_alone(self, harness: Harness) -> None:
        await crashed(harness, 1)
        await harness.enrol()
        claimed = await harness.ask(codes=["other@1"], suspects=[9])
        assert (claimed.runs, claimed.suspects_wait) == ([], False)

    async def test_suspects_of_tenants_the_worker_does_not_serve_are_left_alone(self, harness: Harness) -> None:
        await crashed(harness, 1)
        await harness.enrol()
        assert await harness.claim(tenants=["other"], suspects=[9]) == []

    async def test_a_suspect_that_parks_is_a_suspect_no_more(self, harness: Harness) -> None:
        await crashed(harness, 1)
        await harness.enrol()
        (run,) = await harness.claim(suspects=[1])
        await harness.save(park(run, wait()))
        assert (await harness.view(run.run_id)).crashes == 0
        await harness.signal(run.run_id)
        assert [held.run_id for held in await harness.claim()] == [run.run_id]
