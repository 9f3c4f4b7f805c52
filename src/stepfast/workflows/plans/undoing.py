"""Compensation: what has ended well in a run, and its undoing, the last first; undos are durable calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import UndoFailed
from stepfast.workflows.failures import handled_calls
from stepfast.workflows.loop import current_branch_of
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import PlanStep, Use
from stepfast.workflows.plans.walking import begin

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter

Owner = tuple[str, str]


class Undoable(NamedTuple):
    """A step that has ended well and says how it is undone."""

    step: PlanStep
    use: Use
    call: CallId
    names: Mapping[str, Any]
    owners: tuple[object, ...]


class Undoing:
    """What one run has to undo, should a step fail whose failure says so."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._ended: dict[int, Undoable] = {}
        """By their numbers, in the order in which they ended."""
        self._count = 0
        self._owed: list[tuple[PlanStep, BaseException]] = []
        """Failures for which everything is to be undone, as soon as nothing is under way beside them any more."""

    def note(self, step: PlanStep, place: Place, output: Any) -> None:
        """A step has ended well, once or for one item: from here on it can be undone."""
        if step.undo is None:
            return
        branch = current_branch_of(self._interpreter.loop)
        last = branch.last_call(step.id) if branch.path == place.path else CallId(place.path, step.id, 1)
        owners = (*place.owners, (place.path, step.id))
        self._count += 1
        self._ended[self._count] = Undoable(step, step.undo, last, {**place.names, "output": output}, owners)

    def owe(self, step: PlanStep, error: BaseException) -> None:
        """A simple step has failed for which all is to be undone that has ended where its failure will stop."""
        self._owed.append((step, error))

    async def settle(self, error: BaseException, owner: Owner | None) -> None:
        """A failure stops here, and all beside it is called off: undo what is owed for it, in a step or in the run."""
        causes = list(_causes(error))
        step = next((step for step, owed in self._owed if any(owed is each for each in causes)), None)
        if step is not None:
            await self.undo(step, error, owner)

    async def undo(self, step: PlanStep, error: BaseException, owner: Owner | None) -> None:
        """Undo what has ended well, inside a step or in the whole run; raises when something cannot be."""
        problems: list[tuple[str, Exception]] = []
        chosen = [number for number, each in self._ended.items() if owner is None or owner in each.owners]
        for number in reversed(chosen):
            problems += await self._undone(self._ended.pop(number), error)
        if problems:
            told = "; ".join(f"{step_id}: {type(problem).__name__}: {problem}" for step_id, problem in problems)
            raise UndoFailed(
                f"Step {step.id} failed with {type(error).__name__}: {error}; of the steps before it these could not "
                f"be undone: {told}"
            ) from error

    async def _undone(self, undoable: Undoable, error: BaseException) -> list[tuple[str, Exception]]:
        interpreter = self._interpreter
        # Whoever retries the run gets rid of the failure, and of all that was done because of it: what was undone is
        # not there any more, and must be done again.
        interpreter.branch.context.note_handler(undoable.call, handled_calls(error))
        undo = interpreter.verbs.undo(undoable.step, undoable.use, undoable.names)
        try:
            await begin(interpreter.loop, undo, undoable.call.path)
        except Exception as problem:  # noqa: BLE001 - the others are undone all the same
            return [(undoable.step.id, problem)]
        return []


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it was raised for."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__
