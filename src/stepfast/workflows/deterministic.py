"""Time, chance and ids for workflow code: plain calls, no commit, the same on every replay."""

from __future__ import annotations

import hashlib
import logging
import uuid as uuids
from asyncio import events
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn

from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.errors import WrongCall
from stepfast.workflows.bodies import ContinueAs, current_step
from stepfast.workflows.branches import Branch, thread_branch
from stepfast.workflows.loop import RunLoop, current_branch_of

_log = logging.getLogger("stepfast.workflow")


class CurrentRun(NamedTuple):
    """The run whose code, or whose step, is running here."""

    id: str
    tenant: str
    workflow: str
    version: int
    generation: int
    thread_id: str | None
    subject: str | None
    correlation_id: str | None
    actor: str | None


def current_run() -> CurrentRun:
    """The run that this code belongs to: in a workflow and in a step's body."""
    info = current_step.get(None)
    branch = _branch()
    if branch is not None:
        return _of(branch.context.run)
    if info is not None:
        return _of(info.run)
    raise WrongCall("current_run() was called outside a run.")


def refuse_in_workflow(what: str) -> None:
    """Refuse what must not be called in workflow code: every replay would do it again, and no record would tell."""
    if thread_branch() is not None or isinstance(events._get_running_loop(), RunLoop):
        raise WrongCall(
            f"{what} was called in the code of a workflow, where it would happen again on every replay. "
            f"Call the workflow as a child, or do it in a function marked @step."
        )


def continue_as(*args: Any, **kwargs: Any) -> NoReturn:
    """End here and start over with these arguments: the same run and handle, with no records of what came before."""
    if _branch() is None:
        raise WrongCall("continue_as(...) was called outside the code of a workflow; only that can start over.")
    raise ContinueAs(args, kwargs)


def now() -> datetime:
    """The stored moment of the last result that the code was given, in whichever branch.

    Results are handed out one at a time, and the next only when all code waits: so it is the one that this code
    goes on from, also behind a `race`, a `gather` or a `timeout`.
    """
    return datetime.fromtimestamp(_required("durable.now()").context.moment / 1_000, UTC)


def uuid() -> uuids.UUID:
    """A random-looking id that is the same on every replay and retry; a life that begins anew has others."""
    return uuids.UUID(bytes=_hash("uuid")[:16], version=4)


def random() -> float:
    """A number from 0 up to 1, which stays the same as long as an id does."""
    return (int.from_bytes(_hash("random")[:8], "big") >> 11) / 2**53


def log(message: str, *args: Any, level: int = logging.INFO) -> None:
    """A line in the log, silent while the run's code is being replayed.

    A kill between it and the next record has it written again, as with a step.
    """
    branch = _required("durable.log()")
    if not branch.context.is_replaying:
        _log.log(level, message, *args, extra={"run_id": branch.context.run.run_id})


def _hash(what: str) -> bytes:
    branch = _required(f"durable.{what}()")
    call = branch.next_call(f"durable.{what}")
    run = branch.context.run
    return hashlib.blake2b(f"{run.run_id}:{run.epoch}:{call.address}".encode(), digest_size=16).digest()


def _required(what: str) -> Branch:
    branch = _branch()
    if branch is None:
        raise WrongCall(f"{what} was called outside the code of a workflow; in a step's body use the plain function.")
    return branch


def _branch() -> Branch | None:
    loop = events._get_running_loop()
    if loop is None:
        return thread_branch()
    return current_branch_of(loop) if isinstance(loop, RunLoop) else None


def _of(run: HeldRun) -> CurrentRun:
    place = (run.run_id, run.tenant, run.workflow, run.version, run.generation)
    return CurrentRun(*place, run.thread_id, run.subject, run.correlation_id, run.actor)
