"""`stepfast demo`: a worker is killed in the middle of a run, and the run goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from stepfast.app import Stepfast
from stepfast.cli.demo_workflow import order
from stepfast.cli.following import follow
from stepfast.kernel.events import EventType
from stepfast.kernel.views import EventView
from stepfast.runs import Run

KILL_AFTER = "reserve#1"
KILL_IN = "charge"
LOOK_EVERY_S = 0.01


@click.command()
def demo() -> None:
    """Watch a workflow survive the kill -9 of its worker."""
    with tempfile.TemporaryDirectory(prefix="stepfast-demo-") as folder:
        asyncio.run(Demo(Path(folder)).show())


class Demo:
    """The show: one run, two workers, one SIGKILL."""

    def __init__(self, folder: Path) -> None:
        self._console = Console(highlight=False)
        self._database = f"sqlite:///{folder}/demo.db"
        self._trace = folder / "trace"

    async def show(self) -> None:
        self._say(f"A database in one file: [dim]{self._database}[/]")
        async with Stepfast(self._database, workflows=[order], worker=False) as app:
            run = await app.start(order, "teapot", 4_900)
            self._say(f"Started run [cyan]{run.id}[/]. It is on disk; nobody executes it yet.\n")
            await self._watch_and_kill(run)
            self._say(f"\nResult: [green]{await run.result()}[/]\n")
        self._console.print(self._count_bodies())
        self._say("\nNo finished step ran twice. Two commands to try next:")
        for command, meaning in _next_commands(Path.cwd()).items():
            self._say(f"  [bold]{command}[/]{' ' * (37 - len(command))}{meaning}")

    async def _watch_and_kill(self, run: Run[str]) -> None:
        worker, killed = self._start_worker(), False
        try:
            async for event in follow(run):
                self._tell(event)
                if not killed and event.type == EventType.STEP_COMPLETED and event.step == KILL_AFTER:
                    killed = True
                    await self._until_under_way(KILL_IN, worker)
                    self._kill(worker)
                    worker = self._start_worker()
        finally:
            worker.terminate()
            worker.wait()

    async def _until_under_way(self, step: str, worker: subprocess.Popen[bytes]) -> None:
        """Until the body of a step has begun: the record of the one before comes a little earlier than that."""
        # It is asked again and again, as a file tells nobody that it was written to.
        while worker.poll() is None and step not in self._trace.read_text().split():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY_S)

    def _start_worker(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "STEPFAST_DEMO_TRACE": str(self._trace)}
        worker = subprocess.Popen(
            [sys.executable, "-m", "stepfast.cli.demo_workflow", self._database],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        self._say(f"[bold]Worker with pid {worker.pid} starts.[/]")
        return worker

    def _kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self._say(f"[bold red]kill -9 {worker.pid}[/] — in the middle of a step. Its lease of 2 s must run out now.")

    def _tell(self, event: EventView) -> None:
        step = f" {event.step}" if event.step else ""
        self._say(f"  {event.seq:>2}  {event.type}{step}")

    def _count_bodies(self) -> Table:
        table = Table("step", "times its body ran")
        for name, times in Counter(self._trace.read_text().split()).items():
            note = "  (was under way when the worker died)" if times > 1 else ""
            table.add_row(name, f"{times}{note}")
        return table

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)


def _next_commands(folder: Path) -> dict[str, str]:
    """What to try next: in a clone other things than where the package is installed."""
    example = ".venv/bin/python examples/order.py"
    if (folder / "Makefile").is_file() and (folder / example.split()[-1]).is_file():
        return {"make test": "every promise, on SQLite and PostgreSQL", example: "ten lines of your own to start from"}
    return {"stepfast run FILE.py": "a workflow of your own, as durable", "stepfast --help": "all that can be asked"}
