"""`stepfast workflows`: what can be started, and who can execute it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.printing import print_json, print_table, say
from stepfast.cli.serving import living_workers
from stepfast.cli.shapes import page_object


@click.command("list")
@with_client
def list_workflows(client: Client) -> None:
    """The workflows of the app, if one is named, and of the workers that are alive."""
    found = client.perform(_read, needs_code=bool(client.settings.app))
    if client.is_json:
        print_json(page_object(found, None))
        return
    if not found:
        say("No workflows: no app is named with --app, and no worker is alive.")
        return
    head = ("workflow", "version", "queue", "in the app", "workers")
    print_table(head, [_row(workflow) for workflow in found])


async def _read(app: Stepfast) -> list[dict[str, Any]]:
    own = {definition.code: definition for definition in app.definitions()}
    served = Counter(code for worker in await living_workers(app) for code in worker.codes)
    # A step with a queue of its own is announced by its bare name.
    codes = {*own, *(code for code in served if "@" in code)}
    return [_workflow_object(code, own[code].queue if code in own else None, served[code]) for code in sorted(codes)]


def _workflow_object(code: str, queue: str | None, workers: int) -> dict[str, Any]:
    name, _, version = code.rpartition("@")
    return {"name": name, "version": int(version), "queue": queue, "in_app": queue is not None, "workers": workers}


def _row(workflow: dict[str, Any]) -> tuple[object, ...]:
    in_app = "yes" if workflow["in_app"] else "no"
    return (workflow["name"], workflow["version"], workflow["queue"], in_app, workflow["workers"])
