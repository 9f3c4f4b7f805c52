"""What commands do to the model: the kernel's rules, and a line for each thing that a change may hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepfast.kernel.commands import Change, Changed, LockedRun, Reopen, Request, StepMark
from stepfast.kernel.control import decide
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused, NotFound, StepfastError
from stepfast.kernel.rules import COMMAND_KINDS
from stepfast.kernel.states import PENDING_WAITS, TaskState, WaitKind
from tests.stores.model import PRIORITY_MS, Model
from tests.stores.model_reviews import locked_review, withdraw, write
from tests.stores.model_rows import Life, Task

Answer = Changed | type[StepfastError]


def change(model: Model, requests: Sequence[Request]) -> list[Answer]:
    """Carry out commands one after the other; a refusal is its type."""
    return [_answer(model, request) for request in requests]


def _answer(model: Model, request: Request) -> Answer:
    try:
        return _carry_out(model, request)
    except StepfastError as refusal:
        return type(refusal)


def _carry_out(model: Model, request: Request) -> Changed:
    life = model.lives.get(request.run_id)
    if life is None or request.tenant not in (None, life.run.tenant):
        raise NotFound
    key = (life.run.tenant, request.command.name, request.key or "")
    if request.key is not None and key in model.keys:
        if model.keys[key][0] != request.digest:
            raise KeyReused
        return replace(model.answers[key], repeated=True)
    holder = life.task.worker_id if life.task is not None else None
    withdraw(model.reviews, model.lives)
    found = locked(model, life)._replace(review=locked_review(model.reviews, request))
    decided = decide(found, request, Instant(model.now))
    _write(model, life, decided, request)
    parent_id = life.run.joins.parent_id if life.run.joins is not None else None
    place = (life.run.queue, Instant(model.now), holder, parent_id)
    changed = Changed(request.run_id, decided.state, life.generation, *place)
    if request.key is not None:
        model.keys[key] = (request.digest, request.run_id, model.now)
        model.answers[key] = changed
    return changed


def locked(model: Model, life: Life) -> LockedRun:
    """A run as the kernel judges it."""
    run, task = life.run, life.task
    letter = life.letters.get(life.generation)
    kinds = {opened.wait.kind for opened in life.waits.values()}
    is_early = task is not None and task.due_at is not None and task.due_at > model.now
    parent = model.lives.get(run.joins.parent_id) if run.joins is not None else None
    return LockedRun(
        run_id=run.run_id,
        tenant=run.tenant,
        workflow=run.workflow,
        version=life.version,
        kind=run.kind,
        code=life.code,
        input=life.input,
        generation=life.generation,
        state=life.state,
        task=None if task is None else task.state,
        hold=task is not None and task.hold,
        is_put_off=bool(kinds) and kinds <= PENDING_WAITS and is_early,
        error=life.ends[-1].error if task is None else None,
        joins=run.joins,
        is_awaited=parent is not None and run.joins is not None and run.joins.wait_id in parent.waits,
        has_letter=letter is not None and letter.resolution is None,
        steps=_marks(life),
        deadline_at=None if task is None or task.deadline_at is None else Instant(task.deadline_at),
        has_begun=task is not None and task.claims > 0,
        leave=run.leave,
        lacks_code=WaitKind.CODE in kinds,
    )


def _marks(life: Life) -> list[StepMark]:
    numbered = enumerate(life.records, start=1)
    return [StepMark(seq, kept.record.call, kept.record.state) for seq, kept in numbered if kept.superseded_by is None]


def _write(model: Model, life: Life, decided: Change, request: Request) -> None:
    if decided.resolution is not None:
        life.letters[life.generation].resolution = decided.resolution
    if decided.reopen is not None:
        _reopen(model, life, decided.reopen)
    if decided.outcome is not None:
        assert life.task is not None
        life.task.token += 1
    _tell(life, decided)
    model.close(life, decided.closed)
    if decided.hold is not None:
        _hold(model, life, decided)
    write(model.reviews, life, request, decided, model.now)
    if decided.outcome is not None:
        _end(model, life, decided)


def _tell(life: Life, decided: Change) -> None:
    """A command that writes events writes those too that a holder can write no more."""
    if decided.events:
        for n, mail in sorted(life.inbox.items()):
            if mail.kind in COMMAND_KINDS:
                del life.inbox[n]
                life.tell(mail.kind, life.token)
    for event in decided.events:
        life.tell(event.type, life.token)


def _hold(model: Model, life: Life, decided: Change) -> None:
    task = life.task
    assert task is not None
    assert decided.hold is not None
    task.hold = decided.hold
    if decided.ready:
        task.make_ready(model.now)
    if task.state is not TaskState.LEASED:
        task.since_at = model.now


def _end(model: Model, life: Life, decided: Change) -> None:
    outcome, letter = decided.outcome, decided.dead_letter
    assert outcome is not None
    model.end(life, outcome.state, life.token, outcome.ended_at, outcome.error, letter and letter.error_type)
    if outcome.joins is not None:
        model.count([(outcome.joins, outcome.state)])


def _reopen(model: Model, life: Life, reopen: Reopen) -> None:
    run, following = life.run, life.generation + 1
    life.supersede(reopen.superseded, following)
    life.causes[following] = reopen.cause
    life.version, life.code, life.input = reopen.version, reopen.code, reopen.input
    place = life.queued_at - run.priority * PRIORITY_MS
    task = Task(run, place, TaskState.READY, model.now, reopen.code, generation=following, token=life.token + 1)
    task.deadline_at = None if run.timeout_ms is None else model.now + run.timeout_ms
    task.wakes = max([life.last_signal, *life.inbox])
    life.task = task
