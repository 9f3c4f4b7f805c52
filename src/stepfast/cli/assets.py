"""`stepfast assets`: what content there is, and which steps have read and written it."""

from __future__ import annotations

from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.filters import page_options
from stepfast.cli.lineage_tree import tree_lines
from stepfast.cli.output import put
from stepfast.cli.paging import Listing, print_page
from stepfast.cli.printing import moment, print_facts, print_json, print_table, say
from stepfast.cli.shapes import page_object
from stepfast.kernel.assets import AssetView, LineageView, parse_asset
from stepfast.kernel.errors import Invalid
from stepfast.kernel.lineage import Direction, LineageGraph

PAGE = 50
EDGES = 10_000
LINEAGE = 1_000


@click.command("list")
@with_client
@click.option("--tag", metavar="TAG", help="Assets with this tag.")
@click.option("--type", "media_type", metavar="TYPE", help="Assets of this media type, or of a kind: image/*.")
@page_options(PAGE)
def list_assets(client: Client, limit: int, **given: Any) -> None:
    """A page of a tenant's assets in their newest versions, by id."""
    tenant = _one_tenant(client)

    async def read(app: Stepfast) -> list[AssetView]:
        return await app.assets.list(tenant=tenant, limit=limit + 1, **given)

    head = ("asset", "version", "type", "bytes", "tags", "put")
    listing = Listing(asset_object, head, _row, "No assets.", cursor_of=lambda asset: asset.id)
    print_page(client.perform(read), limit, listing, client.is_json)


@click.command()
@with_client
@click.argument("asset")
def show(client: Client, asset: str) -> None:
    """One asset, ID or ID@VERSION, with the steps that have read and written it."""
    tenant, name = _one_tenant(client), parse_asset(asset)

    async def read(app: Stepfast) -> tuple[AssetView, list[LineageView]]:
        view = await app.assets.get(name.id, name.version, tenant=tenant)
        return view, await app.assets.lineage(view.id, view.version, tenant=tenant)

    view, lineage = client.perform(read)
    if client.is_json:
        print_json({**asset_object(view), "lineage": [each._asdict() for each in lineage]})
        return
    several = {"tags": ", ".join(view.tags) or None, "inputs": ", ".join(view.inputs) or None}
    facts = {"metadata": view.metadata or None, "put_at": moment(view.put_at)}
    print_facts({**asset_object(view), **several, **facts})
    if lineage:
        put()
        _print_lineage(lineage)


@click.command()
@with_client
@click.argument("asset", required=False)
@click.option("--run", metavar="RUN", help="What the steps of this run have read and written.")
@click.option("--upstream", is_flag=True, help="All that it was made of, as a tree.")
@click.option("--downstream", is_flag=True, help="All that was made of it, as a tree.")
@click.option("--depth", type=int, metavar="N", help="No more than N steps of runs up or down.")
@click.option("--limit", type=int, default=EDGES, metavar="N", help=f"At most N edges of a tree; {EDGES:,} without it.")
def lineage(
    client: Client,
    asset: str | None,
    run: str | None,
    upstream: bool,
    downstream: bool,
    depth: int | None,
    limit: int,
) -> None:
    """Which steps have read and written an asset, ID or ID@VERSION, or what those of a run have.

    With --upstream or --downstream all that it was made of, or all that was made of it, however far that goes.
    """
    if (asset is None) == (run is None):
        raise Invalid("Name an asset, or a run with --run.")
    if upstream and downstream:
        raise Invalid("--upstream and --downstream were given. Ask for one, and then for the other.")
    tenant = _one_tenant(client)
    if upstream or downstream:
        _follow(client, asset, Direction.UPSTREAM if upstream else Direction.DOWNSTREAM, depth, limit)
        return
    if depth is not None:
        raise Invalid("--depth goes with --upstream or --downstream.")

    async def read(app: Stepfast) -> list[LineageView]:
        if run is not None:
            run_id = (await client.find(app, run)).run_id
            return await app.assets.lineage(run_id=run_id, tenant=tenant, limit=LINEAGE)
        name = parse_asset(asset)
        view = await app.assets.get(name.id, name.version, tenant=tenant)
        return await app.assets.lineage(view.id, name.version, tenant=tenant, limit=LINEAGE)

    found = client.perform(read)
    if client.is_json:
        print_json(page_object((each._asdict() for each in found), None))
    elif found:
        _print_lineage(found)
    else:
        say("No step has read or written it." if run is None else "Its steps have read and written no assets.")


def _follow(client: Client, asset: str | None, direction: Direction, depth: int | None, limit: int) -> None:
    if asset is None:
        raise Invalid(f"--{direction} starts at an asset; name one instead of a run.")
    tenant, name = _one_tenant(client), parse_asset(asset)

    async def read(app: Stepfast) -> LineageGraph:
        follow = app.assets.upstream if direction is Direction.UPSTREAM else app.assets.downstream
        return await follow(name.id, name.version, depth=depth, limit=limit, tenant=tenant)

    graph = client.perform(read)
    if client.is_json:
        print_json({**graph._asdict(), "edges": [edge._asdict() for edge in graph.edges]})
        return
    for line in tree_lines(graph):
        put(line)
    if graph.is_cut:
        say("There is more: raise --depth or --limit.")


def asset_object(view: AssetView) -> dict[str, Any]:
    """A version with its address."""
    return {**view._asdict(), "uri": view.uri}


def _one_tenant(client: Client) -> str:
    if client.tenant is None:
        raise Invalid("An asset's id is its tenant's own; name one with --tenant instead of --all-tenants.")
    return client.tenant


def _print_lineage(found: list[LineageView]) -> None:
    head = ("run", "generation", "step", "attempt", "did", "asset", "version", "wanted", "at")
    rows = [
        (
            *(each.run_id, each.generation, each.step, each.attempt, each.role, each.asset_id, each.version),
            None if each.wanted_id == each.asset_id else each.wanted_id,
            moment(each.at),
        )
        for each in found
    ]
    print_table(head, rows)


def _row(asset: AssetView) -> tuple[object, ...]:
    return (asset.id, asset.version, asset.media_type, f"{asset.size:,}", ", ".join(asset.tags), moment(asset.put_at))
