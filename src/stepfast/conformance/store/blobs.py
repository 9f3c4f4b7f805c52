"""The blobs of a store: they are held to the suite of the port Blobs, and the rows tell which of them they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepfast.conformance.blobs import BlobsConformance
from stepfast.conformance.store.acts import continued, decide, end, fail, record
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreMaker, StoreSuite, on_fresh_stores
from stepfast.engine.clock import SystemClock
from stepfast.kernel.blobs import NO_RUN, BlobKey, reference_to
from stepfast.kernel.commands import Rerun
from stepfast.kernel.decisions import Continue, Outcome
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState
from stepfast.stores.blobs.database import DatabaseBlobs


class StoreBlobs(DatabaseBlobs):
    """The blobs of a store that is made whenever they are opened, and goes by the time of the machine."""

    def __init__(self, make_store: StoreMaker) -> None:
        self._make_store = make_store

    async def open(self) -> None:
        self._store = self._make_store(SystemClock())
        super().__init__(self._store)
        await self._store.migrate()
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()


def held_to_the_blobs_suite(suite: type[StoreSuite]) -> type[StoreSuite]:
    """Give a class every test of the suite for blobs, to be done with those of a store."""
    for name in dir(BlobsConformance):
        if name.startswith("test_"):
            setattr(suite, name, _with_blobs_of_a_store(name))
    return suite


def _with_blobs_of_a_store(name: str) -> Callable[[StoreSuite, StoreMaker], None]:
    def test(self: StoreSuite, make_store: StoreMaker) -> None:
        getattr(BlobsConformance(), name)(StoreBlobs(make_store))

    test.__name__ = name
    return test


def reference(content: str) -> str:
    return reference_to(content.encode()).text


async def mentioned(harness: Harness, run_id: RunId, tenant: str = "acme") -> set[str]:
    return {text for _, text in await harness.store.mentions([(tenant, run_id)])}


@held_to_the_blobs_suite
@on_fresh_stores
class StoreBlobsSuite(StoreSuite):
    """What a row still mentions is known, so that nothing is swept that somebody needs."""

    async def test_what_is_put_once_is_never_replaced_by_that(self, harness: Harness) -> None:
        key = BlobKey("acme", NO_RUN, "once")
        answers = await asyncio.gather(*(harness.store.put_blob_once(key, bytes([n])) for n in range(8)))
        assert len(set(answers)) == 1
        assert await harness.store.get_blob(key) == answers[0]
        await harness.store.put_blob(key, b"replaced")
        assert await harness.store.put_blob_once(key, b"again") == b"replaced"

    async def test_references_in_what_a_run_got_and_did_are_mentioned(self, harness: Harness) -> None:
        run = await harness.held(input=reference("input"))
        given = record(value=reference("value"))._replace(input=reference("argument"))
        await harness.save(decide(run, records=(given,)))
        await harness.signal(run.run_id, value=reference("signal"))
        expected = {reference(content) for content in ("input", "argument", "value", "signal")}
        assert await mentioned(harness, run.run_id) == expected

    async def test_the_reference_in_a_result_is_mentioned(self, harness: Harness) -> None:
        run = await harness.held()
        decision = end(run)
        decision.outcome = Outcome(RunState.COMPLETED, reference("result"), None, Instant(harness.now))
        await harness.save(decision)
        assert await mentioned(harness, run.run_id) == {reference("result")}

    async def test_references_of_earlier_generations_and_of_what_is_superseded_are_mentioned(
        self, harness: Harness
    ) -> None:
        run = await harness.held(input=reference("first"))
        await harness.save(decide(run, records=(record(value=reference("value")),)))
        await harness.save(continued(run, Continue(1, "order@1", reference("second"))))
        (run,) = await harness.claim()
        await harness.save(fail(run))
        await harness.change(run.run_id, Rerun())
        expected = {reference(content) for content in ("first", "value", "second")}
        assert await mentioned(harness, run.run_id) == expected

    async def test_texts_that_are_no_references_are_not_mentioned(self, harness: Harness) -> None:
        run = await harness.held(input='"@blob:"')
        await harness.save(decide(run, records=(record(),)), end(run))
        assert await mentioned(harness, run.run_id) == set()

    async def test_references_are_mentioned_by_run_and_for_its_tenant_alone(self, harness: Harness) -> None:
        one = await harness.start(input=reference("of one"))
        two = await harness.start(input=reference("of two"), tenant="globex")
        asked = [("acme", one.run_id), ("globex", two.run_id)]
        assert await harness.store.mentions(asked) == {
            (one.run_id, reference("of one")),
            (two.run_id, reference("of two")),
        }
        assert await mentioned(harness, two.run_id, "acme") == set()
