"""What the answer to `why()` rests on, and what all of its sentences share."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from stepfast.kernel.definitions import codes_of
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Look
from stepfast.kernel.generations import ChildView
from stepfast.kernel.reviews import Owner
from stepfast.kernel.texts import counted
from stepfast.kernel.views import EventView, RunView, StepView, WorkerView


class Reason(NamedTuple):
    """One thing that a run waits for, in a sentence, and in another who or what can move it."""

    kind: str
    text: str
    moved_by: str
    due_at: Instant | None = None

    def __str__(self) -> str:
        return f"{self.text} {self.moved_by}".rstrip()


class Seen(NamedTuple):
    """All that the answer rests on, as read from the store."""

    run: RunView
    look: Look | None
    workers: Sequence[WorkerView]
    told: EventView | None
    """The newest event of a type that `telling_events` names."""
    now: Instant
    owners: Mapping[int, Owner] = MappingProxyType({})
    """Who is asked by the reviews that are open, by the number of their wait."""
    children: Sequence[ChildView] = ()
    """Open runs that it waits for, or that these wait for; not all where there are many."""
    tries: Mapping[int, StepView] = MappingProxyType({})
    """The attempts that failed of the steps whose next try is put off, by the number of that wait."""
    caught: Sequence[str] = ()
    """Of a failed run, the addresses of steps whose failures its code has caught, and that a retry would keep."""
    put_off: EventView | None = None
    """The newest event of a type that `putting_off_events` names."""

    @property
    def live(self) -> list[WorkerView]:
        """The workers that are alive."""
        return [worker for worker in self.workers if worker.is_alive(self.now)]


def takers(seen: Seen) -> Reason:
    """Who can take the run out of the line, or what is missing for that."""
    run = seen.run
    lack = lacking(seen, run.workflow, run.code, run.queue)
    if lack is not None:
        return lack
    serving = [worker for worker in seen.live if run.code in worker.codes and run.queue in worker.queues]
    workers = counted(len(serving), "worker serves", "workers serve")
    text = f"It is queued in {run.queue} since {moment(run.updated_at)}; {workers} it."
    return Reason("line", text, "The next of them with a free slot takes it.")


def lacking(seen: Seen, workflow: str, code: str, queue: str) -> Reason | None:
    """What is missing for somebody to take a run of this code out of this queue; None: somebody can."""
    live = seen.live
    knowing = [worker for worker in live if code in worker.codes]
    # A step that is a run of its own has the name of its executor for its code.
    what = f"executor {code}" if code == workflow else code
    if not live:
        command = "`stepfast worker`" if queue == "default" else serving(queue)
        return Reason("worker", "No worker is alive.", f"Start one that has {what} with {command}.")
    problem = next((worker.lacks[code] for worker in live if code in worker.lacks), None)
    if not knowing and problem is not None:
        text = f"No live worker can execute {what}: {problem}".rstrip(".") + "."
        return Reason("code", text, "Start one that has what is missing.")
    if not knowing:
        others = codes_of(workflow, [each for worker in live for each in worker.codes])
        there = f" There is {', '.join(others)}." if others else ""
        return Reason("code", f"No live worker has {what}.{there}", "Start one whose app has it.")
    if not any(queue in worker.queues for worker in knowing):
        text = f"No live worker that has {what} serves queue {queue}."
        return Reason("queue", text, f"Start one with {serving(queue)}.")
    return None


def serving(*queues: str) -> str:
    """What starts a worker of these queues: a command for the shell, or code where the command cannot name them."""
    if any("," in queue or queue != queue.strip() for queue in queues):
        return f"`app.worker(queues={list(queues)})`"
    return f"`stepfast worker --queues {shlex.quote(','.join(queues))}`"


def fields_of(text: str | None) -> dict[str, Any]:
    """What a JSON object holds; nothing of anything else."""
    told = json.loads(text) if text else {}
    return told if isinstance(told, dict) else {}


def moment(at: Instant) -> str:
    """A moment as people read it."""
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")
