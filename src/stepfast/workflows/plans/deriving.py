"""Transformations that steps of a plan use: a run of its own each, and assets once everybody has let them be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepfast.kernel.assets import parse_asset, uri_of
from stepfast.kernel.errors import Invalid
from stepfast.workflows.child_calls import ChildKind, ChildrenCall
from stepfast.workflows.joins import ONE
from stepfast.workflows.plans.assets import Wanted
from stepfast.workflows.plans.guarding import guards
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import PlanStep, Use
from stepfast.workflows.steps import ask_durably
from stepfast.workflows.transformations.keeping import kept
from stepfast.workflows.transformations.running import Slot, Spec, derivation_of
from stepfast.workflows.transformations.values import Derivation

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter


class Deriving:
    """Has the transformations of one run done."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter

    async def derive(
        self, step: PlanStep, use: Use, child: ChildKind, spec: Spec, names: Mapping[str, Any], place: Place | None
    ) -> Derivation:
        """Run a transformation; its outputs are no assets yet."""
        if step.loop is not None:
            raise Invalid(f"Step {step.id} repeats a transformation by `while`. Put it into a `do` that is repeated.")
        pinned: Mapping[str, Any] = {}
        if place is not None and guards(step, "read"):
            pinned = await self._let(step, use, spec, names, place)
        text = self._interpreter.verbs.child_input(step, use, child, names, pinned)
        call = ChildrenCall(child, [text], ONE)
        call.name = step.id
        return derivation_of(await ask_durably(self._interpreter.loop, call))

    async def _let(
        self, step: PlanStep, use: Use, spec: Spec, names: Mapping[str, Any], place: Place
    ) -> dict[str, Any]:
        """What it is given in the versions that policies let it read."""
        given = use.inputs.evaluate(names)
        slots = [(slot, asset) for slot, assets in spec.named(given) for asset in assets]
        wanted: list[Wanted] = [{"asset": _address(asset), "type": None} for _, asset in slots]
        let = await self._interpreter.assets.let(step, place, wanted)
        return _by_slot([(slot, each["asset"]) for (slot, _), each in zip(slots, let, strict=True)])

    async def kept(self, step: PlanStep, place: Place, output: Derivation) -> dict[str, Any]:
        """What a transformation made, as assets from now on."""
        let = self._interpreter.guards.let_by_people(step, place, "write")
        told, place.made[step.id] = await kept(self._interpreter.loop, step.id, output, let)
        return told


def _address(given: Any) -> str:
    name = parse_asset(given)
    return name.id if name.version is None else uri_of(name.id, name.version)


def _by_slot(found: list[tuple[Slot, str]]) -> dict[str, Any]:
    pinned: dict[str, Any] = {}
    for slot, address in found:
        if slot.is_many:
            pinned.setdefault(slot.name, []).append(address)
        else:
            pinned[slot.name] = address
    return pinned
