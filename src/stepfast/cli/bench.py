"""`stepfast bench`: what this machine and a database give together, measured in a scratch place."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from stepfast.app import Stepfast
from stepfast.cli.bench_workflow import Figures, measure, passing
from stepfast.cli.client import Client, with_client
from stepfast.cli.migrate import bring_up_to_date
from stepfast.cli.printing import print_facts, print_json, say
from stepfast.stores.health import examine
from stepfast.stores.postgres_urls import without_password
from stepfast.stores.scratch import scratch_beside
from stepfast.worker.settings import WorkerSettings

TENANT = "stepfast-bench"


@click.command()
@with_client
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=4.0, help="How long to measure. [4]")
@click.option("--in-place", is_flag=True, help="Measure in the database itself, and leave the runs there.")
def bench(client: Client, seconds: float, in_place: bool) -> None:
    """Measure steps a second, and how long one run takes from its start to its result.

    The measure runs in a scratch database of its own, on the same server, or in a file beside the given one, and
    removes it afterwards; the given database is not touched. With --in-place it writes runs of the tenant
    `stepfast-bench` to a queue that only this measure serves; they stay there.
    """
    database = client.database
    figures, server = client.run(_measure(database, seconds, in_place))
    if in_place:
        say(f"{figures.runs:,} runs of tenant {TENANT} were written to {without_password(database)}, and stay there.")
    if client.is_json:
        print_json({"server": server, "in_place": in_place, **figures._asdict()})
        return
    print_facts({"server": server, **_facts(figures)})


def _facts(figures: Figures) -> dict[str, object]:
    spans = f"{figures.p50_ms:.1f} ms (p50), {figures.p99_ms:.1f} ms (p99)"
    return {
        "steps a second": f"{figures.steps_per_s:,.0f}, with {figures.at_once} runs at once",
        "start to result": f"{spans}, one run of one step at a time",
        "runs measured": f"{figures.runs:,}",
    }


async def _measure(database: str, seconds: float, in_place: bool) -> tuple[Figures, str]:
    async with _place(database, in_place) as place:
        queue = f"{TENANT}-{secrets.token_hex(4)}"
        settings = WorkerSettings(queues=(queue,), tenants=None)
        server = (await examine(place)).server
        async with Stepfast(place, workflows=[passing], worker=settings) as app:
            return await measure(app, TENANT, queue, seconds), server


@asynccontextmanager
async def _place(database: str, in_place: bool) -> AsyncIterator[str]:
    if in_place:
        yield database
        return
    async with scratch_beside(database) as scratch:
        await bring_up_to_date(scratch)
        yield scratch
