"""The graph of lineage in a store: exact in tries and versions, bounded, and each tenant's own."""

from __future__ import annotations

from collections.abc import Iterable

from stepfast.conformance.running import refused
from stepfast.conformance.store.acts import end, hand_back, step
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.assets import AssetView, MadeBy, NewAsset, Role, uri_of
from stepfast.kernel.blobs import reference_to
from stepfast.kernel.commands import Cancel, Rerun
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.errors import LeaseLost
from stepfast.kernel.lineage import Direction, GraphFilter, LineageEdge

WAYS = {"upstream": Direction.UPSTREAM, "downstream": Direction.DOWNSTREAM}
DEEP, WIDE = 200, 1_000


def tried(run: HeldRun, step: str = "charge#1", attempt: int = 1) -> MadeBy:
    """A try of a step under the run's lease."""
    return MadeBy(run.run_id, run.generation, step, run.fence, attempt, token=run.token)


async def put(
    harness: Harness,
    asset_id: str,
    content: str = "one",
    made_by: MadeBy | None = None,
    fresh: bool = False,
    tenant: str = "acme",
) -> AssetView:
    new = NewAsset(tenant, asset_id, fresh=fresh, made_by=made_by)
    return await harness.store.put_asset(new, reference_to(content.encode()))


async def read(harness: Harness, made_by: MadeBy, *assets: AssetView) -> None:
    await harness.store.trace("acme", made_by, Role.READ, [(asset, asset.id) for asset in assets])


async def edges(
    harness: Harness, of: AssetView, way: Direction, limit: int = 20_000, tenant: str = "acme"
) -> list[LineageEdge]:
    return await harness.store.lineage_edges(GraphFilter(tenant, of.id, of.version, way, limit))


async def inputs(harness: Harness, of: AssetView) -> list[str]:
    """What the graph has a version made of."""
    found = await edges(harness, of, Direction.UPSTREAM)
    return sorted(uri_of(edge.input_id, edge.input_version) for edge in found if edge.target == (of.id, of.version))


async def chain(harness: Harness, run: HeldRun, ids: Iterable[str]) -> list[AssetView]:
    """Assets, each made of the one before it."""
    made: list[AssetView] = []
    for asset_id in ids:
        before = (made[-1].uri,) if made else ()
        maker = MadeBy(run.run_id, run.generation, f"make-{asset_id}#1", inputs=before)
        made.append(await put(harness, asset_id, made_by=maker))
    return made


