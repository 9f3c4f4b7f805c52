"""`stepfast migrate`: bring the schema of a database up to date."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import click

from stepfast.cli.client import Client
from stepfast.cli.options import common_options, roles
from stepfast.cli.output import put
from stepfast.engine.clock import SystemClock
from stepfast.kernel.errors import Invalid
from stepfast.stores.grants import Grant, RoleKind
from stepfast.stores.postgres_urls import without_password
from stepfast.stores.urls import grant, grant_sql, migration_sql, store_for


@click.command()
@common_options("database", "app", "output")
@click.option("--sql", is_flag=True, help="Print the migrations as SQL, and change nothing.")
@click.option("--grant", "engines", metavar="ROLE", multiple=True, callback=roles, help="Let a role run engines.")
@click.option("--grant-reader", "readers", metavar="ROLE", multiple=True, callback=roles, help="Let a role read.")
def migrate(
    database: str | None, app: str | None, output: str, sql: bool, engines: tuple[str, ...], readers: tuple[str, ...]
) -> None:
    """Bring the schema of the database up to date.

    Safe to repeat, and to run from several places at once. A SQLite file is also brought up to date when it is opened.

    On PostgreSQL the roles that workers and auditors connect as need not own the schema: --grant lets one run engines,
    which add to the audit trail and cannot change it, --grant-reader lets one read. Later migrations keep that up.
    """
    url = Client(database, app, None, False, output, None).database
    grants = _grants(engines, readers)
    script = grant_sql(url, grants)
    if sql:
        _print_sql(f"{migration_sql(url)}\n{script}".rstrip() + "\n", output == "json")
        return
    applied = asyncio.run(bring_up_to_date(url, grants))
    where = without_password(url)
    if output == "json":
        put(json.dumps({"database": where, "applied": applied, "granted": [role for role, _ in grants]}))
    else:
        put(_told(where, applied, grants))


def _print_sql(script: str, is_json: bool) -> None:
    put(json.dumps({"sql": script}) if is_json else script, end="\n" if is_json else "")


def _grants(engines: tuple[str, ...], readers: tuple[str, ...]) -> list[Grant]:
    both = sorted({*engines} & {*readers})
    if both:
        raise Invalid(f"Role {both[0]!r} was given to --grant and to --grant-reader. An engine may read all there is.")
    kinds = {RoleKind.ENGINE: engines, RoleKind.READER: readers}
    return [Grant(role, kind) for kind, named in kinds.items() for role in named]


def _told(where: str, applied: list[str], grants: list[Grant]) -> str:
    lines = [f"Applied {name} to {where}." for name in applied] or [f"The schema of {where} is up to date."]
    kinds = {RoleKind.ENGINE: "run engines", RoleKind.READER: "read"}
    return "\n".join([*lines, *(f"Role {role!r} may {kinds[kind]}." for role, kind in grants)])


async def bring_up_to_date(database: str, grants: Sequence[Grant] = ()) -> list[str]:
    """Apply the migrations that a database lacks, and let roles use it; the names of the migrations."""
    store = store_for(database, SystemClock())
    try:
        applied = await store.migrate()
        await grant(database, grants)
        return applied
    finally:
        await store.close()
