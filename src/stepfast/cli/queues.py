"""`stepfast queues`: how long the lines are, and who serves them."""

from __future__ import annotations

from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.printing import print_facts, print_json, print_table, say, took, visible
from stepfast.cli.serving import living_workers
from stepfast.cli.shapes import object_of, page_object
from stepfast.kernel.durations import Instant
from stepfast.kernel.views import QueueView, WorkerView


@click.command("list")
@with_client
def list_queues(client: Client) -> None:
    """Every queue that has open runs or a worker."""
    found = client.perform(_read)
    if client.is_json:
        print_json(page_object(found, None))
        return
    if not found:
        say("No queues: no run is open, and no worker is alive.")
        return
    head = ("queue", "ready", "running", "waiting", "paused", "suspects", "oldest ready", "workers")
    print_table(head, [_row(queue) for queue in found])


@click.command()
@with_client
@click.argument("queue")
def show(client: Client, queue: str) -> None:
    """One queue, with the workers that serve it."""

    async def read(app: Stepfast) -> dict[str, Any]:
        return _queue_object(await app.queues.get(queue), await living_workers(app), await app.now())

    found = client.perform(read)
    if client.is_json:
        print_json(found)
        return
    if not (found["workers"] or any(found[name] for name in QueueView._fields[1:])):
        say(f"Queue {visible(queue)} has no open runs, and no worker serves it. `stepfast queues list` has the others.")
        return
    workers = ", ".join(f"{worker['label']} ({worker['worker_id']})" for worker in found["workers"])
    times = {"oldest_at": None, "oldest_ms": None, "oldest ready": took(found["oldest_ms"]) or None}
    print_facts({**found, **times, "workers": workers or "none"})


async def _read(app: Stepfast) -> list[dict[str, Any]]:
    """Every queue with the workers that serve it; those with workers and no run are there too."""
    workers, now = await living_workers(app), await app.now()
    views = {view.queue: view for view in await app.queues.list()}
    names = sorted({*views, *(queue for worker in workers for queue in worker.queues)})
    return [_queue_object(views.get(name) or QueueView(name, 0, 0, 0, 0, 0, None), workers, now) for name in names]


def _queue_object(view: QueueView, workers: list[WorkerView], now: Instant) -> dict[str, Any]:
    age_ms = None if view.oldest_at is None else max(now - view.oldest_at, 0)
    serving = [
        {"worker_id": worker.worker_id, "label": worker.label} for worker in workers if view.queue in worker.queues
    ]
    return {**object_of(view), "oldest_ms": age_ms, "workers": serving}


def _row(queue: dict[str, Any]) -> tuple[object, ...]:
    counts = (queue["ready"], queue["running"], queue["waiting"], queue["paused"], queue["suspects"])
    return (queue["queue"], *counts, took(queue["oldest_ms"]), len(queue["workers"]))
