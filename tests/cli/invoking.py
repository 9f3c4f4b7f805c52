"""Commands in this very process, in a thread of their own: quick, and with their output apart."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from click.testing import CliRunner

from stepfast.cli.commands import cli

OFFICE = "tests.cli.office:app"


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, which must be JSON and nothing else."""
        return json.loads(self.out)


async def invoke(*args: str, stdin: str | None = None) -> Done:
    """Run a command to its end."""
    result = await asyncio.to_thread(CliRunner().invoke, cli, args, input=stdin, catch_exceptions=False)
    return Done(result.exit_code, result.stdout, result.stderr)


class Office:
    """The command line of somebody who looks after one database."""

    def __init__(self, database: str) -> None:
        self._database = database

    async def __call__(self, *args: str, stdin: str | None = None) -> Done:
        """Run a command on the database."""
        return await invoke(*args, "--database", self._database, stdin=stdin)

    async def json(self, *args: str) -> Any:
        """Run a command that must succeed, and what it answers in JSON."""
        done = await self(*args, "-o", "json")
        assert done.code == 0, done.err
        return done.json
