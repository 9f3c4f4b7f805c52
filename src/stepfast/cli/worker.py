"""`stepfast worker`: a worker until it is told to stop, or several in processes of their own."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.collecting import collect_seldom
from stepfast.cli.exits import ERROR, OK, REPLACE_ME
from stepfast.cli.leaving import Deadline, end_with_stdin, leave_soon
from stepfast.cli.loading import load_app
from stepfast.cli.logs import show_log
from stepfast.cli.memory import leaves_room, outgrown
from stepfast.cli.options import common_options, names, size, span_of, text
from stepfast.cli.signals import SIGNALS, stay_deaf
from stepfast.cli.supervisor import Supervisor
from stepfast.log import Log
from stepfast.outbox import add_sinks
from stepfast.settings import Found, Settings, read_settings, warn_of_unknown
from stepfast.worker.settings import BOUNDS
from stepfast.workers import AppWorker

log = Log("cli")

LOOK_EVERY_S = 0.05


@click.command()
@common_options("app", "database")
@click.option("--queues", metavar="A,B", callback=names, help="The queues to serve. [those of its workflows]")
@click.option("--concurrency", type=int, help="Runs of each queue at once. [STEPFAST_CONCURRENCY, 100]")
@click.option("--processes", type=click.IntRange(1, 1_000), default=1, help="Worker processes to run. [1]")
@click.option(
    "--lease",
    metavar="SPAN",
    callback=span_of(BOUNDS["lease_ms"]),
    help="How long a silent worker keeps its runs. [30s]",
)
@click.option(
    "--poll",
    metavar="SPAN",
    callback=span_of(BOUNDS["poll_ms"]),
    help="How often an idle worker looks for runs. [1s]",
)
@click.option(
    "--grace",
    metavar="SPAN",
    callback=span_of(BOUNDS["grace_ms"]),
    help="How long steps may still take after a signal. [8s]",
)
@click.option("--drain", is_flag=True, help="Work until nothing is ready, then exit.")
@click.option(
    "--id", "label", metavar="LABEL", callback=text, help="The name that people see. [STEPFAST_WORKER_ID, host and pid]"
)
@click.option("--tenants", metavar="A,B", callback=names, help="The tenants to serve. [all]")
@click.option("--sink", "sinks", metavar="URL", multiple=True, help="Publish events there too, like redis://host/0.")
@click.option("--max-runs", type=int, help="Leave after so many runs; of 2 or more --processes a fresh one follows.")
@click.option("--max-memory", metavar="SIZE", callback=size, help="Leave above so much memory, like 512MB; the same.")
@click.option("--supervised", is_flag=True, hidden=True)
def worker(
    app: str | None,
    database: str | None,
    processes: int,
    drain: bool,
    max_memory: int | None,
    supervised: bool,
    sinks: tuple[str, ...],
    **options: Any,
) -> None:
    """Run a worker: claim runs and execute them until told to stop.

    On SIGTERM or Ctrl-C it claims no more, lets steps under way finish within the grace time, hands the rest back and
    ends with exit code 0. A second signal ends it at once, with 143 or 130; a SIGTERM within a second of the first, or
    a Ctrl-C within a quarter of one, counts as the same.
    """
    settings = _settings(app, database)
    show_log(settings.log)
    warn_of_unknown(settings)
    if processes > 1 and not supervised:
        code = Supervisor(processes, drain).run()
        stay_deaf()
        sys.exit(code)
    loaded = load_app(settings)
    if database is not None:
        loaded.database = database
    add_sinks(loaded.sinks, sinks, "--sink")
    host = Host(loaded, loaded.worker(**options), drain, max_memory, supervised)
    collect_seldom()
    code = asyncio.run(host.run())
    stay_deaf()
    sys.exit(code)


def _settings(app: str | None, database: str | None) -> Settings:
    given = {"STEPFAST_APP": (app, "--app"), "STEPFAST_DATABASE_URL": (database, "--database")}
    return read_settings({name: Found(value, place) for name, (value, place) in given.items() if value is not None})


class Host:
    """One worker in this process, from its start to the first reason to leave."""

    def __init__(self, app: Stepfast, worker: AppWorker, drain: bool, max_memory: int | None, supervised: bool) -> None:
        self._app = app
        self._worker = worker
        self._drain = drain
        self._max_memory = max_memory
        self._supervised = supervised
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Work, and answer with the exit code."""
        deadline = self._listen()
        code = await self._work()
        deadline.is_met()
        # What is left is the end of the loop and of its threads. It would wait for those of `asyncio.to_thread` for as
        # long as they go on, so that it is cut short; a signal may not stop it, but a second one ends it at once.
        SIGNALS.ask(lambda: leave_soon(code), self._supervised)
        leave_soon(code)
        return code

    async def _work(self) -> int:
        stop = asyncio.create_task(self._stop.wait())
        if not await self._started_before(stop):
            return OK
        reasons: dict[asyncio.Task[Any], int] = {stop: OK, **self._other_reasons()}
        done, others = await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        await self._worker.stop()
        if (error := self._worker.farewell_failed) is not None:
            # Whatever it was told to leave for: what the store counts as its own waits for the end of its lease.
            log.error("runs_not_handed_back", worker_id=self._worker.worker_id, error=f"{error.code}: {error}")
            return ERROR
        return min(reasons[reason] for reason in done)

    def _listen(self) -> Deadline:
        loop = asyncio.get_running_loop()
        deadline = Deadline(self._app, self._worker, loop)

        def stop() -> None:
            deadline.begin()
            loop.call_soon_threadsafe(self._stop.set)

        SIGNALS.ask(stop, self._supervised)
        if self._supervised:
            end_with_stdin()
        return deadline

    async def _started_before(self, stop: asyncio.Task[bool]) -> bool:
        """Start the worker, unless a signal comes first: then there is nothing to hand back yet."""
        start = asyncio.create_task(self._worker.start())
        await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            start.cancel()
            await asyncio.wait({start})
            return False
        await start
        return True

    def _other_reasons(self) -> dict[asyncio.Task[Any], int]:
        """What else makes this worker leave, each with the exit code that it leaves with."""
        replaced = REPLACE_ME if self._supervised else OK
        reasons: dict[asyncio.Task[Any], int] = {asyncio.create_task(self._has_done_its_share()): replaced}
        if self._drain:
            reasons[asyncio.create_task(self._worker.until_drained())] = OK
        if self._max_memory is not None:
            # A fresh one would have no more room than this one: who replaces it at once does so for ever.
            has_room = leaves_room(self._max_memory)
            reasons[asyncio.create_task(outgrown(self._max_memory))] = replaced if has_room else ERROR
        return reasons

    async def _has_done_its_share(self) -> None:
        await self._worker.spent.wait()
        while self._worker.stats().running:  # noqa: ASYNC110 - the last run is of no interest to anybody else
            await asyncio.sleep(LOOK_EVERY_S)
