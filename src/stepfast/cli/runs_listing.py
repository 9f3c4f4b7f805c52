"""`stepfast runs list`: pages of runs, newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.filters import page_options, run_filters
from stepfast.cli.output import output
from stepfast.cli.paging import Listing, print_page
from stepfast.cli.printing import console, moment, print_table, table_of, took
from stepfast.cli.shapes import run_object
from stepfast.kernel.errors import Invalid
from stepfast.kernel.views import RunView

PAGE = 50
LOOK_EVERY_S = 1.0
# What other commands take, and what people watch for, is never cut where a terminal is narrow.
WHOLE = ("run", "state")

Read = Callable[[Stepfast], Awaitable[list[RunView]]]


@click.command("list")
@with_client
@run_filters
@page_options(PAGE)
@click.option("--watch", is_flag=True, help="Show the page anew every second, until Ctrl-C.")
def list_runs(client: Client, limit: int, cursor: str | None, watch: bool, **filters: Any) -> None:
    """A page of runs, newest first."""

    async def read(app: Stepfast) -> list[RunView]:
        # One more than asked for tells whether there is a next page.
        return await app.runs(**filters, tenant=client.tenant, limit=limit + 1, cursor=cursor)

    if watch:
        _watch(client, read, limit)
    row = partial(_row, with_tenant=client.tenant is None)
    listing = Listing(run_object, _head(client), row, "No runs.", cursor_of=lambda view: view.run_id)
    print_page(client.perform(read), limit, listing, client.is_json)


def _watch(client: Client, read: Read, limit: int) -> None:
    """Show the page until somebody, or the timeout, puts an end to it."""
    if client.is_json:
        raise Invalid("--watch is for people; for programs `stepfast runs watch RUN -o json` follows a run.")

    async def keep_showing(app: Stepfast) -> None:
        with _page(client) as show:
            while True:
                show((await read(app))[:limit])
                await asyncio.sleep(LOOK_EVERY_S)

    client.perform(keep_showing)


@contextmanager
def _page(client: Client) -> Iterator[Callable[[Sequence[RunView]], None]]:
    """What shows a page in the place of the one before; elsewhere than on a terminal, below it."""
    row = partial(_row, with_tenant=client.tenant is None)
    if not output().isatty():
        # Live would keep every page back but the last, and leave that one without an end of its line.
        yield lambda views: print_table(_head(client), map(row, views))
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        yield lambda views: live.update(table_of(_head(client), map(row, views), WHOLE), refresh=True)


def _head(client: Client) -> tuple[str, ...]:
    tenant = ("tenant",) if client.tenant is None else ()
    return ("run", *tenant, "workflow", "state", "queue", "queued", "took")


def _row(view: RunView, with_tenant: bool) -> tuple[object, ...]:
    lasted = None if view.ended_at is None else view.ended_at - view.queued_at
    tenant = (view.tenant,) if with_tenant else ()
    workflow = f"{view.workflow}@{view.version}"
    return (view.run_id, *tenant, workflow, view.state, view.queue, moment(view.queued_at), took(lasted))
