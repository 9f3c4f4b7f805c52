"""The serverless host: functions that are called for one run, or now and then, and live no longer than the call."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from stepfast.base import AppBase
from stepfast.engine.pruning import Progress
from stepfast.engine.publishing import Publisher
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import parse_run_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.ports import Clock
from stepfast.kernel.sinks import Backoff
from stepfast.kernel.states import ENDED, RunState
from stepfast.kernel.texts import shown
from stepfast.kernel.views import OutcomeView
from stepfast.log import Log
from stepfast.parts import Parts
from stepfast.worker.lease import process_name
from stepfast.worker.pruning import PruneLoop
from stepfast.worker.publishing import PublishLoop
from stepfast.worker.sealing import SealLoop
from stepfast.worker.upkeep import UpkeepLoop
from stepfast.worker.worker import Worker

log = Log("serverless")

# The longest pause between two heartbeats of a worker that lives, as a part of its lease.
LONGEST_SILENCE = 0.5
LOOKS_WHILE_SETTLING = 10
# A call lives for minutes at most: a backlog is worked off by several of them.
PART_MS = 5_000


class Handled(StrEnum):
    """What came of a run that was handled: `suspended` will be heard of again, the others will not."""

    COMPLETED = "completed"
    SUSPENDED = "suspended"
    FAILED = "failed"


class Processed(NamedTuple):
    """How many runs were taken up, and how many of them came to a good or a bad end; the rest wait."""

    processed: int
    succeeded: int
    failed: int


class UpkeepDone(NamedTuple):
    """What an upkeep pass did.

    `claimed` is 0: runs that are due become claimable by themselves, and `process_available` takes them.
    `suspended_checked` are waiting runs that were seen to: past their deadline, or left without a parent.
    `stale_released` are runs of dead workers that went back to the line, or failed for good. `events_published` are
    deliveries to the sinks of the app that no worker publishes to, a pass each. `events_sealed` and `runs_pruned` are
    what was sealed, where there are keys for that, and what retention policies let go.
    """

    claimed: int
    suspended_checked: int
    stale_released: int
    events_published: int
    events_sealed: int = 0
    runs_pruned: int = 0


class Serverless:
    """Opens the app for each call unless it is open, and leaves nothing running behind; calls at once share it."""

    def __init__(self, app: AppBase) -> None:
        self._app = app
        # Of very many runs that stay all are looked at in the end, some in each call.
        self._progress = Progress()

    async def handle(self, run_id: str) -> Handled:
        """Execute one run until it ends or waits; called again for the same run, it answers the same.

        A run that somebody else holds, that waits or that is not due is `suspended`; one that was cancelled is
        `completed`: there is nothing left to do.
        """
        async with self._app._used() as parts:
            run = parts.handle(parse_run_id(run_id), known_here=False)
            if (await run.info()).state not in ENDED:
                await parts.execute(parse_run_id(run_id))
            return _handled((await run.info()).state)

    async def process_available(self, max_runs: int = 100) -> Processed:
        """Take up to so many runs that are ready, and execute each until it ends or waits."""
        check_whole("max_runs", max_runs, 1)
        ends: Counter[RunState] = Counter()

        def note(outcome: OutcomeView) -> None:
            ends[outcome.state] += 1

        async with self._app._used() as parts:
            settings = replace(self._app._settings, max_runs=max_runs)
            worker = await parts.add_worker(settings, ended=note)
            try:
                await _until_done(worker)
            finally:
                await parts.remove_worker(worker, None)
        failed = ends[RunState.FAILED]
        return Processed(worker.stats().runs_processed, ends.total() - failed, failed)

    async def upkeep(self) -> UpkeepDone:
        """Make one pass that looks after what dead workers left behind; call it once a minute or so.

        A worker that has been silent for longer than its lease gets half of it once more to be heard of, so that a call
        which finds one takes that long.
        """
        async with self._app._used() as parts:
            settings, clock = self._app._settings, self._app._clock
            await _settled(parts, clock)
            upkeep = UpkeepLoop(parts.store, clock, settings.upkeep_ms, settings.max_crashes)
            upkeep.change, upkeep.reaped, upkeep.me = parts.change, parts.reaped, _me
            report = await upkeep.make_pass()
            sealed = await self._seal(parts)
            trail = (await self._publish(parts), sealed, await self._prune(parts))
        if report is None:
            return UpkeepDone(0, 0, 0, *trail)
        stale = len(report.returned) + len(report.failed)
        return UpkeepDone(0, len(report.overdue) + len(report.unjoined), stale, *trail)

    async def _publish(self, parts: Parts) -> int:
        """Give each sink what it has not had, unless a worker does; how many deliveries that were."""
        clock, page, published = self._app._clock, self._app._settings.max_publish, 0
        for sink, from_start in parts.subscriptions:
            me = f"upkeep-{secrets.token_hex(8)}"
            publishing = PublishLoop(
                Publisher(parts.store, clock, sink, me, Backoff(), from_start, page), sink.name, clock
            )
            try:
                published += await publishing.make_pass()
            finally:
                await publishing.leave()
        return published

    async def _seal(self, parts: Parts) -> int:
        """Seal what was written, for a while; how many events that were."""
        sealer = self._app._new_sealer(parts.store, self._alarm())
        return 0 if sealer is None else await SealLoop(sealer, self._app._clock, 0).make_pass()

    async def _prune(self, parts: Parts) -> int:
        """Let go what retention policies say, for a while; how many runs that were."""
        pruner = parts.pruner(self._progress, self._alarm())
        return await PruneLoop(pruner, self._app._clock, 0).make_pass()

    def _alarm(self) -> Callable[[], bool]:
        """Whether the time is over that each part of an upkeep pass may take."""
        clock = self._app._clock
        end = clock.now() + PART_MS
        return lambda: clock.now() >= end


def _me() -> str:
    """What lines of the log call a host that is no worker, and so has no id."""
    return f"upkeep-{process_name()}"


def lambda_handler(app: AppBase) -> Callable[[Mapping[str, Any], object], dict[str, Any]]:
    """A handler for AWS Lambda: `handler = lambda_handler(app)`.

    It takes `{"run_id": "..."}`, and batches of queue messages (`Records`) whose body is that, or the run id alone. Of
    a batch, messages that could not be handled are named in `batchItemFailures` and come again; a run that failed is
    handled.
    """
    host = Serverless(app)
    # Lambda itself makes one call at a time; hosts that call it in threads do not, and an app is open in one loop only.
    turn = threading.Lock()

    def handler(event: Any, context: object) -> dict[str, Any]:
        with turn:
            if isinstance(event, Mapping) and "Records" in event:
                return asyncio.run(_handle_batch(host, _records_in(event)))
            return {"result": str(asyncio.run(host.handle(_run_id_in(event))))}

    return handler


def _records_in(event: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    records = event["Records"]
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        raise Invalid(f"The Records of the event are {shown(records)}; they must be a list of objects with a `body`.")
    return records


async def _handle_batch(host: Serverless, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    failures = []
    for record in records:
        message_id = record.get("messageId")
        try:
            await host.handle(_run_id_in(record.get("body")))
        except (StepfastError, json.JSONDecodeError) as error:
            log.error("message_not_handled", message_id=message_id, error=error)
            failures.append({"itemIdentifier": message_id})
        except Exception:
            log.exception("message_not_handled", message_id=message_id)
            failures.append({"itemIdentifier": message_id})
    return {"batchItemFailures": failures}


def _run_id_in(message: object) -> str:
    if isinstance(message, str) and message.lstrip().startswith("{"):
        message = json.loads(message)
    run_id = message.get("run_id") if isinstance(message, Mapping) else message
    if not isinstance(run_id, str):
        raise Invalid(f"The message {shown(message)} names no run: send a run id, or an object with `run_id`.")
    return run_id


async def _until_done(worker: Worker) -> None:
    """Until nothing is ready and nothing held, or the worker has taken as many runs as it may."""
    drained, spent = (asyncio.ensure_future(event.wait()) for event in (worker.drained, worker.spent))
    try:
        await asyncio.wait({drained, spent}, return_when=asyncio.FIRST_COMPLETED)
        await worker.finish_all()
    finally:
        drained.cancel()
        spent.cancel()


async def _settled(parts: Parts, clock: Clock) -> None:
    """A database that was away, or a clock that jumped, makes everybody look dead: who lives gets time to say so."""
    patience_ms = await _silent_for(parts)
    for _ in range(LOOKS_WHILE_SETTLING):
        if not patience_ms:
            return
        await clock.sleep(max(round(patience_ms / LOOKS_WHILE_SETTLING), 1))
        patience_ms = patience_ms if await _silent_for(parts) else 0


async def _silent_for(parts: Parts) -> float:
    """How long to wait for the workers whose lease is over; 0 when there are none."""
    now = await parts.store.now()
    alive = [worker for worker in await parts.store.workers() if worker.dead_at is None]
    silent = [worker for worker in alive if now - worker.seen_at > worker.lease_ms]
    return max((worker.lease_ms * LONGEST_SILENCE for worker in silent), default=0)


def _handled(state: RunState) -> Handled:
    if state not in ENDED:
        return Handled.SUSPENDED
    return Handled.FAILED if state is RunState.FAILED else Handled.COMPLETED
