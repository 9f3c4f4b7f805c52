"""`stepfast audit list` and `show`: the events of all runs, by who did what, where and when."""

from __future__ import annotations

from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.filters import moment_of, page_options
from stepfast.cli.paging import Listing, numeric_cursor, print_page
from stepfast.cli.printing import moment, print_facts, print_json, shortened
from stepfast.cli.shapes import event_object
from stepfast.kernel.views import EventView

PAGE = 100


@click.command()
@with_client
@click.option("--run", metavar="RUN", help="Those of this run.")
@click.option("--type", "types", metavar="NAME", multiple=True, help="Those of this type; may be given several times.")
@click.option("--step", metavar="STEP", help="Those of this step: its name, or its address for one call of it.")
@click.option("--by", "actor", metavar="NAME", help="What this person or program did.")
@click.option("--correlation-id", metavar="ID", help="Those of runs that belong together under this id.")
@click.option("--since", metavar="WHEN", callback=moment_of, help="Those that were told since then.")
@click.option("--until", metavar="WHEN", callback=moment_of, help="Those that were told before then.")
@page_options(PAGE)
def list_events(
    client: Client, run: str | None, types: tuple[str, ...], limit: int, cursor: str | None, **given: Any
) -> None:
    """Events of all runs of the tenant, newest first; `stepfast runs events` has those of one run in order."""
    before = None if cursor is None else numeric_cursor(cursor)

    async def read(app: Stepfast) -> list[EventView]:
        run_id = None if run is None else (await client.find(app, run)).run_id
        page: dict[str, Any] = {"tenant": client.tenant, "limit": limit + 1, "cursor": before}
        return await app.audit.list(run_id=run_id, type=types or None, **page, **given)

    head = ("position", "at", "event", "run", "step", "actor", "data")
    listing = Listing(event_object, head, _row, "No events.", cursor_of=lambda event: event.position)
    print_page(client.perform(read), limit, listing, client.is_json)


@click.command()
@with_client
@click.argument("position", type=click.IntRange(1))
def show(client: Client, position: int) -> None:
    """One event, whole, by its position in the trail."""
    event = client.perform(lambda app: app.audit.get(position, tenant=client.tenant))
    if client.is_json:
        print_json(event_object(event))
    else:
        print_facts(event._asdict() | {"at": moment(event.at)})


def _row(event: EventView) -> tuple[object, ...]:
    return (event.position, moment(event.at), event.type, event.run_id, event.step, event.actor, shortened(event.data))
