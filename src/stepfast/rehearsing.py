"""Commands about a step of a run that are looked at and not carried out: what they would be refused for now."""

from __future__ import annotations

from typing import Any

from stepfast.control import asked, rerun_command, retry_command
from stepfast.definitions import pinned
from stepfast.kernel.commands import Command, LockedRun, StepMark
from stepfast.kernel.control import decide
from stepfast.kernel.ids import parse_run_id
from stepfast.kernel.states import ENDED, RunState, TaskState
from stepfast.kernel.views import RunView, StepView
from stepfast.moments import rollback_to
from stepfast.runs import Run
from stepfast.tying import tied


async def rehearse(run: Run[Any], action: str, step: str, version: int | None) -> None:
    """Raise what a retry, rerun or rollback would be refused for, by what is stored now; nothing is changed."""
    home, view = run._home, await run.info()
    command = asked(await _command(run, action, step, version), None, None, None)
    requests = await pinned(home.store, home.registry, [command.of(parse_run_id(run.id), view.tenant)])
    (request,) = await tied(home.store, home.registry, requests)
    decide(_as_locked(view, await home.store.steps(request.run_id)), request, await home.store.now())


async def _command(run: Run[Any], action: str, step: str, version: int | None) -> Command:
    match action:
        case "retry":
            return retry_command(step, version)
        case "rerun":
            return rerun_command(step, version)
        case _:
            return await rollback_to(run._reader(), step)


def _as_locked(run: RunView, steps: list[StepView]) -> LockedRun:
    """A run as a command would see it; what its parent waits for is seen by the command alone."""
    held = TaskState.LEASED if run.worker_id is not None else TaskState.READY
    marks = [StepMark(each.seq, each.call, each.state, each.kind) for each in steps if each.superseded_by is None]
    return LockedRun(
        *(run.run_id, run.tenant, run.workflow, run.version, run.kind, run.code, run.input, run.generation, run.state),
        task=None if run.state in ENDED else held,
        hold=run.state is RunState.PAUSED,
        is_put_off=False,
        error=run.error,
        joins=None,
        is_awaited=False,
        has_letter=False,
        steps=marks,
        has_begun=run.claims > 0,
        definition=run.definition,
    )
