"""`stepfast workers`: who is there to execute runs."""

from __future__ import annotations

from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.printing import moment, print_facts, print_json, print_table, say, shortened
from stepfast.cli.serving import state_of
from stepfast.cli.shapes import object_of, page_object
from stepfast.kernel.durations import Instant
from stepfast.kernel.views import WorkerView


@click.command("list")
@with_client
@click.option("--alive", is_flag=True, help="Those that are alive only.")
def list_workers(client: Client, alive: bool) -> None:
    """The workers that are alive, and those that died lately."""
    read, now = client.perform(_read)
    found = [worker for worker in read if not alive or worker.is_alive(now)]
    if client.is_json:
        print_json(page_object([_worker_object(worker, now) for worker in found], None))
        return
    if not found:
        say("No workers. Start one with `stepfast worker`.")
        return
    head = ("worker", "label", "state", "host", "pid", "queues", "codes", "last heard of")
    print_table(head, [_row(worker, now) for worker in found])


@click.command()
@with_client
@click.argument("worker")
def show(client: Client, worker: str) -> None:
    """One worker, by its id, or by its label if no other living worker has it."""

    async def read(app: Stepfast) -> tuple[WorkerView, Instant]:
        return await app.workers.get(worker), await app.now()

    found, now = client.perform(read)
    if client.is_json:
        print_json(_worker_object(found, now))
        return
    lists = {"queues": ", ".join(found.queues), "codes": ", ".join(found.codes)}
    moments = {name: moment(getattr(found, name)) or None for name in ("started_at", "seen_at", "dead_at")}
    print_facts({**_worker_object(found, now), **lists, **moments})


async def _read(app: Stepfast) -> tuple[list[WorkerView], Instant]:
    return await app.workers.list(), await app.now()


def _worker_object(worker: WorkerView, now: Instant) -> dict[str, Any]:
    return {**object_of(worker), "state": state_of(worker, now)}


def _row(worker: WorkerView, now: Instant) -> tuple[object, ...]:
    queues, codes = ",".join(worker.queues), shortened(",".join(worker.codes))
    place = (worker.host, worker.pid)
    return (worker.worker_id, worker.label, state_of(worker, now), *place, queues, codes, moment(worker.seen_at))
