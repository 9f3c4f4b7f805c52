"""`stepfast doctor`: everything that keeps runs from being safe or from going on, with the next step for each."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import click

from stepfast.app import Stepfast
from stepfast.cli import checks
from stepfast.cli.checks import Check, Level
from stepfast.cli.client import Client, with_client
from stepfast.cli.exits import ERROR
from stepfast.cli.printing import print_json, print_table
from stepfast.kernel.errors import StepfastError
from stepfast.stores.health import examine
from stepfast.stores.postgres_urls import without_password

# Of a database that can be opened; each is asked on its own, so that one that fails hides no other.
INSIDE: dict[str, Callable[[Stepfast], Awaitable[Check]]] = {
    "runs": checks.runs,
    "troubles": checks.troubles,
    "blobs": checks.blobs,
    "workers": checks.workers,
    "queues": checks.queues,
    "codes": checks.codes,
    "suspects": checks.suspects,
    "seals": checks.seals,
    "sinks": checks.sinks,
}


@click.command()
@with_client
def doctor(client: Client) -> None:
    """Examine database, schema, workers and the runs of all tenants; changes nothing.

    Each line is ok, warn or fail, with the next step; the exit code is 1 if one fails.
    """
    found = [*_outside(client), checks.settings(client.settings)]
    if not any(check.level is Level.FAIL for check in found):
        found += client.perform(_inside)
    if client.is_json:
        print_json({"ok": all(check.level is not Level.FAIL for check in found), "checks": [*map(_object, found)]})
    else:
        print_table(("", "what", "found"), [(check.level, check.what, _told(check)) for check in found])
    if any(check.level is Level.FAIL for check in found):
        sys.exit(ERROR)


def _outside(client: Client) -> list[Check]:
    """What can be said without opening the store."""
    if client.has_own_store:
        return [Check(Level.OK, "database", "The app has a store of its own, which is not examined.")]
    shown, direct = without_password(client.database), client.settings.database_direct
    try:
        health = client.run(examine(client.database))
    except StepfastError as error:
        return [checks.failed("database", error)]
    return [
        Check(Level.OK, "database", f"{health.server} at {shown}"),
        checks.writing(health),
        checks.durability(health),
        checks.schema(health),
        checks.clock(health),
        checks.transactions(health),
        *([checks.trail(health)] if health.schema else []),
        *([client.run(checks.hints(client.database, direct))] if direct else []),
    ]


async def _inside(app: Stepfast) -> list[Check]:
    return [await _asked(name, ask(app)) for name, ask in INSIDE.items()]


async def _asked(name: str, answer: Awaitable[Check]) -> Check:
    try:
        return await answer
    except StepfastError as error:
        return checks.failed(name, error)


def _told(check: Check) -> str:
    return f"{check.found} {check.next_step}" if check.next_step else check.found


def _object(check: Check) -> dict[str, str]:
    return {"level": check.level, "what": check.what, "found": check.found, "next_step": check.next_step}
