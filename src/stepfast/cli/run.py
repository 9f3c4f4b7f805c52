"""`stepfast run`: a workflow of a file, here and now, with its result on stdout."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.arguments import arguments_of
from stepfast.cli.awaiting import result_of
from stepfast.cli.client import Client
from stepfast.cli.options import common_options
from stepfast.cli.printing import print_json, say
from stepfast.cli.run_targets import load_template_of, load_workflow, names_template
from stepfast.kernel.durations import written_span
from stepfast.kernel.errors import Invalid, RunFailed
from stepfast.workflows.plans.plan import Ask, Plan, Receive, RunChild, Use


@click.command()
@common_options("database", "app", "tenant", "output", "timeout", "debug")
@click.option("--key", metavar="KEY", help="What makes this run one of a kind; a second time its result is printed.")
@click.option("--queue", metavar="NAME", help="The queue of the run. [that of the workflow]")
@click.option(
    "--dry-run", is_flag=True, help="Only for templates: steps give their `mock`, and nothing is done or kept."
)
@click.argument("target", metavar="FILE[:WORKFLOW]")
@click.argument("text", metavar="[JSON]", required=False)
def run(
    database: str | None,
    app: str | None,
    tenant: str | None,
    all_tenants: bool,
    output: str,
    timeout: str | None,
    key: str | None,
    queue: str | None,
    dry_run: bool,
    target: str,
    text: str | None,
) -> None:
    """Run a workflow of a file here and now, and print its result as JSON.

    Of the JSON an array is positional, an object keywords, anything else the single argument; `@file.json` reads a
    file, `-` reads stdin. It executes this run and the children that it starts, and no other run of the database. The
    run is durable: when this command is stopped, `stepfast runs execute` or any worker that has the workflow goes on.

    FILE may be a template in YAML or JSON; --app names the app whose executors it uses.
    """
    if dry_run:
        _rehearse(target, text, app, timeout)
        return
    client = Client(database, app, tenant, all_tenants, output, timeout)
    own_app, workflow = (
        load_template_of(target, client.settings, is_dry=False) if names_template(target) else load_workflow(target)
    )
    if database is not None:
        own_app.database = database
    arguments = arguments_of(workflow, text)
    options = {"tenant": client.one_tenant, "key": key, "queue": queue}
    started: list[str] = []

    async def work(app: Stepfast) -> Any:
        handle = await app.start(workflow, *arguments.args, arguments=arguments.kwargs, **options)
        started.append(handle.id)
        # Not the app's own worker: that would execute whatever else is ready in the database, and first.
        async with app.worker(only=handle.id) as worker:
            try:
                return await result_of(handle, workflow)
            except asyncio.CancelledError:
                if worker.stats().running:
                    grace = written_span(worker.grace_ms)
                    say(f"Steps under way may finish within {grace}; Ctrl-C again leaves at once.")
                raise

    try:
        print_json(client.perform_on(own_app.as_client(), work))
    except KeyboardInterrupt:
        # Before the start is answered nobody has heard of a run, and there may be none.
        if started:
            say(f"Run {started[0]} was let go; a worker that has its workflow goes on with it when it is due.")
            say(f"`stepfast runs why {started[0]}` tells what it waits for.")
        raise


def _rehearse(target: str, text: str | None, app_target: str | None, timeout: str | None) -> None:
    """Walk a template with mocks, in a store of its own that is gone afterwards."""
    if not names_template(target):
        raise Invalid(f"--dry-run is for templates, which know what their steps would give; {target} is none.")
    client = Client(None, app_target, None, False, "json", timeout)
    app, workflow = load_template_of(target, client.settings, is_dry=True)
    arguments = arguments_of(workflow, text)

    async def work(app: Stepfast) -> Any:
        handle = await app.start(workflow, *arguments.args, arguments=arguments.kwargs)
        try:
            async with app.worker(only=handle.id):
                return await result_of(handle, workflow)
        except RunFailed:
            lacking = ", ".join(_without_mock(workflow.template.plan)) or "none"
            say(f"Steps without a `mock` give null in a dry run: {lacking}.")
            raise
        finally:
            for record in await handle.steps():
                say(f"{record.call.address}: {record.state}")

    with tempfile.TemporaryDirectory(prefix="stepfast-") as folder:
        app.database = f"sqlite:////{Path(folder, 'dry.db').relative_to('/')}"
        print_json(client.perform_on(app.as_client(), work))


def _without_mock(plan: Plan) -> list[str]:
    """The steps whose output others may want, and which say nothing of it."""
    return [step.id for step in plan if isinstance(step.verb, Use | Ask | Receive | RunChild) and not step.has_mock]
