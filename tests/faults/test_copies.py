"""Copies of a worker process (fork), as a step makes them that has work done by processes of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.processes import ROOT, SHOP, environment
from tests.cli.shop import ending_a_copy
from tests.support.apps import app_on

COMMAND = "import sys; from stepfast.cli.main import main; sys.exit(main())"
BROKEN = f"import signal; from stepfast.cli import signals; signals.listen = signal.signal; {COMMAND}"


async def how_a_copy_ended(database: str, folder: Path, program: str) -> tuple[Any, bool]:
    """How a copy of a worker ended that its step sent a SIGTERM, and whether the worker's run was handed back."""
    options = ["worker", "--app", SHOP, "--grace", "0s", "--lease", "9s", "--database", database]
    async with app_on(database, [ending_a_copy], worker=False) as client:
        run = await client.start(ending_a_copy, str(folder))
        with subprocess.Popen([sys.executable, "-c", program, *options], cwd=ROOT, env=environment()) as process:
            try:
                ended = await run.result(timeout="60s")
            finally:
                process.kill()
        return ended, "handed_back" in [event.type for event in await run.history()]


async def test_a_copy_of_a_worker_that_its_step_ends_ends_and_gives_back_nothing(database, tmp_path):
    assert await how_a_copy_ended(database, tmp_path, COMMAND) == (-signal.SIGTERM, False)


async def test_the_broken_twin_whose_copies_hear_what_it_hears_does_not_end_them(database, tmp_path):
    ended, _ = await how_a_copy_ended(database, tmp_path, BROKEN)
    assert ended != -signal.SIGTERM
