"""Where a step of a plan stands in a run: what its formulas see, and the path that its records have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from stepfast.kernel.states import StepState
from stepfast.kernel.texts import class_name
from stepfast.workflows import failures

if TYPE_CHECKING:
    from stepfast.workflows.branches import Branch

SAFE = " ~-_:@+,;=!*'()$&|<>?#"


class Place:
    """The scope of some steps of a run: the whole run, one item of an `each`, one round of a loop.

    `steps` tells of every step that has ended, as formulas see it. A place inside another begins with what has ended
    there, and keeps what ends in it to itself.
    """

    __slots__ = ("branches", "dead", "made", "names", "owners", "path", "steps")

    def __init__(self, names: dict[str, Any], path: str = "", owners: tuple[object, ...] = ()) -> None:
        self.names = names
        self.path = path
        self.owners = owners
        """The steps that this place is inside of, from outside in."""
        self.steps: dict[str, dict[str, Any]] = names["steps"]
        self.dead: set[str] = set()
        """Steps that failed or were skipped, and whose followers are to be skipped with them."""
        self.made: dict[str, list[dict[str, Any]]] = {}
        """The assets that steps have written."""
        self.branches: dict[str, Branch] = {}
        """Where what is around each step is asked."""

    def inside(self, owner: object, path: str, names: dict[str, Any], reads: Iterable[str]) -> Place:
        """A place of its own in this one; it sees the steps in `reads`."""
        steps = {name: self.steps[name] for name in reads if name in self.steps}
        return Place({**self.names, **names, "steps": steps}, path, (*self.owners, owner))

    def owned_by(self, owner: object) -> Place:
        """The same place, for the steps inside a step."""
        place = self.knowing(self.names)
        place.owners = (*self.owners, owner)
        return place

    def knowing(self, names: dict[str, Any]) -> Place:
        """The same place, where formulas see these names."""
        place = Place.__new__(Place)
        place.names, place.path, place.steps, place.dead = names, self.path, self.steps, self.dead
        place.owners, place.made, place.branches = self.owners, self.made, self.branches
        return place

    def path_of(self, step_id: str, part: str = "") -> str:
        """The path of what belongs to a step, or to a part of it such as an item."""
        # A key that looks like a path must not be taken for one.
        own = f"{step_id}[{quote(part, safe=SAFE)}]" if part else step_id
        return f"{self.path}.{own}" if self.path else own

    def completed(self, step_id: str, output: Any) -> None:
        told = {"state": StepState.COMPLETED.value, "skipped": False, "failed": False, "output": output}
        self.steps[step_id] = {**told, "assets": self.made[step_id]} if step_id in self.made else told

    def steps_or_null(self) -> dict[str, dict[str, Any]]:
        """What is known of the steps, with null for the output of one that gave none."""
        return {step_id: {"output": None, **told} for step_id, told in self.steps.items()}

    def skipped(self, step_id: str) -> None:
        self.steps[step_id] = {"state": StepState.SKIPPED.value, "skipped": True, "failed": False}

    def failed(self, step_id: str, error: BaseException) -> None:
        told = {"state": StepState.FAILED.value, "skipped": False, "failed": True, "error": told_error(error)}
        self.steps[step_id] = told

    def output_of(self, step_id: str) -> Any:
        """What a step gave; None for one without an output."""
        return self.steps.get(step_id, {}).get("output")


def told_error(error: BaseException) -> dict[str, Any]:
    """An error as formulas see it."""
    failure = failures.describe(error)
    return {"type": class_name(failure.type), "message": failure.message, "code": getattr(error, "code", None)}
