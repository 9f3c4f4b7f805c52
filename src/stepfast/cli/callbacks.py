"""`stepfast callbacks`: whoever has the token of outside work says how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.actors import actor_options
from stepfast.cli.arguments import json_of
from stepfast.cli.client import Client, with_client
from stepfast.cli.reviews_answering import print_counted, read_token, run_after
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import Invalid
from stepfast.kernel.views import RunView
from stepfast.tokens import CALLBACK_PREFIX, Secret

token_option = click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Where the token is; - for stdin. [asked for on a terminal, else stdin]",
)


@click.command()
@with_client
@token_option
@actor_options
@click.argument("value", required=False)
def complete(client: Client, value: str | None, token_file: Path | None, asked_by: str | None, **_: Any) -> None:
    """Say that outside work is done, with VALUE as the result of its step.

    VALUE is JSON or @file.json; without it the result is null. The token is never an argument.
    """
    _refuse_tokens(value)
    if value == "-":
        raise Invalid("The value cannot come from stdin, as the token may. Write it as JSON, or as @file.json.")
    result = None if value is None else json_of(value, "The value")
    token = Secret(read_token(token_file))

    async def work(app: Stepfast) -> RunView | Changed:
        done = await app.callbacks.complete(token, result, tenant=client.named_tenant, actor=asked_by)
        return await run_after(app, done)

    print_counted(client, "It counts", client.perform(work))


@click.command()
@with_client
@token_option
@actor_options
@click.argument("error_type")
@click.argument("message", required=False, default="")
def fail(
    client: Client, error_type: str, message: str, token_file: Path | None, asked_by: str | None, **_: Any
) -> None:
    """Say that outside work has failed, with an error of ERROR_TYPE; the token is never an argument."""
    _refuse_tokens(error_type, message)
    token = Secret(read_token(token_file))

    async def work(app: Stepfast) -> RunView | Changed:
        done = await app.callbacks.fail(token, error_type, message, tenant=client.named_tenant, actor=asked_by)
        return await run_after(app, done)

    print_counted(client, "It counts", client.perform(work))


def _refuse_tokens(*words: str | None) -> None:
    if any(word is not None and word.strip().startswith(CALLBACK_PREFIX) for word in words):
        raise Invalid(
            "A token was given as an argument, where every user of this machine can see it. Give it when you are "
            "asked, on stdin, or with --token-file."
        )
