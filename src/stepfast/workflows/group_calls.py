"""Children that are joined as one: a run that is retried does again those alone that did not come to a good end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfast.kernel import rules
from stepfast.kernel.decisions import CallId, Record
from stepfast.kernel.replay import UNMET
from stepfast.kernel.states import GOOD_ENDS, StepState
from stepfast.workflows import failures
from stepfast.workflows.calls import Asked
from stepfast.workflows.child_calls import ChildKind, ChildrenCall, Ended
from stepfast.workflows.joins import Join, Outcome
from stepfast.workflows.once_calls import ConcludingCall
from stepfast.workflows.waiting import ask

if TYPE_CHECKING:
    from stepfast.kernel.views import OutcomeView


class Round(NamedTuple):
    """What came of some children: the values of those that ended well, by their index; else why the join is not met."""

    generation: int
    done: dict[int, Any]
    failed: dict[int, str]
    """The errors of the others, where all were to settle."""
    error: str | None
    group: str
    """What all that is done for this join is called by: its children, and their number among others of the name."""


async def joined(child: ChildKind, inputs: Sequence[str], join: Join) -> Any:
    """What the join of children gives; a failure of it is a call of its own, which a retry leaves out.

    Where all are to settle, that call stands behind the outcomes: the code is given it as the failures in these.
    """
    first = await ask("each", FirstCall(child, inputs, join))
    if not isinstance(first, Round):
        return first
    done, failed, last = dict(first.done), first.failed, first
    while len(done) < min(join.need, len(inputs)):
        try:
            # By names of their own, so that the numbers of other calls stay what they are.
            await ask("each", UnmetCall(f"each:{first.group}", last))
        except Exception as error:
            if join.settles:
                return _settled(done, failed, failures.mark_of(error))
            raise
        rest = [index for index in range(len(inputs)) if index not in done]
        left = [inputs[index] for index in rest]
        last = await ask("each", FurtherCall(f"again:{first.group}", child, left, join.without(len(done))))
        done |= {rest[index]: value for index, value in last.done.items()}
        failed = {rest[index]: text for index, text in last.failed.items()}
    if join.settles:
        return _settled(done)
    good = [value for _, value in sorted(done.items())]
    return good[0] if join.single else good[: join.need]


def _settled(
    done: Mapping[int, Any], failed: Mapping[int, str] | None = None, call: CallId | None = None
) -> list[Outcome[Any]]:
    """An outcome for each item; with their failures a call has failed."""
    outcomes: dict[int, Outcome[Any]] = {index: Outcome(True, value) for index, value in done.items()}
    for index, text in (failed or {}).items():
        error = failures.revive(failures.from_text(text))
        outcomes[index] = Outcome(False, error=error if call is None else failures.mark(error, call))
    return [outcome for _, outcome in sorted(outcomes.items(), key=lambda item: item[0])]


class FirstCall(ChildrenCall):
    """All children of a join: what it gives, or where it is not met a `Round` with what was done."""

    def conclude(self, ended: Ended) -> None:
        failed = [outcome for _, outcome in ended if outcome.state not in GOOD_ENDS]
        if self._join.settles and failed:
            self.fall_short(ended, self._child.error_of(failed[0]))
        else:
            super().conclude(ended)

    def fall_short(self, ended: Ended, error: BaseException) -> None:
        # A retry may come with code that wants other children.
        self.kind = UNMET
        self.end_round(ended, failures.to_text(failures.describe(error)))

    def end_round(self, ended: Ended, error: str | None) -> None:
        """End the call with a `Round`."""
        good = [(index, outcome.value or "null") for index, outcome in ended if outcome.state in GOOD_ENDS]
        done = ",".join(f'"{index}":{value}' for index, value in good)
        others = [(index, outcome) for index, outcome in ended if outcome.state not in GOOD_ENDS]
        failed = json.dumps({index: self._told(outcome) for index, outcome in others} if self._join.settles else {})
        generation = self.asked.context.run.generation
        # Nothing that came later is decided before the code has heard what follows from it.
        self.asked.context.mailbox.unheard = self.asked.call
        self.end(f'{{"generation":{generation},"done":{{{done}}},"failed":{failed},"error":{json.dumps(error)}}}')

    def _told(self, outcome: OutcomeView) -> str:
        return failures.to_text(failures.describe(self._child.error_of(outcome)))

    def value_of(self, text: str) -> Any:
        return self._round(text) if text.startswith("{") else super().value_of(text)

    def _round(self, text: str) -> Round:
        stored, call = json.loads(text), self._recorded_as or self.asked.call
        decode = self._child.result.decode
        done = {int(index): decode(json.dumps(value)) for index, value in stored["done"].items()}
        failed = {int(index): text for index, text in stored["failed"].items()}
        return Round(stored["generation"], done, failed, stored["error"], f"{call.name}.{call.nth}")


class FurtherCall(FirstCall):
    """Those that are left of a join, under a name of their own; a `Round` also where it is met now."""

    def __init__(self, name: str, child: ChildKind, inputs: Sequence[str], join: Join) -> None:
        super().__init__(child, inputs, join)
        self.name = name

    def conclude(self, ended: Ended) -> None:
        if sum(outcome.state in GOOD_ENDS for _, outcome in ended) >= min(self._join.need, self._join.total):
            self.end_round(ended, None)
        else:
            super().conclude(ended)


class UnmetCall(ConcludingCall):
    """Fails with what kept a join from being met; where the run was retried since, the rest is done again instead."""

    kind = "join"

    def __init__(self, name: str, unmet: Round) -> None:
        super().__init__(name, "{}")
        self._unmet = unmet

    def begin(self, asked: Asked, record: Record | None) -> None:
        super().begin(asked, record)
        context, unmet = asked.context, self._unmet
        error = unmet.error if unmet.generation == context.run.generation else None
        state = StepState.COMPLETED if error is None else StepState.FAILED
        written = asked.new_record(state, 1, context.host.clock.now(), error=error)
        revived = None if error is None else failures.revive(failures.from_text(error))
        context.busy.add(asked.call)
        context.save(
            rules.record_step(context.run, written), partial(context.ended, asked, written.ended_at, None, revived)
        )
