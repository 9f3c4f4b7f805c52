"""The interpreter: a durable function that walks a plan. Each of its steps is a durable call; so it needs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import Invalid, StepFailed, StepTimeout
from stepfast.kernel.plan_rules import GIVEN, Borne
from stepfast.kernel.states import StepState
from stepfast.kernel.texts import class_name
from stepfast.workflows.bodies import Partial
from stepfast.workflows.branches import Branch
from stepfast.workflows.combining import call_off
from stepfast.workflows.failures import marked_calls
from stepfast.workflows.loop import RunLoop, current_branch_of
from stepfast.workflows.notes import BorneCall, NoteCall
from stepfast.workflows.plans.assets import StepAssets
from stepfast.workflows.plans.deriving import Deriving
from stepfast.workflows.plans.fanning import Fan
from stepfast.workflows.plans.frame import Frame
from stepfast.workflows.plans.gates import Gates, is_marked
from stepfast.workflows.plans.guarding import Guards
from stepfast.workflows.plans.ordering import is_compound
from stepfast.workflows.plans.places import Place, told_error
from stepfast.workflows.plans.plan import (
    Block,
    Do,
    Formula,
    Handler,
    OnFailure,
    Parallel,
    PlanStep,
    Switch,
    Use,
    While,
    walk,
)
from stepfast.workflows.plans.undoing import Undoing
from stepfast.workflows.plans.verbs import Verbs
from stepfast.workflows.plans.walking import BlockWalk, begin
from stepfast.workflows.steps import ask_durably
from stepfast.workflows.transformations.values import Derivation


class NotTaken(Exception):
    """No way of a switch was taken: the step is skipped."""


class Interpreter:
    """One run of a plan, from its inputs to its output."""

    def __init__(self, frame: Frame, loop: RunLoop, inputs: Any, config: Mapping[str, Any]) -> None:
        self.frame = frame
        self.loop = loop
        self.config = config
        self.branch = current_branch_of(loop)
        run = self.branch.context.run
        told = {"id": run.run_id, "workflow": run.workflow, "version": run.version, "generation": run.generation}
        names = {
            "inputs": inputs,
            "config": config,
            "run": {**told, "subject": run.subject, "actor": run.actor, "thread_id": run.thread_id},
            "tenant": run.tenant,
            "steps": {},
        }
        self.place = Place(names)
        self.verbs = Verbs(self)
        self.gates = Gates(self)
        self.guards = Guards(self)
        self.assets = StepAssets(self)
        self.deriving = Deriving(self)
        self.room = None if frame.plan.at_once is None else asyncio.Semaphore(frame.plan.at_once)
        self._given = self.branch.context.given_calls()
        self._borne: list[Exception] = []
        self._notes: list[CallId] = []
        self.undoing = Undoing(self)

    async def run(self) -> Any:
        """Walk the whole plan; what it gives."""
        try:
            await self.walk(self.frame.plan.block, self.place)
        except Exception as error:
            await self.undoing.settle(error, None)
            raise
        value = self._output()
        return Partial(value, tuple(self._borne), tuple(self._notes)) if self._borne else value

    def _output(self) -> Any:
        plan = self.frame.plan
        if plan.output is not None:
            names = self.place.names
            # A graph's formulas know by themselves what to do without an output.
            return plan.output.evaluate(
                {**names, "steps": self.place.steps_or_null()} if self.frame.is_plain else names
            )
        followers = self.frame.orders.of(plan.block).followers
        last = [step.id for step in plan.block.steps if not followers[step.id]]
        if len(last) == 1:
            return self.place.output_of(last[0])
        return {step_id: self.place.output_of(step_id) for step_id in last}

    async def walk(self, block: Block, place: Place) -> None:
        """Perform the steps of a block, each as soon as it can be."""
        await BlockWalk(self.loop, self.frame.orders.of(block), place, self.perform).walk()

    async def perform(self, step: PlanStep, place: Place) -> None:
        """One step from its conditions to its end; raises when its failure fails what it belongs to."""
        try:
            if self._is_given(step, place):
                place.completed(step.id, await self._given_output(step))
                return
            reason = self._reason_to_skip(step, place)
            output = None if reason is not None else await self._output_of(step, place)
        except NotTaken:
            await self._skip(step, place, "no case of its switch holds")
        except Exception as error:  # noqa: BLE001 - what a failure means is for the plan to say
            await self._failed(step, place, error)
        else:
            if reason is not None:
                await self._skip(step, place, reason)
                return
            place.completed(step.id, output)
            if step.each is None:
                self.undoing.note(step, place, output)

    def _is_given(self, step: PlanStep, place: Place) -> bool:
        """Whether a person has said what a step gives, or this item of it: it is not done."""
        return bool(self._given) and CallId(place.path, step.id, 1) in self._given

    async def _given_output(self, step: PlanStep) -> Any:
        value = await ask_durably(self.loop, NoteCall(step.id, StepState.SKIPPED, None, "{}", GIVEN))
        try:
            return self.frame.read_output(step, value)
        except Invalid as error:
            raise Invalid(
                f"The output that was given by hand for step {step.id} cannot be read: {error} Skip the step again, "
                f"with an output that fits: `stepfast runs skip {self.branch.context.run.run_id} {step.id} JSON`."
            ) from error

    async def _output_of(self, step: PlanStep, place: Place) -> Any:
        if id(step) not in self.frame.simple or not isinstance(step.verb, Use):
            return await self._done_or_handled(step, place)
        output = await self.verbs.use(step, step.verb, place.names)
        output = await self.reviewed(step, place, output) if is_marked(output) else output
        return await self.deriving.kept(step, place, output) if type(output) is Derivation else output

    def _reason_to_skip(self, step: PlanStep, place: Place) -> str | None:
        dead = next((need for need in step.needs if need in place.dead), None)
        if dead is not None:
            return f"step {dead} failed or was skipped, and what follows it with it"
        for read in self.frame.orders.reads(step):
            if "output" not in place.steps.get(read, ()):
                ended = "failed" if place.steps.get(read, {}).get("failed") else "was skipped"
                return f"it reads the output of step {read}, which {ended}"
        if step.when is not None and not self.holds(step, "when", step.when, place.names):
            return "its condition does not hold"
        return None

    def holds(self, step: PlanStep, what: str, condition: Formula, names: Mapping[str, Any]) -> bool:
        """Whether a condition holds; what is neither true nor false is refused."""
        value = condition.evaluate(names)
        if not isinstance(value, bool):
            raise Invalid(f"`{what}` of step {step.id} gives {value!r}; a condition is true or false.")
        return value

    async def _skip(self, step: PlanStep, place: Place, reason: str) -> None:
        if any(need in place.dead for need in (*step.needs, *self.frame.orders.reads(step))):
            place.dead.add(step.id)
        place.skipped(step.id)
        await ask_durably(self.loop, NoteCall(step.id, StepState.SKIPPED, None, "{}", "skip", reason))

    async def _done_or_handled(self, step: PlanStep, place: Place) -> Any:
        if step.each is None:
            return await self.item_handled(step, place)
        if step.require is not None:
            await self.gates.require(step, place, self.gate_branch(step, place))
        return await self.in_time(step, place, Fan(self, step, place).each(step.each))

    async def in_time(self, step: PlanStep, place: Place, work: Coroutine[Any, Any, Any]) -> Any:
        """Have something done before the time of its step is over; an executor's attempts see to theirs themselves."""
        span_ms = self._span_ms(step)
        if span_ms is None:
            return await work
        task = begin(self.loop, work, place.path)
        timer = begin(self.loop, self.verbs.timer(step, span_ms), place.path)
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await call_off({task, timer} if not task.done() else {timer})
        if not task.cancelled():
            return task.result()
        raise StepTimeout(f"Step {step.id} was not done within {span_ms / 1_000:g} s.")

    def _span_ms(self, step: PlanStep) -> int | None:
        if not isinstance(step.verb, Use):
            return step.limits.attempt_ms or step.limits.total_ms
        # The time of an attempt is that of each item; only what is said of all attempts holds for all items.
        return None if step.each is None else step.limits.total_ms

    async def item_handled(self, step: PlanStep, place: Place) -> Any:
        """A step once, or for one item, and what is done instead when it fails."""
        if step.each is not None and self._is_given(step, place):
            return await self._given_output(step)
        if not step.catch:
            return await self._item_in_time(step, place)
        try:
            return await self._item_in_time(step, place)
        except NotTaken:
            raise
        except Exception as error:
            handler = handler_for(step, error)
            if handler is None:
                raise
            await self.undoing.settle(error, owner_of(step, place))
            return await self._handle(handler, step, place, error)

    async def _handle(self, handler: Handler, step: PlanStep, place: Place, error: Exception) -> Any:
        names, path = {"error": told_error(error)}, place.path_of(step.id, "catch")
        inner = place.inside(owner_of(step, place), path, names, place.steps)
        await self.walk(handler.block, inner)
        _export(handler.block, inner, place)
        return inner.output_of(handler.block.steps[-1].id)

    async def _item_in_time(self, step: PlanStep, place: Place) -> Any:
        work = self.item(step, place)
        return await (work if step.each is not None else self.in_time(step, place, work))

    async def item(self, step: PlanStep, place: Place) -> Any:
        """A step once, or for one item, with all that is around it, and what it writes kept."""
        output = await self._checked(step, place)
        if type(output) is Derivation:
            output = await self.deriving.kept(step, place, output)
        if step.writes:
            await self.assets.write(step, place, output)
        return output

    async def _checked(self, step: PlanStep, place: Place) -> Any:
        """With the reviews and checks around it, which may have it done again."""
        if self.frame.is_dry:
            return await self._rounds(step, place, 1)
        if not (step.require or step.before or step.after or step.policies):
            output = await self._rounds(step, place, 1)
            return await self.reviewed(step, place, output) if is_marked(output) else output
        branch = self.gate_branch(step, place)
        if step.require is not None and step.each is None:
            await self.gates.require(step, place, branch)
        if step.before is not None:
            await self.gates.before(step, place, branch, step.before)
        return await self.reviewed(step, place, await self._rounds(step, place, 1), branch)

    async def reviewed(self, step: PlanStep, place: Place, output: Any, branch: Branch | None = None) -> Any:
        """The output of a step once people have looked at it, where that is asked for; they may have it done again."""
        branch = branch or self.gate_branch(step, place)
        turn = 1
        while True:
            try:
                output, is_final = await self.gates.after(step, place, branch, output)
            except Exception:
                # It was done, and what it gave is not wanted.
                self.undoing.note(step, place, output)
                raise
            if is_final:
                return output
            turn += 1
            output = await self._rounds(step, place, turn)

    def gate_branch(self, step: PlanStep, place: Place) -> Branch:
        """Where what is around a step is asked, its policies and reviews; one branch, as it counts these calls."""
        known = place.branches.get(step.id)
        if known is None:
            parent = current_branch_of(self.loop)
            known = Branch(parent.context, place.path_of(step.id), parent.handles)
            place.branches[step.id] = known
        return known

    async def _rounds(self, step: PlanStep, place: Place, turn: int) -> Any:
        if step.reads:
            place = await self.assets.reading(step, place)
        if step.loop is None:
            return await self.verb(step, place, "" if turn == 1 else f"~{turn}")
        return await self._loop(step, place, step.loop, turn)

    async def _loop(self, step: PlanStep, place: Place, loop: While, turn: int) -> Any:
        output: Any = None
        for number in range(1, loop.most + 2):
            names = {**place.names, "output": output, "round": number}
            if not self.holds(step, "while", loop.condition, names):
                return output
            if number > loop.most:
                break
            inner = place.inside(owner_of(step, place), place.path, {"output": output, "round": number}, place.steps)
            output = await self.verb(step, inner, f"{number}" if turn == 1 else f"~{turn}.{number}")
            place.steps.update(inner.steps)
        raise StepFailed(
            f"Step {step.id} was repeated {loop.most} times and its condition still holds. Give it a larger `max`.",
            type_name="LoopTooLong",
        )

    async def verb(self, step: PlanStep, place: Place, part: str = "") -> Any:
        """Do what a step says; `part` tells the rounds of a step apart where it has steps inside it."""
        match step.verb:
            case Do(block):
                return await self._block(step, place, block, part)
            case Switch(cases):
                for case in cases:
                    if case.when is None or self.holds(step, "when", case.when, place.names):
                        return await self._block(step, place, case.block, part)
                raise NotTaken
            case Parallel():
                return await Fan(self, step, place).parallel(step.verb, part)
            case _:
                if self.room is None:
                    return await self.verbs.perform(step, step.verb, place)
                async with self.room:
                    return await self.verbs.perform(step, step.verb, place)

    async def _block(self, step: PlanStep, place: Place, block: Block, part: str) -> Any:
        inner = self.inner_place(step, place, part)
        await self.walk(block, inner)
        if inner.steps is not place.steps:
            _export(block, inner, place)
        return inner.output_of(block.steps[-1].id) if block.steps else None

    def inner_place(self, step: PlanStep, place: Place, part: str) -> Place:
        """Where the steps inside a step stand; in a further round their records need a path of their own."""
        owner = owner_of(step, place)
        if not part:
            return place.owned_by(owner)
        return place.inside(owner, place.path_of(step.id, part), {}, place.steps)

    async def _failed(self, step: PlanStep, place: Place, error: Exception) -> None:
        match step.on_failure:
            case OnFailure.FAIL:
                raise error
            case OnFailure.COMPENSATE if is_compound(step):
                await self.undoing.undo(step, error, owner_of(step, place))
                raise error
            case OnFailure.COMPENSATE:
                self.undoing.owe(step, error)
                raise error
            case OnFailure.SKIP_DEPENDENTS:
                place.dead.add(step.id)
            case OnFailure.CONTINUE:
                pass
        await self.undoing.settle(error, owner_of(step, place))
        self._borne.append(error)
        place.failed(step.id, error)
        await self._tell_borne(step, place, error)

    async def _tell_borne(self, step: PlanStep, place: Place, error: Exception) -> None:
        """Have people see a failure that the run goes on from."""
        told = told_error(error)
        failed = next(iter(marked_calls(error)), CallId(place.path, step.id, 1))
        call = BorneCall(f"{step.id}.borne", Borne.of(step.id, failed.address, told["type"], told["message"]))
        self._notes.append(CallId(place.path, call.name, 1))
        await ask_durably(self.loop, call)


def owner_of(step: PlanStep, place: Place) -> tuple[str, str]:
    """A step as what other steps are inside of."""
    return place.path, step.id


def handler_for(step: PlanStep, error: Exception) -> Handler | None:
    """The first handler of a step that takes an error: by its class, one of its bases, or its code."""
    names = {each.__name__ for each in type(error).__mro__}
    names |= {getattr(error, "code", ""), class_name(getattr(error, "type_name", ""))}
    return next((each for each in step.catch if not each.errors or names.intersection(each.errors)), None)


def _export(block: Block, inner: Place, outer: Place) -> None:
    """What steps inside a step gave can be read from outside."""
    outer.steps.update({each.id: inner.steps[each.id] for each in walk(block) if each.id in inner.steps})
