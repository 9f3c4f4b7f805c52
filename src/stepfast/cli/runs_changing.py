"""`stepfast runs cancel`, `pause`, `resume`, `retry`, `rerun`, `rollback` and `skip`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.bulk import BulkAnswer
from stepfast.cli.actors import actor_options
from stepfast.cli.arguments import json_of
from stepfast.cli.changing import Action, Choice, change, choice_options, named_options
from stepfast.cli.client import Client, with_client
from stepfast.cli.filters import COMMAND_FILTERS, command_filters
from stepfast.cli.output import put
from stepfast.cli.printing import print_json, visible
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import Invalid

version_option = click.option("--version", type=click.IntRange(1), help="Go on with this version of the workflow.")


@click.command()
@with_client
@command_filters
@choice_options
def cancel(client: Client, **given: Any) -> None:
    """End runs now: steps under way are cut short, children are cancelled."""
    _change(client, "cancel", "cancelled", given)


@click.command()
@with_client
@command_filters
@choice_options
def pause(client: Client, **given: Any) -> None:
    """Let no further step of runs begin; those under way are recorded first."""
    _change(client, "pause", "paused", given)


@click.command()
@with_client
@command_filters
@choice_options
def resume(client: Client, **given: Any) -> None:
    """Let paused runs go on."""
    _change(client, "resume", "resumed", given)


@click.command()
@with_client
@click.option("--step", metavar="STEP", help="Go on from this failed step: its number, address, or name if it is one.")
@version_option
@command_filters
@choice_options
def retry(client: Client, step: str | None, version: int | None, **given: Any) -> None:
    """Let failed runs go on, as a new generation, without the failure that ended them.

    A run that waits for code that fits looks at the code again, in the generation it has; to choose such runs by a
    filter, say --state waiting.
    """
    _change(client, "retry", "retried", given, {} if step is None else {"step": step}, version)


@click.command()
@with_client
@click.option(
    "--from",
    "--from-step",
    "from_step",
    metavar="STEP",
    help="Keep what came before this step: its number, address, name.",
)
@version_option
@command_filters
@choice_options
def rerun(client: Client, from_step: str | None, version: int | None, **given: Any) -> None:
    """Let ended runs start over, as a new generation, from a step or from the beginning."""
    _change(client, "rerun", "rerun", given, {} if from_step is None else {"from_step": from_step}, version)


@click.command()
@with_client
@click.option(
    "--to",
    "to",
    metavar="STEP|EVENT|STATE",
    required=True,
    help="A step, by name or address, an event by its number, or a state like waiting.",
)
@named_options
def rollback(client: Client, to: str, **given: Any) -> None:
    """Take runs back to where a step had ended, to an event, or to where they were last in a state, and hold them.

    They go on when they are resumed. Where a step has the name of a state, the step is meant.
    """
    _change(client, "rollback", "rolled back", given, {"to": to})


@click.command()
@with_client
@click.option("--reason", metavar="TEXT", help="Why; kept in the history of the run.")
@click.option("--key", metavar="KEY", help="Makes this command one of a kind for a run: a second time does nothing.")
@actor_options
@click.argument("run")
@click.argument("step")
@click.argument("text", metavar="[JSON]", required=False)
def skip(
    client: Client,
    run: str,
    step: str,
    text: str | None,
    reason: str | None,
    key: str | None,
    asked_by: str | None,
) -> None:
    """Let a step of a graph or template count as done, by hand, and the run go on with this output of it.

    The output is JSON; `@file.json` reads a file, `-` reads stdin. Without one it is null.
    """
    value = None if text is None else json_of(text, "The output")

    async def work(app: Stepfast) -> Changed:
        handle = await client.handle(app, run)
        return await handle.skip(step, value, key=key, reason=reason, actor=asked_by)

    changed = client.perform(work, takes_app=True)
    if client.is_json:
        print_json({"run_id": changed.run_id, "state": changed.state, "generation": changed.generation})
    else:
        put(f"Step {visible(step)} of run {changed.run_id} is skipped; the run is {changed.state}.")


def _change(
    client: Client,
    name: str,
    done: str,
    given: dict[str, Any],
    step: dict[str, str] | None = None,
    version: int | None = None,
) -> None:
    choice = Choice.named(given) if name == "rollback" else Choice.taken_from(given, COMMAND_FILTERS)
    if step and not choice.runs:
        option = "from" if name == "rerun" else "step"
        raise Invalid(f"A step is named, but no run. Name the run, or leave --{option} out.")
    said = {"reason": given["reason"], "actor": given["asked_by"], "dry_run": choice.dry_run}
    said |= {"version": version} if version else {}

    async def one(app: Stepfast, run_id: str, key: str | None) -> Changed:
        handle = app.get(run_id, tenant=client.tenant)
        changed: Changed = await getattr(handle, name)(key=key, **said, **(step or {}))
        return changed

    def pages(app: Stepfast, key: str | None) -> AsyncIterator[BulkAnswer]:
        where = {**choice.filters, "tenant": client.tenant}
        return app.change_pages(name, where, key=key, **said, limit=given["limit"], cursor=given["cursor"])

    names_code = version is not None or bool(step)
    change(client, Action(name, done, one, pages, names_code), choice)
