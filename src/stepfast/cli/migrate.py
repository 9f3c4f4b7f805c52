"""`stepfast migrate`: bring the schema of a database up to date."""

from __future__ import annotations

import asyncio
import json

import click

from stepfast.cli.client import Client
from stepfast.cli.options import common_options
from stepfast.engine.clock import SystemClock
from stepfast.stores.urls import migration_sql, store_for, without_password


@click.command()
@common_options("database", "app", "output")
@click.option("--sql", is_flag=True, help="Print the migrations as SQL, and change nothing.")
def migrate(database: str | None, app: str | None, output: str, sql: bool) -> None:
    """Bring the schema of the database up to date.

    Safe to repeat, and to run from several places at once. A SQLite file is also brought up to date when it is opened.
    """
    url = Client(database, app, None, False, output, None).database
    if sql:
        click.echo(migration_sql(url), nl=False)
        return
    applied = asyncio.run(bring_up_to_date(url))
    where = without_password(url)
    if output == "json":
        click.echo(json.dumps({"database": where, "applied": applied}))
    else:
        click.echo(
            "\n".join(f"Applied {name} to {where}." for name in applied) or f"The schema of {where} is up to date."
        )


async def bring_up_to_date(database: str) -> list[str]:
    """Apply the migrations that a database lacks; their names."""
    store = store_for(database, SystemClock())
    try:
        return await store.migrate()
    finally:
        await store.close()
