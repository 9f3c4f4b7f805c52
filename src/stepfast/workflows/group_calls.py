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
        again = RoundCall(child, [inputs[index] for index in rest], join.without(len(done)))
        again.name = f"again:{first.group}"
        last = await ask("each", again)
        done |= {rest[index]: value for index, value in last.done.items()}
    good = [value for _, value in sorted(done.items())]
    return good[0] if join.single else good[: join.need]


class RoundCall(ChildrenCall):
    """Some children of a join; also a failure is a result, which holds what was done."""

    def conclude(self, ended: Ended) -> None:
        good = {index: outcome.value or "null" for index, outcome in ended if outcome.state in GOOD_ENDS}
        error = None
        if len(good) < self._join.need:
            failed = next(outcome for _, outcome in ended if outcome.state not in GOOD_ENDS)
            error = failures.to_text(failures.describe(self._child.error_of(failed)))
            # A retry may come with code that wants other children.
            self.kind = UNMET
        done = ",".join(f'"{index}":{value}' for index, value in good.items())
        generation = self.asked.context.run.generation
        self.end(f'{{"generation":{generation},"done":{{{done}}},"error":{json.dumps(error)}}}')

    def value_of(self, text: str) -> Any:
        stored, call = json.loads(text), self._recorded_as or self.asked.call
        decode = self._child.result.decode
        done = {int(index): decode(json.dumps(value)) for index, value in stored["done"].items()}
        return Round(stored["generation"], done, stored["error"], f"{call.name}.{call.nth}")


class FirstCall(RoundCall):
    """All children of a join: where it is met, what it gives is all that is kept."""

    def conclude(self, ended: Ended) -> None:
        good = sum(outcome.state in GOOD_ENDS for _, outcome in ended)
        if self._join.settles or good >= self._join.need:
            ChildrenCall.conclude(self, ended)
        else:
            super().conclude(ended)

    def value_of(self, text: str) -> Any:
        return super().value_of(text) if text.startswith("{") else ChildrenCall.value_of(self, text)


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
