"""`stepfast exceptions`: what a person should look at, who sees to it, and equal failures as one line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.actors import actor_options
from stepfast.cli.client import Client, with_client
from stepfast.cli.filters import moment_of, page_options
from stepfast.cli.naming import item_named
from stepfast.cli.output import put
from stepfast.cli.paging import Listing, print_page
from stepfast.cli.printing import moment, print_facts, print_json, print_table, say, shortened, visible
from stepfast.cli.shapes import object_of, page_object
from stepfast.exceptions import WholeItem
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import Invalid
from stepfast.kernel.items import CommentView, GroupView, ItemView
from stepfast.kernel.replay import way_back
from stepfast.kernel.reviews import ItemKind

PAGE = 50
GROUPS = 50

kind_option = click.option("--kind", type=click.Choice([kind.value for kind in ItemKind]), help="Items of this kind.")
workflow_option = click.option("--workflow", metavar="NAME", help="Items of this workflow.")
assignee_option = click.option("--assignee", metavar="NAME", help="Items that this person sees to.")
since_option = click.option("--since", "opened_after", metavar="WHEN", callback=moment_of, help="Opened since then.")
key_option = click.option("--key", metavar="KEY", help="What makes this command one of a kind: a second does nothing.")
reason_option = click.option("--reason", metavar="TEXT", help="Why; kept in the history of the run.")


@click.command("list")
@with_client
@kind_option
@workflow_option
@assignee_option
@click.option("--run", metavar="RUN", help="Items of this run.")
@since_option
@click.option("--resolved", is_flag=True, help="Those that are resolved too.")
@page_options(PAGE)
def list_items(client: Client, limit: int, run: str | None, **given: Any) -> None:
    """A page of exception items, newest run first."""

    async def read(app: Stepfast) -> list[ItemView]:
        run_id = None if run is None else (await client.find(app, run)).run_id
        return await app.exceptions.list(tenant=client.tenant, run_id=run_id, limit=limit + 1, **given)

    head = ("item", "kind", "workflow", "step", "title", "assignee", "opened", "resolution")
    listing = Listing(item_object, head, _row, "No exception items.", cursor_of=lambda item: item.id)
    print_page(client.perform(read), limit, listing, client.is_json)


@click.command()
@with_client
@click.argument("item")
def show(client: Client, item: str) -> None:
    """One item, also a resolved one, with what people have said of it."""

    async def read(app: Stepfast) -> WholeItem:
        return await app.exceptions.get(await item_named(client, app, item), tenant=client.tenant)

    view, comments = client.perform(read)
    if client.is_json:
        print_json({**item_object(view), "comments": [comment._asdict() for comment in comments]})
        return
    moments = {name: moment(getattr(view, name)) or None for name in ("opened_at", "resolved_at")}
    print_facts({**item_object(view), "shape": view.shape or None, **moments})
    print_comments(comments)
    if view.cause.startswith("blocked:") and view.resolved_at is None:
        say(f"`stepfast runs why {view.run_id}` says what does not fit. Deploy code that makes the recorded calls.")
        say(f"`stepfast runs retry {view.run_id}` has the run look at the code again.")
        say(f"If no code fits any more, {way_back(view.run_id)}.")


@click.command()
@with_client
@click.option("--nobody", is_flag=True, help="Take it from whoever it is assigned to.")
@reason_option
@key_option
@actor_options
@click.argument("item")
@click.argument("name", required=False)
def assign(
    client: Client,
    nobody: bool,
    reason: str | None,
    key: str | None,
    asked_by: str | None,
    item: str,
    name: str | None,
) -> None:
    """Say who sees to an item; of a review, that is who may answer it."""
    if nobody == (name is not None):
        raise Invalid("Name whom it is assigned to, or say --nobody.")

    async def work(app: Stepfast, item_id: str) -> Changed:
        said = {"reason": reason, "key": key, "actor": asked_by}
        return await app.exceptions.assign(item_id, name, tenant=client.tenant, **said)

    _change(client, item, key, work, "is assigned to nobody" if name is None else f"is assigned to {name}")


@click.command()
@with_client
@key_option
@actor_options
@click.argument("item")
@click.argument("text")
def comment(client: Client, key: str | None, asked_by: str | None, item: str, text: str) -> None:
    """Say something about an item."""

    async def work(app: Stepfast, item_id: str) -> Changed:
        return await app.exceptions.comment(item_id, text, tenant=client.tenant, key=key, actor=asked_by)

    _change(client, item, key, work, "has your comment")


@click.command()
@with_client
@reason_option
@key_option
@actor_options
@click.argument("item")
def resolve(client: Client, reason: str | None, key: str | None, asked_by: str | None, item: str) -> None:
    """Put a failure aside, with its dead letter; a review is answered, and code that fits deployed instead."""

    async def work(app: Stepfast, item_id: str) -> Changed:
        said = {"reason": reason, "key": key, "actor": asked_by}
        return await app.exceptions.resolve(item_id, tenant=client.tenant, **said)

    _change(client, item, key, work, "is resolved")


@click.command()
@with_client
@workflow_option
@assignee_option
@since_option
@click.option("--resolved", is_flag=True, help="Those that are resolved too.")
def count(client: Client, **given: Any) -> None:
    """How many items there are of each kind."""
    counts = client.perform(lambda app: app.exceptions.count(tenant=client.tenant, **given))
    if client.is_json:
        print_json(counts)
        return
    print_table(("kind", "items"), counts.items())


@click.command()
@with_client
@kind_option
@workflow_option
@assignee_option
@since_option
@click.option("--limit", type=click.IntRange(1), default=GROUPS, help=f"How many at most. [{GROUPS}]")
def groups(client: Client, limit: int, **given: Any) -> None:
    """Equal open items as one line each, the largest groups first."""
    found = client.perform(lambda app: app.exceptions.groups(tenant=client.tenant, limit=limit, **given))
    print_groups(client, found)


def print_groups(client: Client, found: list[GroupView]) -> None:
    """Groups, and how a group of dead letters is replayed."""
    if client.is_json:
        print_json(page_object(map(_group_object, found), None))
        return
    if not found:
        say("No exception items are open.")
        return
    print_table(("group", "items", "kind", "workflow", "what", "first", "newest"), map(_group_row, found))
    failed = next((group for group in found if group.kind is ItemKind.FAILED), None)
    if failed is not None:
        say(f"Replay a group: stepfast dead-letters replay --group {failed.id} --dry-run")


def print_comments(comments: tuple[CommentView, ...]) -> None:
    """What people have said, under the facts."""
    if comments:
        put()
        print_table(("at", "by", "comment"), [(moment(each.at), each.actor, each.text) for each in comments])


def item_object(view: ItemView) -> dict[str, Any]:
    """An item with the ids that lead from it."""
    return {"id": view.id, **object_of(view), "review_id": view.review_id, "dead_letter": view.dead_letter}


def _change(
    client: Client, name: str, key: str | None, work: Callable[[Stepfast, str], Awaitable[Changed]], done: str
) -> None:
    async def find_and_work(app: Stepfast) -> tuple[str, Changed]:
        item_id = await item_named(client, app, name, key)
        return item_id, await work(app, item_id)

    item_id, changed = client.perform(find_and_work)
    if client.is_json:
        print_json({"id": item_id, "run_id": changed.run_id, "state": changed.state})
    else:
        put(visible(f"Exception item {item_id} {done}."))


def _row(item: ItemView) -> tuple[object, ...]:
    what = (item.kind, item.workflow, item.step, shortened(item.title))
    return (item.id, *what, item.assignee, moment(item.opened_at), item.resolution)


def _group_object(group: GroupView) -> dict[str, Any]:
    return {"id": group.id, **group._asdict(), "newest": str(group.newest)}


def _group_row(group: GroupView) -> tuple[object, ...]:
    what = group.shape if group.kind is ItemKind.FAILED else group.title
    times = (moment(group.first_at), moment(group.newest_at))
    return (group.id, group.size, group.kind, group.workflow, shortened(what, 100), *times)