@on_fresh_stores
class LineageSuite(StoreSuite):
    """What was made of what."""

    async def test_an_edge_tells_who_made_what_of_what(self, harness: Harness) -> None:
        run = await harness.held()
        taken, source = await put(harness, "report"), await put(harness, "source")
        await read(harness, tried(run, attempt=2), source)
        made = await put(harness, "report", "two", tried(run, attempt=2), fresh=True)
        expected = LineageEdge("source", 1, "report-2", 1, "report", run.run_id, 1, "charge#1", 2)
        assert await edges(harness, made, Direction.UPSTREAM) == [expected]
        assert await edges(harness, source, Direction.DOWNSTREAM) == [expected]
        assert await edges(harness, taken, Direction.UPSTREAM) == []

    async def test_an_attempt_s_output_is_not_made_of_what_another_attempt_has_read(self, harness: Harness) -> None:
        run = await harness.held()
        old, new = await put(harness, "source", "1"), await put(harness, "source", "2")
        await read(harness, tried(run, attempt=1), old)
        await read(harness, tried(run, attempt=2), new)
        made = await put(harness, "report", made_by=tried(run, attempt=2))
        assert await inputs(harness, made) == list(made.inputs) == ["asset:source@2"]

    async def test_a_try_is_not_told_to_have_read_what_one_that_died_has(self, harness: Harness) -> None:
        run = await harness.held()
        old, new = await put(harness, "source", "1"), await put(harness, "source", "2")
        await read(harness, tried(run), old)
        await harness.save(hand_back(run))
        (again,) = await harness.claim()
        await read(harness, tried(again), new)
        made = await put(harness, "report", made_by=tried(again))
        assert await inputs(harness, made) == list(made.inputs) == ["asset:source@2"]

    async def test_a_try_that_reads_the_same_again_is_told_to_have_read_it(self, harness: Harness) -> None:
        run = await harness.held()
        source = await put(harness, "source")
        for attempt in (1, 2):
            await read(harness, tried(run, attempt=attempt), source)
            made = await put(harness, f"report-of-{attempt}", made_by=tried(run, attempt=attempt))
            assert await inputs(harness, made) == ["asset:source@1"]

    async def test_what_is_read_after_a_write_has_no_part_in_it(self, harness: Harness) -> None:
        run = await harness.held()
        first, later = await put(harness, "first"), await put(harness, "later")
        await read(harness, tried(run), first)
        early = await put(harness, "early", made_by=tried(run))
        await read(harness, tried(run), later)
        late = await put(harness, "late", made_by=tried(run))
        # However often it is told who has written it.
        await harness.store.trace("acme", tried(run), Role.WRITE, [(early, "early")])
        assert await inputs(harness, early) == ["asset:first@1"]
        assert await inputs(harness, late) == ["asset:first@1", "asset:later@1"]

    async def test_what_a_step_is_given_to_read_counts_for_each_of_its_tries(self, harness: Harness) -> None:
        run = await harness.held()
        given, own = await put(harness, "given"), await put(harness, "own")
        await read(harness, tried(run)._replace(token=None), given)
        await read(harness, tried(run, attempt=3), own)
        made = await put(harness, "report", made_by=tried(run, attempt=3))
        assert await inputs(harness, made) == ["asset:given@1", "asset:own@1"]

    async def test_without_a_try_an_output_is_made_of_what_the_last_of_its_attempt_has_read(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        old, new = await put(harness, "source", "1"), await put(harness, "source", "2")
        await read(harness, tried(run), old)
        await harness.save(hand_back(run))
        (again,) = await harness.claim()
        await read(harness, tried(again), new)
        made = await put(harness, "report", made_by=tried(again)._replace(token=None))
        assert await inputs(harness, made) == ["asset:source@2"]

    async def test_lineage_of_assets_that_are_kept_elsewhere_is_a_graph_too(self, harness: Harness) -> None:
        run = await harness.held()
        source, made = await put(harness, "source"), await put(harness, "report")
        await read(harness, tried(run), source)
        await harness.store.trace("acme", tried(run), Role.WRITE, [(made, "wanted")])
        (edge,) = await edges(harness, made, Direction.UPSTREAM)
        assert (edge.source, edge.target, edge.wanted_id) == (("source", 1), ("report", 1), "wanted")

    async def test_an_input_that_is_told_and_read_is_one_edge(self, harness: Harness) -> None:
        run = await harness.held()
        source = await put(harness, "source")
        await read(harness, tried(run), source)
        maker = tried(run)._replace(inputs=(source.uri, "asset:told@7"))
        made = await put(harness, "report", made_by=maker)
        assert await inputs(harness, made) == ["asset:source@1", "asset:told@7"]

    @cases(way=WAYS)
    async def test_a_graph_is_followed_to_its_end(self, harness: Harness, way: Direction) -> None:
        made = await chain(harness, await harness.held(), "abcd")
        start = made[-1] if way is Direction.UPSTREAM else made[0]
        found = await edges(harness, start, way)
        pairs = [(edge.input_id, edge.asset_id) for edge in found]
        expected = [("a", "b"), ("b", "c"), ("c", "d")]
        assert pairs == (expected if way is Direction.DOWNSTREAM else expected[::-1])

    @cases(way=WAYS)
    async def test_a_graph_tells_that_there_are_more_edges_than_were_asked_for(
        self, harness: Harness, way: Direction
    ) -> None:
        made = await chain(harness, await harness.held(), "abcdef")
        start = made[-1] if way is Direction.UPSTREAM else made[0]
        assert len(await edges(harness, start, way, limit=2)) == 3
        assert len(await edges(harness, start, way, limit=5)) == 5

    async def test_a_graph_keeps_to_versions(self, harness: Harness) -> None:
        run = await harness.held()
        old, new = await put(harness, "source", "1"), await put(harness, "source", "2")
        await read(harness, tried(run), old)
        await put(harness, "report", made_by=tried(run))
        assert await edges(harness, new, Direction.DOWNSTREAM) == []
        assert len(await edges(harness, old, Direction.DOWNSTREAM)) == 1

    @cases(way=WAYS)
    async def test_a_graph_that_goes_in_circles_comes_to_an_end(self, harness: Harness, way: Direction) -> None:
        run = await harness.held()
        first, second = await put(harness, "first"), await put(harness, "second")
        for number, (source, target) in enumerate([(first, second), (second, first), (first, first)]):
            maker = tried(run, f"turn#{number}")
            await read(harness, maker, source)
            await harness.store.trace("acme", maker, Role.WRITE, [(target, target.id)])
        assert len(await edges(harness, first, way)) == 3

    async def test_a_graph_is_its_tenant_s_alone(self, harness: Harness) -> None:
        run = await harness.held()
        source = await put(harness, "source")
        other = await put(harness, "source", tenant="globex")
        assert (source.id, source.version) == (other.id, other.version)
        await read(harness, tried(run), source)
        await put(harness, "report", made_by=tried(run))
        assert await edges(harness, other, Direction.DOWNSTREAM, tenant="globex") == []

    async def test_a_holder_that_lost_its_run_adds_no_edges(self, harness: Harness) -> None:
        run = await harness.held()
        source, made = await put(harness, "source"), await put(harness, "report")
        await read(harness, tried(run), source)
        await harness.change(run.run_id, Cancel())
        with refused(LeaseLost, "lineage"):
            await harness.store.trace("acme", tried(run), Role.WRITE, [(made, "report")])
        assert await edges(harness, source, Direction.DOWNSTREAM) == []

    @cases(way=WAYS)
    async def test_a_long_chain_is_followed_to_its_end(self, harness: Harness, way: Direction) -> None:
        run = await harness.held()
        links = [uri_of("link", version) for version in range(1, DEEP + 2)]
        asset = await put(harness, "link")
        for version in range(2, DEEP + 2):
            maker = MadeBy(run.run_id, 1, f"make#{version}", inputs=(links[version - 2],))
            await harness.store.trace("acme", maker, Role.WRITE, [(asset._replace(version=version), "link")])
        start = asset._replace(version=DEEP + 1) if way is Direction.UPSTREAM else asset
        assert len(await edges(harness, start, way)) == DEEP

    @cases(way=WAYS)
    async def test_a_wide_fan_is_one_answer(self, harness: Harness, way: Direction) -> None:
        run, centre = await harness.held(), await put(harness, "centre")
        around = [(centre._replace(id=f"leaf-{number}"), f"leaf-{number}") for number in range(WIDE)]
        reads, writes = (
            ([(centre, "centre")], around) if way is Direction.DOWNSTREAM else (around, [(centre, "centre")])
        )
        await harness.store.trace("acme", tried(run), Role.READ, reads)
        await harness.store.trace("acme", tried(run), Role.WRITE, writes)
        assert len(await edges(harness, centre, way)) == WIDE

    async def test_what_a_step_has_read_is_known_of_its_generation_in_every_try(self, harness: Harness) -> None:
        run = await harness.held()
        source, other = await put(harness, "source"), await put(harness, "other")
        await read(harness, tried(run), source)
        await harness.store.trace("acme", tried(run), Role.WRITE, [(other, "other")])
        maker = tried(run, attempt=3)
        assert await harness.store.has_read("acme", maker, source)
        assert not await harness.store.has_read("acme", maker, other)
        assert not await harness.store.has_read("acme", maker, source._replace(version=2))
        assert not await harness.store.has_read("acme", maker._replace(step="ship#1"), source)
        assert not await harness.store.has_read("acme", maker._replace(generation=2), source)
        assert not await harness.store.has_read("globex", maker, source)

    async def test_the_last_try_of_a_step_is_what_its_record_has(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run, "charge"), end(run))
        expected = MadeBy(run.run_id, 1, "charge#0", attempt=1, token=run.token)
        assert await harness.store.last_try("acme", run.run_id, "charge#0") == expected
        for other in ("charge#1", "ship#0", "deep/charge#0", "charge", "charge#", "charge#99999999999999999999", ""):
            assert await harness.store.last_try("acme", run.run_id, other) is None
        assert await harness.store.last_try("globex", run.run_id, "charge#0") is None
        await harness.change(run.run_id, Rerun())
        assert await harness.store.last_try("acme", run.run_id, "charge#0") is None
