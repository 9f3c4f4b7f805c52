"""Children of a run: runs of their own that it starts together and joins with one wait."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from stepfast.kernel.decisions import Joins, NewRun, OpenWait, Wait
from stepfast.kernel.errors import RunCancelled, RunFailed, StepfastError
from stepfast.kernel.ids import RANDOM_BITS, RunId, new_id
from stepfast.kernel.states import RunState, WaitKind
from stepfast.kernel.views import OutcomeView
from stepfast.workflows import failures
from stepfast.workflows.codec import ValueCodec, digest
from stepfast.workflows.joins import Join, Outcome
from stepfast.workflows.wait_calls import WaitCall


class ChildKind:
    """What children are runs of: a workflow, or a step on its own."""

    def __init__(
        self, kind: str, name: str, version: int, code: str, queue: str, priority: int, result: ValueCodec
    ) -> None:
        self.kind = kind
        self.name = name
        self.version = version
        self.code = code
        self.queue = queue
        self.priority = priority
        self.result = result


class ChildrenCall(WaitCall):
    """Starts children, and waits until their join is decided: met, no longer possible, or all have ended."""

    wait_kind = WaitKind.CHILDREN
    kind = "children"

    def __init__(self, child: ChildKind, inputs: Sequence[str], join: Join) -> None:
        super().__init__(child.code, f"[{','.join(inputs)}]", None)
        self.name = child.name
        self._child = child
        self._inputs = inputs
        self._join = join
        self._reading = False

    def wait(self) -> Wait:
        join = self._join
        return Wait(0, self.wait_kind, self._child.code, self.asked.call, None, join.need, join.spare, join.settles)

    def children(self) -> list[NewRun]:
        return [self._new_run(run_id, text) for run_id, text in zip(self._ids(), self._inputs, strict=True)]

    def _new_run(self, run_id: RunId, text: str) -> NewRun:
        parent, child = self.asked.context.run, self._child
        return NewRun(
            run_id=run_id,
            tenant=parent.tenant,
            workflow=child.name,
            version=child.version,
            kind=child.kind,
            queue=child.queue,
            code=child.code,
            priority=child.priority,
            input=text,
            digest=digest(text),
            joins=Joins(parent.run_id, 0),
            actor=parent.actor,
            correlation_id=parent.correlation_id or parent.run_id,
            causation_id=parent.run_id,
            subject=parent.subject,
        )

    def _ids(self) -> list[RunId]:
        """Ids that follow from the call and its recorded moment: the same whoever asks again."""
        run, address = self.asked.context.run, self.asked.call.address
        seed = f"{run.run_id}:{run.generation}:{address}"
        return [RunId(new_id(self._started_at, _bits(f"{seed}:{index}"))) for index in range(len(self._inputs))]

    def check(self, wait: OpenWait) -> None:
        if wait.is_joined and not self._reading:
            self._reading = True
            context = self.asked.context
            context.busy.add(self.asked.call)
            context.outer.create_task(self._read_outcomes(), name="stepfast-join")

    async def _read_outcomes(self) -> None:
        ids, context = self._ids(), self.asked.context
        try:
            outcomes = await context.host.store.outcomes(ids)
        except StepfastError as error:
            context.stop(error)
            return
        ended = [(index, outcomes[run_id]) for index, run_id in enumerate(ids) if run_id in outcomes]
        if not self._ending:
            self._conclude(ended)

    def _conclude(self, ended: list[tuple[int, OutcomeView]]) -> None:
        good = [outcome for _, outcome in ended if outcome.state is RunState.COMPLETED]
        if self._join.settles:
            self.end(json.dumps([_settled(outcome) for _, outcome in ended]))
        elif len(good) >= self._join.need:
            self.end(f"[{','.join(outcome.value or 'null' for outcome in good[: self._join.need])}]")
        else:
            failed = next(outcome for _, outcome in ended if outcome.state is not RunState.COMPLETED)
            self.fail(self._error_of(failed))

    def _error_of(self, outcome: OutcomeView) -> BaseException:
        # A step that ran elsewhere fails with its own error, as if it had run here.
        if self._child.kind == "step" and outcome.error is not None:
            return failures.revive(failures.from_text(outcome.error))
        return _error_of(outcome)

    def value_of(self, text: str) -> Any:
        stored = json.loads(text)
        if self._join.settles:
            return [self._outcome(item) for item in stored]
        values = [self._child.result.decode(json.dumps(item)) for item in stored]
        return values[0] if self._join.single else values

    def _outcome(self, item: dict[str, Any]) -> Outcome[Any]:
        if item["ok"]:
            return Outcome(True, self._child.result.decode(item["value"]))
        return Outcome(False, error=failures.revive(failures.from_text(item["error"])))


def _settled(outcome: OutcomeView) -> dict[str, Any]:
    if outcome.state is RunState.COMPLETED:
        return {"ok": True, "value": outcome.value or "null"}
    return {"ok": False, "error": failures.to_text(failures.describe(_error_of(outcome)))}


def _error_of(outcome: OutcomeView) -> Exception:
    if outcome.state is RunState.CANCELLED:
        return RunCancelled(f"Child run {outcome.run_id} was cancelled.")
    failure = failures.from_text(outcome.error or "{}")
    error = RunFailed(f"Child run {outcome.run_id} failed with {failure.type}: {failure.message}")
    error.__cause__ = failures.revive(failure)
    return error


def _bits(seed: str) -> int:
    wide = hashlib.blake2b(seed.encode(), digest_size=16).digest()
    return int.from_bytes(wide, "big") >> 128 - RANDOM_BITS
