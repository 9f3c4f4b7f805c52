"""Children that are joined as one: a run that is retried does again those alone that did not come to a good end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from stepfast.kernel import rules
from stepfast.kernel.decisions import Record
from stepfast.kernel.replay import UNMET
from stepfast.kernel.states import GOOD_ENDS, StepState
from stepfast.workflows import failures
from stepfast.workflows.calls import Asked
from stepfast.workflows.child_calls import ChildKind, ChildrenCall, Ended
from stepfast.workflows.joins import Join
from stepfast.workflows.once_calls import OnceCall
from stepfast.workflows.waiting import ask


class Round(NamedTuple):
    """What came of some children: the values of those that ended well, by their index; else why the join is not met."""

    generation: int
    done: dict[int, Any]
    error: str | None
    group: str
    """What all that is done for this join is called by: its children, and their number among others of the name."""


async def joined(child: ChildKind, inputs: Sequence[str], join: Join) -> Any:
    """What the join of children gives; a failure of it is a call of its own, which a retry leaves out."""
    first = await ask("each", FirstCall(child, inputs, join))
    if not isinstance(first, Round):
        return first
    done, last = dict(first.done), first
    while len(done) < join.need:
        # By names of their own, so that the numbers of other calls stay what they are.
        await ask("each", UnmetCall(f"each:{first.group}", last))
        rest = [index for index in range(len(inputs)) if index not in done]
        left = [inputs[index] for index in rest]
        last = await ask("each", FurtherCall(f"again:{first.group}", child, left, join.without(len(done))))
        done |= {rest[index]: value for index, value in last.done.items()}
    good = [value for _, value in sorted(done.items())]
    return good[0] if join.single else good[: join.need]


class FirstCall(ChildrenCall):
    """All children of a join: what it gives, or where it is not met a `Round` with what was done."""

    def fall_short(self, ended: Ended, error: BaseException) -> None:
        # A retry may come with code that wants other children.
        self.kind = UNMET
        self.end_round(ended, failures.to_text(failures.describe(error)))

    def end_round(self, ended: Ended, error: str | None) -> None:
        """End the call with a `Round`."""
        good = [(index, outcome.value or "null") for index, outcome in ended if outcome.state in GOOD_ENDS]
        done = ",".join(f'"{index}":{value}' for index, value in good)
        generation = self.asked.context.run.generation
        self.end(f'{{"generation":{generation},"done":{{{done}}},"error":{json.dumps(error)}}}')

    def value_of(self, text: str) -> Any:
        return self._round(text) if text.startswith("{") else super().value_of(text)

    def _round(self, text: str) -> Round:
        stored, call = json.loads(text), self._recorded_as or self.asked.call
        decode = self._child.result.decode
        done = {int(index): decode(json.dumps(value)) for index, value in stored["done"].items()}
        return Round(stored["generation"], done, stored["error"], f"{call.name}.{call.nth}")


class FurtherCall(FirstCall):
    """Those that are left of a join, under a name of their own; a `Round` also where it is met now."""

    def __init__(self, name: str, child: ChildKind, inputs: Sequence[str], join: Join) -> None:
        super().__init__(child, inputs, join)
        self.name = name

    def conclude(self, ended: Ended) -> None:
        if sum(outcome.state in GOOD_ENDS for _, outcome in ended) >= self._join.need:
            self.end_round(ended, None)
        else:
            super().conclude(ended)


class UnmetCall(OnceCall):
    """Fails with what kept a join from being met; where the run was retried since, the rest is done again instead."""

    kind = "join"

    def __init__(self, name: str, unmet: Round) -> None:
        super().__init__(name, "{}")
        self._unmet = unmet

    def begin(self, asked: Asked, record: Record | None) -> None:
        context, unmet = asked.context, self._unmet
        error = unmet.error if unmet.generation == context.run.generation else None
        state = StepState.COMPLETED if error is None else StepState.FAILED
        written = asked.new_record(state, 1, context.host.clock.now(), error=error)
        revived = None if error is None else failures.revive(failures.from_text(error))
        context.busy.add(asked.call)
        context.save(
            rules.record_step(context.run, written), partial(context.ended, asked, written.ended_at, None, revived)
        )
