"""`stepfast workflows register`: keep templates for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.actors import actor_options
from stepfast.cli.client import Client, with_client
from stepfast.cli.printing import print_json, say
from stepfast.definitions import TemplateCompiler
from stepfast.kernel.definitions import DefinitionView


@click.command()
@with_client
@click.argument("file", type=click.Path(path_type=Path))
@actor_options
def register(client: Client, file: Path, asked_by: str | None) -> None:
    """Keep a template, YAML or JSON, under its name and version, for the workers of all processes to execute.

    What is registered never changes: the same content again is no error, other content under a version that stands is
    one. With --app its executors are checked against those of the app.
    """
    has_app = bool(client.settings.app)

    async def keep(app: Stepfast) -> DefinitionView:
        if not has_app:
            app.compiler = TemplateCompiler(app._executors, app._registry, knows_executors=False)
        return await app.register(file, actor=asked_by, tenant=client.one_tenant)

    stands = client.perform(keep, takes_app=True)
    if client.is_json:
        print_json(_object(stands))
        return
    say(f"{stands.name} version {stands.version} stands, with digest {stands.digest}.")
    if not has_app:
        say("Its executors were not checked: name the app that has them with --app.")
    say(f"Start it with `stepfast runs start {stands.name}`.")


def _object(stands: DefinitionView) -> dict[str, Any]:
    identity = {"definition_id": stands.definition_id, "tenant": stands.tenant, "name": stands.name}
    content = {"version": stands.version, "digest": stands.digest, "kind": str(stands.kind)}
    return {**identity, **content, "registered_at": stands.registered_at, "actor": stands.actor}
