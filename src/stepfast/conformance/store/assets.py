"""Assets and steps' storage in a store: held to the suite of the port Assets, fenced, and never overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stepfast.conformance.assets import AssetsConformance
from stepfast.conformance.running import refused
from stepfast.conformance.store.acts import end, hand_back, step
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreMaker, StoreSuite, cases, on_fresh_stores
from stepfast.engine.clock import SystemClock
from stepfast.engine.contents import BlobContents
from stepfast.engine.values import Values
from stepfast.kernel.artifacts import Artifact, ArtifactFilter, ArtifactKind, ArtifactView, Form, keeping_of
from stepfast.kernel.assets import AssetFilter, LineageFilter, MadeBy, NewAsset, Role, place_of
from stepfast.kernel.blobs import reference_to
from stepfast.kernel.commands import Cancel, Rerun
from stepfast.kernel.decisions import CallId, HeldRun
from stepfast.kernel.errors import LeaseLost
from stepfast.kernel.ids import RunId
from stepfast.stores.assets import DatabaseAssets
from stepfast.stores.blobs.database import DatabaseBlobs

CHARGE = CallId("", "charge", 0)
SHIP = CallId("", "ship", 1)


class StoreAssets(DatabaseAssets):
    """The assets of a store that is made whenever they are opened, and goes by the time of the machine."""

    def __init__(self, make_store: StoreMaker) -> None:
        self._make_store = make_store

    async def open(self) -> None:
        self._store = self._make_store(SystemClock())
        await self._store.migrate()
        await self._store.open()
        self._values = Values(DatabaseBlobs(self._store))
        super().__init__(self._store, BlobContents(self._values))

    async def close(self) -> None:
        await self._values.close()
        await self._store.close()


def held_to_the_assets_suite(suite: type[StoreSuite]) -> type[StoreSuite]:
    """Give a class every test of the suite for assets, to be done with those of a store."""
    for name in dir(AssetsConformance):
        if name.startswith("test_"):
            setattr(suite, name.replace("test_", "test_assets_", 1), _with_assets_of_a_store(name))
    return suite


def _with_assets_of_a_store(name: str) -> Callable[[StoreSuite, StoreMaker], None]:
    def test(self: StoreSuite, make_store: StoreMaker) -> None:
        getattr(AssetsConformance(), name)(StoreAssets(make_store))

    test.__name__ = name.replace("test_", "test_assets_", 1)
    return test


async def keep(
    harness: Harness,
    run: HeldRun,
    name: str = "draft",
    content: str = "one",
    *,
    call: CallId = CHARGE,
    attempt: int = 1,
    kind: ArtifactKind = ArtifactKind.ARTIFACT,
) -> None:
    """Keep something as a step of that run would."""
    reference = None if kind is ArtifactKind.DELETED else reference_to(content.encode())
    artifact = Artifact(name, kind, Form.BYTES, "text/plain", reference)
    await harness.store.keep_artifact(keeping_of(run, call, attempt), artifact)


async def found(harness: Harness, run: HeldRun, call: CallId = CHARGE, attempt: int = 1) -> list[tuple[str, str]]:
    """What a step of that run finds in its storage: names, and digests that tell contents apart."""
    return [(each.name, each.digest) for each in await harness.store.kept_artifacts(keeping_of(run, call, attempt))]


def kept(name: str, content: str) -> tuple[str, str]:
    return name, reference_to(content.encode()).digest


async def listed(harness: Harness, run_id: RunId, all: bool = False) -> list[ArtifactView]:
    return await harness.store.artifacts(ArtifactFilter("acme", run_id, all))


def made_by(run: HeldRun, step: str = "charge#0") -> MadeBy:
    return MadeBy(run.run_id, run.generation, step, run.fence)


async def _cancelled(harness: Harness, run: HeldRun) -> None:
    await harness.change(run.run_id, Cancel())


async def _handed_back(harness: Harness, run: HeldRun) -> None:
    await harness.save(hand_back(run))


async def _taken_over(harness: Harness, run: HeldRun) -> None:
    await harness.save(hand_back(run))
    await harness.enrol("w2")
    await harness.claim(worker="w2")


async def _ended(harness: Harness, run: HeldRun) -> None:
    await harness.save(end(run))


LOSSES: dict[str, Callable[[Harness, HeldRun], Awaitable[None]]] = {
    "cancelled": _cancelled,
    "handed back": _handed_back,
    "taken over": _taken_over,
    "ended": _ended,
}


@held_to_the_assets_suite
@on_fresh_stores
class StoreAssetsSuite(StoreSuite):
    """What steps keep and make is fenced as their records are."""

    @cases(loss=LOSSES)
    async def test_a_holder_that_lost_its_run_keeps_and_makes_nothing(
        self, harness: Harness, loss: Callable[[Harness, HeldRun], Awaitable[None]]
    ) -> None:
        run = await harness.held()
        before = await harness.store.put_asset(NewAsset("acme", "report"), reference_to(b"one"))
        await loss(harness, run)
        with refused(LeaseLost, "an artifact"):
            await keep(harness, run)
        with refused(LeaseLost, "an asset"):
            await harness.store.put_asset(NewAsset("acme", "report", made_by=made_by(run)), reference_to(b"two"))
        with refused(LeaseLost, "lineage"):
            await harness.store.trace("acme", made_by(run), Role.READ, [(before, "report")])
        assert await listed(harness, run.run_id, all=True) == []
        assert await harness.store.assets(AssetFilter("acme")) == [before]
        assert await harness.store.lineage(LineageFilter("acme", run.run_id)) == []

    async def test_another_worker_s_token_keeps_nothing(self, harness: Harness) -> None:
        run = await harness.held()
        run.worker_id = harness.worker_id("w9")
        with refused(LeaseLost, "an artifact"):
            await keep(harness, run)

    async def test_an_attempt_replaces_only_what_it_has_kept_itself(self, harness: Harness) -> None:
        run = await harness.held()
        await keep(harness, run, content="first of one")
        await keep(harness, run, content="second of one")
        await keep(harness, run, content="of two", attempt=2)
        assert [(each.attempt, each.superseded) for each in await listed(harness, run.run_id, all=True)] == [
            (2, False),
            (1, True),
        ]
        assert await found(harness, run, attempt=3) == [kept("draft", "of two")]
        digests = {each.digest for each in await listed(harness, run.run_id, all=True)}
        assert digests == {kept("", "second of one")[1], kept("", "of two")[1]}

    async def test_a_later_attempt_finds_what_earlier_ones_kept(self, harness: Harness) -> None:
        run = await harness.held()
        await keep(harness, run, "a")
        await keep(harness, run, "b", kind=ArtifactKind.VALUE)
        assert await found(harness, run, attempt=2) == [kept("a", "one"), kept("b", "one")]

    async def test_what_is_deleted_is_not_found_and_stays_listed_as_superseded(self, harness: Harness) -> None:
        run = await harness.held()
        await keep(harness, run)
        await keep(harness, run, kind=ArtifactKind.DELETED, attempt=2)
        assert await found(harness, run, attempt=2) == []
        assert await listed(harness, run.run_id) == []
        assert [each.superseded for each in await listed(harness, run.run_id, all=True)] == [True]

    async def test_steps_find_nothing_of_each_other(self, harness: Harness) -> None:
        run = await harness.held()
        await keep(harness, run)
        for other in (SHIP, CHARGE._replace(nth=1), CHARGE._replace(path="score[7]")):
            assert await found(harness, run, other) == []

    async def test_the_same_step_tried_again_under_another_lease_overwrites_nothing(self, harness: Harness) -> None:
        run = await harness.held()
        await keep(harness, run, content="first")
        await harness.save(hand_back(run))
        (again,) = await harness.claim()
        assert await found(harness, again) == [kept("draft", "first")]
        await keep(harness, again, content="second")
        assert [each.superseded for each in await listed(harness, run.run_id, all=True)] == [False, True]
        assert await found(harness, again) == [kept("draft", "second")]

    async def test_a_rerun_begins_with_nothing_and_supersedes_what_was_kept(self, harness: Harness) -> None:
        run = await harness.held()
        await keep(harness, run)
        await harness.save(step(run, "charge"), end(run))
        assert [each.name for each in await listed(harness, run.run_id)] == ["draft"]
        await harness.change(run.run_id, Rerun())
        (again,) = await harness.claim()
        assert await found(harness, again) == []
        assert await listed(harness, run.run_id) == []
        await keep(harness, again, content="two")
        views = await listed(harness, run.run_id, all=True)
        assert [(each.generation, each.superseded) for each in views] == [(2, False), (1, True)]

    async def test_a_step_that_a_rerun_leaves_as_it_is_keeps_its_artifacts(self, harness: Harness) -> None:
        run = await harness.held()
        await keep(harness, run, "kept")
        await keep(harness, run, "redone", call=SHIP)
        await harness.save(step(run, "charge"), step(run, "ship"), end(run))
        await harness.change(run.run_id, Rerun("ship"))
        assert [each.name for each in await listed(harness, run.run_id)] == ["kept"]

    async def test_artifacts_are_listed_for_their_tenant_and_run_alone(self, harness: Harness) -> None:
        run, other = await harness.held(), await harness.held()
        await keep(harness, run)
        assert await harness.store.artifacts(ArtifactFilter("globex", run.run_id)) == []
        assert await listed(harness, other.run_id) == []

    async def test_lineage_is_written_once_however_often_it_is_told(self, harness: Harness) -> None:
        run = await harness.held()
        asset = await harness.store.put_asset(NewAsset("acme", "report", fresh=True), reference_to(b"one"))
        for _ in range(2):
            await harness.store.trace("acme", made_by(run), Role.WRITE, [(asset, "wanted")])
        await harness.store.trace("acme", made_by(run, "ship#0"), Role.READ, [(asset, "report")])
        rows = await harness.store.lineage(LineageFilter("acme", asset_id="report"))
        assert {(each.step, each.role, each.wanted_id) for each in rows} == {
            ("charge#0", Role.WRITE, "wanted"),
            ("ship#0", Role.READ, "report"),
        }
        assert len(rows) == 2
        assert await harness.store.lineage(LineageFilter("globex", asset_id="report")) == []

    async def test_what_a_step_makes_is_put_together_with_its_lineage(self, harness: Harness) -> None:
        run = await harness.held()
        maker = made_by(run)._replace(attempt=3, inputs=("asset:given@1",))
        source = await harness.store.put_asset(NewAsset("acme", "source"), reference_to(b"one"))
        await harness.store.trace("acme", maker, Role.READ, [(source, "source")])
        new = NewAsset("acme", "report", fresh=True, made_by=maker, key="made", key_digest="d")
        for _ in range(2):
            made = await harness.store.put_asset(new, reference_to(b"two"))
            assert (made.step, made.attempt, made.inputs) == ("charge#0", 3, ("asset:given@1", "asset:source@1"))
            assert await harness.store.asset("acme", "report") == made
        rows = await harness.store.lineage(LineageFilter("acme", asset_id="report"))
        assert [(each.step, each.role, each.version, each.attempt) for each in rows] == [("charge#0", Role.WRITE, 1, 3)]

    async def test_lineage_that_is_told_anew_takes_the_place_of_what_that_step_told(self, harness: Harness) -> None:
        run = await harness.held()
        old, new = [
            await harness.store.put_asset(NewAsset("acme", "source"), reference_to(each)) for each in (b"1", b"2")
        ]
        await harness.store.trace("acme", made_by(run, "ship#0"), Role.READ, [(old, "source")])
        for asset in (old, new):
            await harness.store.trace("acme", made_by(run), Role.READ, [(asset, "source")], anew=True)
        rows = await harness.store.lineage(LineageFilter("acme", run.run_id))
        assert {(each.step, each.version) for each in rows} == {("ship#0", 1), ("charge#0", 2)}

    async def test_lineage_of_an_asset_has_what_was_written_in_its_stead(self, harness: Harness) -> None:
        run = await harness.held()
        new = NewAsset("acme", "report", fresh=True, made_by=made_by(run))
        made = [await harness.store.put_asset(new, reference_to(each)) for each in (b"1", b"2")]
        rows = await harness.store.lineage(LineageFilter("acme", asset_id="report"))
        assert {(each.asset_id, each.wanted_id) for each in rows} == {(asset.id, "report") for asset in made}
        (own,) = await harness.store.lineage(LineageFilter("acme", asset_id="report", version=1))
        assert own.asset_id == "report"

    async def test_contents_of_artifacts_and_assets_are_mentioned(self, harness: Harness) -> None:
        run = await harness.held()
        await keep(harness, run, content="of one")
        await keep(harness, run, content="of two", attempt=2)
        for content in (b"first", b"second"):
            await harness.store.put_asset(NewAsset("acme", "report"), reference_to(content))
        place = place_of("report")
        told = await harness.store.mentions([("acme", run.run_id), ("acme", place), ("globex", place)])
        assert told == {
            (run.run_id, reference_to(b"of one").text),
            (run.run_id, reference_to(b"of two").text),
            (place, reference_to(b"first").text),
            (place, reference_to(b"second").text),
        }

    async def test_two_stores_that_put_at_once_count_versions_together(self, harness: Harness) -> None:
        async with harness.another() as other:
            put = await asyncio.gather(
                *(
                    store.put_asset(NewAsset("acme", "report"), reference_to(f"{n} {m}".encode()))
                    for n, store in enumerate((harness.store, other))
                    for m in range(10)
                )
            )
        assert sorted(asset.version for asset in put) == list(range(1, 21))
