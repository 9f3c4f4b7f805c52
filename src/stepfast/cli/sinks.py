"""`stepfast sinks`: where events are published to, how far each sink has got, and what it did not take."""

from __future__ import annotations

from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.actors import actor_options
from stepfast.cli.client import Client, with_client
from stepfast.cli.output import put
from stepfast.cli.printing import moment, print_facts, print_json, print_table, say
from stepfast.cli.shapes import page_object
from stepfast.kernel.sinks import HeldBack, SinkLetterView, SinkView

LETTERS = 100


@click.command("list")
@with_client
def list_sinks(client: Client) -> None:
    """Every sink that was ever published to, and what it has not had yet."""
    found = client.perform(lambda app: app.sinks.list())
    if client.is_json:
        print_json(page_object((view._asdict() for view in found), None))
    elif found:
        head = ("sink", "behind", "held runs", "dead letters", "trouble")
        print_table(head, [(view.name, view.behind, view.held, view.letters, view.error) for view in found])
    else:
        say("Nothing was published so far.")


@click.command()
@with_client
@click.argument("sink")
def show(client: Client, sink: str) -> None:
    """One sink, with the runs that wait for it, and the events that it did not take."""

    async def read(app: Stepfast) -> tuple[SinkView, list[HeldBack], list[SinkLetterView]]:
        held, letters = await app.sinks.held(sink, limit=LETTERS), await app.sinks.letters(sink, limit=LETTERS)
        return await app.sinks.get(sink), [*held], [*letters]

    view, held, letters = client.perform(read)
    if client.is_json:
        runs = [each._asdict() for each in held]
        print_json({**view._asdict(), "held_runs": runs, "dead_letters": [*map(_object, letters)]})
        return
    print_facts({**view._asdict(), "due_at": moment(view.due_at) if view.due_at else None})
    if held:
        put()
        print_table(("held run", "from event", "tries", "next", "error"), [*map(_held_row, held)])
    if letters:
        put()
        print_table(("position", "run", "event", "tries", "error", "recorded"), [*map(_row, letters)])


@click.command()
@with_client
@click.argument("sink")
@click.argument("positions", type=int, nargs=-1)
@click.option("--limit", type=click.IntRange(1, 1_000), default=1_000, help="How many at most.")
@click.option("--dry-run", is_flag=True, help="Only say how many it would be.")
def replay(client: Client, sink: str, positions: tuple[int, ...], limit: int, dry_run: bool) -> None:
    """Have dead letters of a sink delivered once more, at these POSITIONS or the first of all."""
    count = client.perform(lambda app: app.sinks.replay(sink, positions or None, limit=limit, dry_run=dry_run))
    if client.is_json:
        print_json({"replayed": count, "dry_run": dry_run})
    else:
        say(f"{count} would be delivered once more." if dry_run else f"{count} will be delivered once more.")


@click.command()
@with_client
@click.argument("sink")
@click.option("--reason", metavar="TEXT", help="Why; kept in the history.")
@actor_options
def remove(client: Client, sink: str, reason: str | None, asked_by: str | None) -> None:
    """Forget a sink that nobody publishes to any more, with what it has not had: it keeps back no run from then on."""
    client.perform(lambda app: app.sinks.remove(sink, reason=reason, actor=asked_by))
    if client.is_json:
        print_json({"removed": True})
    else:
        say("The sink is removed.")


def _held_row(held: HeldBack) -> tuple[Any, ...]:
    return (held.run_id, held.seq, held.tries, moment(held.due_at), held.error)


def _row(view: SinkLetterView) -> tuple[Any, ...]:
    letter = view.letter
    return (letter.position, letter.run_id, letter.type, letter.tries, letter.error, moment(view.recorded_at))


def _object(view: SinkLetterView) -> dict[str, Any]:
    told = {"recorded_at": view.recorded_at, "replay_at": view.replay_at, "resolved_at": view.resolved_at}
    return {**view.letter._asdict(), **told}
