"""`stepfast runs start`, `execute` and `signal`: what sets runs going."""

from __future__ import annotations

from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.actors import actor_options
from stepfast.cli.arguments import arguments_of, json_of
from stepfast.cli.awaiting import result_of
from stepfast.cli.client import Client, with_client
from stepfast.cli.options import span
from stepfast.cli.output import put
from stepfast.cli.printing import print_json, say
from stepfast.cli.progress import shown_while
from stepfast.cli.shapes import error_line, run_object
from stepfast.kernel.errors import Invalid, RunCancelled, RunFailed
from stepfast.kernel.states import RunState
from stepfast.kernel.views import RunView

WITHOUT_RESULT = frozenset({RunState.FAILED, RunState.CANCELLED})


@click.command()
@with_client
@click.option("--key", metavar="KEY", help="What makes this start one of a kind: a second time it names the same run.")
@click.option("--queue", metavar="NAME", help="The queue. [that of the workflow]")
@click.option("--priority", type=int, help="Higher is claimed first. [that of the workflow]")
@click.option("--delay", metavar="SPAN", callback=span, help="Begin no earlier than after this time.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; may be given several times.")
@click.option("--metadata", metavar="JSON", help="An object to keep with the run.")
@click.option("--thread-id", metavar="ID", help="The thread that it belongs to.")
@click.option("--subject", metavar="TEXT", help="What it is about.")
@click.option("--correlation-id", metavar="ID", help="What it belongs to.")
@click.option("--wait", is_flag=True, help="Wait for its end, and print its result.")
@actor_options
@click.argument("workflow")
@click.argument("text", metavar="[JSON]", required=False)
def start(
    client: Client,
    workflow: str,
    text: str | None,
    metadata: str | None,
    wait: bool,
    asked_by: str | None,
    **given: Any,
) -> None:
    """Start a run of a workflow of the app, or of a registered one, and print its id.

    Of the JSON an array is positional, an object keywords, anything else the single argument; `@file.json` reads a
    file, `-` reads stdin.
    """
    options = {"tenant": client.one_tenant, "actor": asked_by, "metadata": _metadata(metadata), **given}

    async def work(app: Stepfast) -> tuple[str, Any]:
        definition = await app.startable(workflow, client.one_tenant)
        arguments = arguments_of(definition, text)
        handle = await app.start(definition, *arguments.args, arguments=arguments.kwargs, **options)
        return handle.id, await result_of(handle, definition) if wait else None

    async def is_registered(app: Stepfast) -> bool:
        return bool(await app.workflows.list(workflow, tenant=client.one_tenant))

    needs_code = not client.settings.app and not client.perform(is_registered)
    run_id, result = client.perform(work, needs_code=needs_code, takes_app=True)
    if wait:
        print_json(result)
    elif client.is_json:
        print_json({"run_id": run_id})
    else:
        put(run_id)


@click.command()
@with_client
@click.argument("run")
def execute(client: Client, run: str) -> None:
    """Execute a run here and now, as far as it goes: until it ends, or waits for something.

    The exit code is 1 when it has failed or was cancelled meanwhile.
    """

    async def work(app: Stepfast) -> RunView:
        handle = await client.handle(app, run)
        async with shown_while(handle):
            await handle.execute()
        return await handle.info()

    view = client.perform(work, needs_code=True)
    if client.is_json:
        print_json(run_object(view))
    elif view.state not in WITHOUT_RESULT:
        say(f"Run {view.run_id} is {view.state}.")
    _raise_end(view)


def _raise_end(view: RunView) -> None:
    """End the command as `stepfast run` ends for a run that has no result."""
    if view.state is RunState.FAILED:
        raise RunFailed(f"Run {view.run_id} failed with {error_line(view.error)}")
    if view.state is RunState.CANCELLED:
        raise RunCancelled(f"Run {view.run_id} was cancelled. `stepfast runs rerun {view.run_id}` starts it again.")


@click.command()
@with_client
@click.option("--key", metavar="KEY", help="What makes this signal one of a kind: a second time it changes nothing.")
@click.option("--reason", metavar="TEXT", help="Why; kept in the history of the run.")
@actor_options
@click.argument("run")
@click.argument("name")
@click.argument("text", metavar="[JSON]", required=False)
def signal(
    client: Client,
    run: str,
    name: str,
    text: str | None,
    key: str | None,
    reason: str | None,
    asked_by: str | None,
) -> None:
    """Send a named value to a run; it is kept until the run's code takes it."""
    value = None if text is None else json_of(text, "The value")

    async def work(app: Stepfast) -> str:
        handle = await client.handle(app, run)
        await handle.signal(name, value, key=key, reason=reason, actor=asked_by)
        return handle.id

    run_id = client.perform(work)
    if client.is_json:
        print_json({"run_id": run_id, "name": name})
    else:
        say(f"Signal {name!r} is stored for run {run_id}.")


def _metadata(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    value = json_of(text, "--metadata")
    if not isinstance(value, dict):
        raise Invalid(f"--metadata is {text!r}; it must be a JSON object.")
    return value
