"""`stepfast workflows list|show`: what can be started, where it is from, and who can execute it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.output import put
from stepfast.cli.printing import moment, print_facts, print_json, print_table, say
from stepfast.cli.serving import living_workers
from stepfast.cli.shapes import page_object, parsed
from stepfast.kernel.errors import Invalid
from stepfast.library import WorkflowView
from stepfast.workflows.plans.drawing import mermaid
from stepfast.workflows.plans.plan import Plan
from stepfast.workflows.plans.workflow import PlanWorkflow
from stepfast.workflows.templates.loading import load_template

Shown = dict[str, Any]


@click.command("list")
@with_client
def list_workflows(client: Client) -> None:
    """The workflows of the app, if one is named, those that are registered, and those of the workers alive.

    What is registered belongs to a tenant: to the one that --tenant names, or else to STEPFAST_TENANT's.
    """

    async def read(app: Stepfast) -> list[Shown]:
        return await _read(app, client.one_tenant)

    found = client.perform(read, takes_app=True)
    if client.is_json:
        print_json(page_object(found, None))
        return
    if not found:
        app = "the app has none" if client.settings.app else "no app is named with --app"
        say(f"No workflows: {app}, none is registered, and no worker is alive.")
        return
    head = ("workflow", "version", "kind", "digest", "from", "queue", "workers")
    print_table(head, [_row(workflow) for workflow in found])


@click.command()
@with_client
@click.argument("name")
@click.option("--version", type=click.IntRange(min=1), help="Which version. [the newest]")
@click.option("--mermaid", "is_drawn", is_flag=True, help="Its picture, as the text of a Mermaid diagram.")
def show(client: Client, name: str, version: int | None, is_drawn: bool) -> None:
    """One workflow: where it is from, its digest and its content; or its picture."""

    async def read(app: Stepfast) -> tuple[WorkflowView, Plan | None, int]:
        view = await app.workflows.get(name, version, tenant=client.one_tenant)
        served = Counter(code for worker in await living_workers(app) for code in worker.codes)
        return view, _plan_of(app, view), served[view.code]

    view, plan, workers = client.perform(read, takes_app=True)
    if is_drawn:
        put(mermaid(_drawable(view, plan)))
        return
    shown = {**_object(view, workers), "tenant": view.tenant, "registered_at": view.registered_at, "actor": view.actor}
    if client.is_json:
        print_json({**shown, "content": parsed(view.content)})
        return
    told_at = None if view.registered_at is None else moment(view.registered_at)
    print_facts({**shown, "sources": ", ".join(view.sources), "registered_at": told_at, "in_app": None})
    if view.content is not None:
        put()
        print_json(parsed(view.content))


def _plan_of(app: Stepfast, view: WorkflowView) -> Plan | None:
    own = next((each for each in app.definitions() if each.code == view.code), None)
    if isinstance(own, PlanWorkflow):
        return own.frame.plan
    if view.kind == "template" and view.content is not None:
        return load_template(parsed(view.content), name=view.code).plan
    return None


def _drawable(view: WorkflowView, plan: Plan | None) -> Plan:
    if plan is not None:
        return plan
    if view.kind == "function":
        raise Invalid(f"Workflow {view.name!r} is a function: what it does shows only when it runs.")
    raise Invalid(f"Workflow {view.name!r} is a graph of Python's: name the app that has it with --app.")


async def _read(app: Stepfast, tenant: str) -> list[Shown]:
    known = {view.code: view for view in await app.workflows.list(tenant=tenant)}
    served = Counter(code for worker in await living_workers(app) for code in worker.codes)
    # A step with a queue of its own is announced by its bare name.
    codes = sorted({*known, *(code for code in served if "@" in code)}, key=_place)
    return [_object(known[code], served[code]) if code in known else _foreign(code, served[code]) for code in codes]


def _place(code: str) -> tuple[str, int, str]:
    name, version, digest = _parts(code)
    return name, version, digest or ""


def _parts(code: str) -> tuple[str, int, str | None]:
    name, _, version = code.rpartition("@")
    number, _, digest = version.partition("#")
    return name, int(number), digest or None


def _object(view: WorkflowView, workers: int) -> Shown:
    return {
        "name": view.name,
        "version": view.version,
        "kind": str(view.kind),
        "digest": view.digest,
        "sources": list(view.sources),
        "queue": view.queue,
        "in_app": "code" in view.sources,
        "workers": workers,
    }


def _foreign(code: str, workers: int) -> Shown:
    """What workers have that is neither of the app nor registered by the tenant; they tell how its digest begins."""
    name, version, digest = _parts(code)
    identity = {"name": name, "version": version, "kind": None, "digest": digest, "sources": []}
    return {**identity, "queue": None, "in_app": False, "workers": workers}


def _row(workflow: Shown) -> tuple[object, ...]:
    digest = workflow["digest"] and workflow["digest"][:12]
    place = ", ".join(workflow["sources"]) or "workers"
    identity = (workflow["name"], workflow["version"], workflow["kind"], digest)
    return (*identity, place, workflow["queue"], workflow["workers"])
