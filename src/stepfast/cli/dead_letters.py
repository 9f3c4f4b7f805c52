"""`stepfast dead-letters`: runs that failed for good, to be looked at, replayed or put aside."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.bulk import BulkAnswer
from stepfast.cli.changing import Action, Choice, change, choice_options
from stepfast.cli.client import Client, with_client
from stepfast.cli.errors import ShownError, print_errors
from stepfast.cli.exceptions import GROUPS, print_groups
from stepfast.cli.filters import LETTER_FILTERS, group_option, letter_filters, page_options
from stepfast.cli.paging import Listing, print_page
from stepfast.cli.printing import moment, print_facts, print_json, shortened
from stepfast.cli.shapes import object_of
from stepfast.kernel.commands import Changed
from stepfast.kernel.texts import class_name
from stepfast.kernel.views import LetterView

PAGE = 50


@click.command("list")
@with_client
@letter_filters
@click.option("--resolved", is_flag=True, help="Those that were replayed or discarded too.")
@page_options(PAGE)
def list_letters(client: Client, limit: int, cursor: str | None, resolved: bool, **filters: Any) -> None:
    """A page of dead letters, newest run first."""

    async def read(app: Stepfast) -> list[LetterView]:
        letters = app.dead_letters
        return await letters.list(tenant=client.tenant, resolved=resolved, limit=limit + 1, cursor=cursor, **filters)

    head = ("run", "workflow", "step", "error", "message", "recorded", "resolution")
    listing = Listing(_listed_object, head, _row, "No dead letters.", cursor_of=lambda letter: letter.run_id)
    print_page(client.perform(read), limit, listing, client.is_json)


@click.command()
@with_client
@click.argument("run")
def show(client: Client, run: str) -> None:
    """The newest dead letter of a run, also one that was replayed or discarded, with the error and its causes."""

    async def read(app: Stepfast) -> LetterView:
        view = await client.find(app, run)
        return await app.dead_letters.get(view.run_id, tenant=client.tenant)

    letter = client.perform(read)
    if client.is_json:
        print_json(object_of(letter))
        return
    moments = {name: moment(getattr(letter, name)) or None for name in ("recorded_at", "resolved_at")}
    print_facts({**_listed_object(letter), **moments})
    print_errors([] if letter.error is None else [ShownError("the run", letter.error)])


@click.command()
@with_client
@click.option("--workflow", metavar="NAME", help="Dead letters of this workflow.")
@click.option("--limit", type=click.IntRange(1), default=GROUPS, help=f"How many at most. [{GROUPS}]")
def groups(client: Client, workflow: str | None, limit: int) -> None:
    """Equal failures as one line each, the largest groups first."""
    where = {"tenant": client.tenant, "workflow": workflow}
    print_groups(client, client.perform(lambda app: app.dead_letters.groups(**where, limit=limit)))


@click.command()
@with_client
@click.option("--version", type=click.IntRange(1), help="Go on with this version of the workflow.")
@letter_filters
@group_option
@choice_options
def replay(client: Client, version: int | None, **given: Any) -> None:
    """Let the runs of dead letters go on, as a new generation, without the failure that ended them."""
    _change(client, "replay", "replayed", given, {"version": version})


@click.command()
@with_client
@letter_filters
@group_option
@choice_options
def discard(client: Client, **given: Any) -> None:
    """Put dead letters aside: the runs stay failed, and leave the list."""
    _change(client, "discard", "discarded", given, {})


def _change(client: Client, name: str, done: str, given: dict[str, Any], more: dict[str, Any]) -> None:
    choice = Choice.taken_from(given, {**LETTER_FILTERS, "group": "group"})
    said = {"reason": given["reason"], "actor": given["asked_by"], "tenant": client.tenant, "dry_run": choice.dry_run}
    said |= more

    async def one(app: Stepfast, run_id: str, key: str | None) -> Changed:
        changed: Changed = await getattr(app.dead_letters, name)(run_id, key=key, **said)
        return changed

    def pages(app: Stepfast, key: str | None) -> AsyncIterator[BulkAnswer]:
        walk = {"limit": given["limit"], "cursor": given["cursor"]}
        answers: AsyncIterator[BulkAnswer] = getattr(app.dead_letters, f"{name}_pages")(
            key=key, **said, **walk, **choice.filters
        )
        return answers

    change(client, Action(name, done, one, pages, names_code=more.get("version") is not None), choice)


def _listed_object(letter: LetterView) -> dict[str, Any]:
    """A dead letter without its error, which is not read for lists."""
    fields = object_of(letter)
    del fields["error"]
    return fields


def _row(letter: LetterView) -> tuple[object, ...]:
    workflow, error = f"{letter.workflow}@{letter.version}", class_name(letter.error_type)
    told = (letter.step, error, shortened(letter.message), moment(letter.recorded_at), letter.resolution)
    return (letter.run_id, workflow, *told)
