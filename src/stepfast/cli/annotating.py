"""`stepfast runs annotate` and `annotations`: facts that people and code note of runs."""

from __future__ import annotations

import json
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.actors import actor_options
from stepfast.cli.arguments import json_of, whole_numbers
from stepfast.cli.client import Client, with_client
from stepfast.cli.filters import page_options
from stepfast.cli.paging import Listing, numeric_cursor, print_page
from stepfast.cli.printing import moment, print_json, say, shortened
from stepfast.cli.shapes import object_of
from stepfast.kernel.annotations import AnnotationView
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import Invalid

PAGE = 100


@click.command()
@with_client
@click.option("--step", metavar="STEP", help="The step that it is about: its number, address, or name if it is one.")
@click.option("--scope", metavar="TEXT", help="What it is about besides, like a tool or a part of a document.")
@click.option("--key", metavar="KEY", help="What makes this one of a kind: a second time it notes nothing.")
@click.option("--reason", metavar="TEXT", help="Why; kept with it.")
@actor_options
@click.argument("run")
@click.argument("name")
@click.argument("value")
def annotate(client: Client, run: str, name: str, value: str, asked_by: str | None, **given: Any) -> None:
    """Note a fact of a run or one of its steps, also of a run that has ended.

    The value is JSON; what is no JSON is taken as text. `@file.json` reads a file, `-` reads stdin. A negative number
    needs two dashes before it: `-- -1`.
    """
    fact = _value(value)

    async def work(app: Stepfast) -> Changed:
        return await (await client.handle(app, run)).annotate(name, fact, actor=asked_by, **given)

    changed = client.perform(work)
    if client.is_json:
        print_json({"run_id": changed.run_id, "name": name, "repeated": changed.repeated})
    else:
        say(f"{name} is noted of run {changed.run_id}.")


@click.command()
@with_client
@click.option("--name", metavar="NAME", help="Those of this name.")
@click.option("--value", metavar="VALUE", help="With --name: those of this value, as JSON or else as text.")
@click.option("--step", metavar="STEP", help="Those of this step: its name, or its address for one call of it.")
@click.option("--by", "actor", metavar="NAME", help="Those that this person has noted.")
@page_options(PAGE)
@click.argument("run", required=False)
def list_annotations(
    client: Client, run: str | None, value: str | None, limit: int, cursor: str | None, **given: Any
) -> None:
    """Facts that were noted of a run, or of all, newest first."""
    wanted = given if value is None else {**given, "value": _value(value)}
    before = None if cursor is None else numeric_cursor(cursor)

    async def read(app: Stepfast) -> list[AnnotationView]:
        run_id = None if run is None else (await client.handle(app, run)).id
        page: dict[str, Any] = {"tenant": client.tenant, "limit": limit + 1, "cursor": before}
        return await app.annotations.list(run_id=run_id, **page, **wanted)

    head = ("run", "at", "name", "value", "scope", "step", "attempt", "actor")
    listing = Listing(object_of, head, _row, "No annotations.", cursor_of=lambda view: view.position)
    print_page(client.perform(read), limit, listing, client.is_json)


def _row(view: AnnotationView) -> tuple[object, ...]:
    about = (view.scope, view.step, view.attempt, view.actor)
    return (view.run_id, moment(view.at), view.name, shortened(view.value), *about)


def _value(text: str) -> Any:
    if text == "-" or text.startswith("@"):
        return json_of(text, "The value")
    try:
        return json.loads(text, parse_int=whole_numbers("The value"))
    except ValueError:
        return text
    except RecursionError:
        raise Invalid("The value is nested too deeply to be read.") from None
