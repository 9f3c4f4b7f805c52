"""`stepfast migrate`: bring the schema of a database up to date."""

from __future__ import annotations

import asyncio
import json

import click

from stepfast.cli.options import common_options
from stepfast.engine.clock import SystemClock
from stepfast.settings import Found, read_settings
from stepfast.stores.urls import migration_sql, store_for, without_password


@click.command()
@common_options("database", "output")
@click.option("--sql", is_flag=True, help="Print the migrations as SQL, and change nothing.")
def migrate(database: str | None, output: str, sql: bool) -> None:
    """Bring the schema of the database up to date.

    Safe to repeat, and to run from several places at once. A SQLite file is also brought up to date when it is opened.
    """
    settings = read_settings({"STEPFAST_DATABASE_URL": Found(database, "--database")} if database else {})
    if sql:
        click.echo(migration_sql(settings.database), nl=False)
        return
    applied = asyncio.run(bring_up_to_date(settings.database))
    if output == "json":
        click.echo(json.dumps({"database": without_password(settings.database), "applied": applied}))
    else:
        click.echo("\n".join(f"Applied {name}." for name in applied) or "The schema is up to date.")


async def bring_up_to_date(database: str) -> list[str]:
    """Apply the migrations that a database lacks; their names."""
    store = store_for(database, SystemClock())
    try:
        return await store.migrate()
    finally:
        await store.close()
