"""What the simple verbs of a plan do: one durable call each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid, NonDeterminism, StepFailed, StepfastError
from stepfast.kernel.retry import Retry
from stepfast.kernel.states import StepState
from stepfast.kernel.texts import check_text
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.calls import Operation
from stepfast.workflows.child_calls import ChildKind, ChildrenCall
from stepfast.workflows.codec import ValueCodec, digest
from stepfast.workflows.joins import ONE
from stepfast.workflows.notes import NoteCall
from stepfast.workflows.plans.children import NamedChildCall
from stepfast.workflows.plans.frame import as_json
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import (
    Ask,
    Emit,
    Fail,
    PlanStep,
    Receive,
    RunChild,
    Set,
    Sleep,
    Use,
    Verb,
    verb_formulas,
)
from stepfast.workflows.schemas import misfits
from stepfast.workflows.step_calls import StepCall
from stepfast.workflows.steps import ask_durably
from stepfast.workflows.telling import emit_call
from stepfast.workflows.wait_calls import ReceiveCall, SleepCall

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter

PLAIN = ValueCodec(Any, "a step's value")


async def _fail(message: str) -> NoReturn:
    raise StepFailed(message, type_name="Failed")


class Verbs:
    """Makes the durable call of a step, under the step's own id."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._frame = interpreter.frame

    async def perform(self, step: PlanStep, verb: Verb, place: Place) -> Any:
        """Do it; the step's output."""
        if self._frame.is_dry and not isinstance(verb, Set | Fail):
            for formula in verb_formulas(verb):
                # What it would be given is computed all the same: that is what a rehearsal is for.
                formula.evaluate(place.names)
            return await self._ask(step.id, self._mock(step))
        match verb:
            case Use():
                return await self.use(step, verb, place.names, place=place)
            case Ask():
                return await self._interpreter.gates.ask(step, place, verb)
            case Receive():
                return await self._receive(step, verb, place.names)
            case _:
                return await self._simple(step, verb, place.names)

    async def _simple(self, step: PlanStep, verb: Verb, names: Mapping[str, Any]) -> Any:
        match verb:
            case RunChild():
                return await self._ask(step.id, self._named_child(verb, names))
            case Sleep(duration):
                span = span_ms(duration.evaluate(names), f"`sleep` of step {step.id}")
                return await self._ask(step.id, SleepCall(span))
            case Emit(event, data):
                value = as_json(data.evaluate(names))
                await self._ask(step.id, emit_call(event, value))
                return value
            case Set(value):
                return await self._ask(step.id, self._note(step.id, as_json(value.evaluate(names))))
            case Fail(message):
                body = StepBody(_fail, step.id, Retry(attempts=1), None)
                return await self._ask(step.id, StepCall(body, (str(message.evaluate(names)),), {}))
            case _:
                raise AssertionError("others are done elsewhere")

    async def use(
        self,
        step: PlanStep,
        use: Use,
        names: Mapping[str, Any],
        name: str | None = None,
        place: Place | None = None,
    ) -> Any:
        """Call an executor, here or, with a queue, in a run of its own."""
        child = await self.child_of(step, use)
        if child is not None:
            if (spec := self._frame.spec(use)) is not None:
                return await self._interpreter.deriving.derive(step, use, child, spec, names, place)
            text = self.child_input(step, use, child, names)
            return await self._ask(step.id, ChildrenCall(child, [text], ONE))
        call = await self._step(step, use, names, name or step.id)
        output = await self._ask(name or step.id, call)
        if step.writes and use is step.verb:
            self._interpreter.assets.note_attempt(step, call.attempt)
        return output

    async def undo(self, step: PlanStep, use: Use, names: Mapping[str, Any]) -> Any:
        """Undo what a step has done."""
        call = await self._step(step, use, names, f"{step.id}.undo")
        call.kind = "undo"
        return await self._ask(call.name, call)

    async def _step(self, step: PlanStep, use: Use, names: Mapping[str, Any], name: str) -> StepCall:
        try:
            body = self._frame.body(step, use, name)
        except StepfastError as error:
            await self._wait_for_executor(step, error)
        config = self._interpreter.config.get(step.id, {}) if use is step.verb else {}
        return self._frame.call(use, body, names, config)

    async def child_of(self, step: PlanStep, use: Use) -> ChildKind | None:
        """What a step is a run of elsewhere; None: it is done here."""
        try:
            return self._frame.child(step, use)
        except StepfastError as error:
            await self._wait_for_executor(step, error)

    def child_input(
        self,
        step: PlanStep,
        use: Use,
        child: ChildKind,
        names: Mapping[str, Any],
        pinned: Mapping[str, Any] | None = None,
    ) -> str:
        """What the run of its own is given that a step with a queue is."""
        return self._frame.child_input(use, child, names, self._interpreter.config.get(step.id, {}), pinned)

    async def _wait_for_executor(self, step: PlanStep, error: StepfastError) -> NoReturn:
        """No failure of the run: it waits, whole, for a worker that has what it lacks here."""
        context = self._interpreter.branch.context
        context.stop(NonDeterminism(f"Step {step.id} cannot be done here: {error}"))
        await self._interpreter.loop.create_future()
        raise AssertionError("nobody answers")

    def _named_child(self, verb: RunChild, names: Mapping[str, Any]) -> NamedChildCall:
        given = verb.inputs.evaluate(names)
        if not isinstance(given, Mapping):
            raise Invalid(f"What workflow {verb.workflow} is run with is no map of names to values, but {given!r}.")
        find = partial(self._frame.workflows, verb.workflow, verb.version, names["tenant"])
        return NamedChildCall(verb, as_json(dict(given)), find, self._frame.is_plain)

    async def _receive(self, step: PlanStep, verb: Receive, names: Mapping[str, Any]) -> Any:
        signal = check_text(f"The signal of step {step.id}", verb.signal.evaluate(names))
        limit = None if verb.timeout is None else verb.timeout.evaluate(names)
        timeout_ms = None if limit is None else span_ms(limit, f"The timeout of step {step.id}")
        codec = ValueCodec(Any, f"signal {signal!r}")
        value = await self._ask(step.id, ReceiveCall(signal, codec, timeout_ms))
        faults = [] if verb.schema is None else misfits(dict(verb.schema), value)
        if faults:
            path, message = faults[0]
            where = "".join(f"[{part!r}]" for part in path)
            raise Invalid(f"Signal {signal!r} does not fit its schema: ${where}: {message}.")
        return value

    def _note(self, name: str, value: Any) -> NoteCall:
        # By what was computed: from other outputs, after a retry, it is another call, and noted anew.
        text = PLAIN.encode(value)
        return NoteCall(name, StepState.COMPLETED, text, json.dumps({"digest": digest(text)}), "set")

    def _mock(self, step: PlanStep) -> NoteCall:
        return self._note(step.id, as_json(step.mock) if step.has_mock else None)

    async def timer(self, step: PlanStep, span_ms: int) -> None:
        """Wait for the time of a step to be over, durably: it counts over every park."""
        await self._ask(f"{step.id}.timeout", SleepCall(span_ms))

    async def note(self, name: str, value: Any) -> None:
        """Keep a value that was computed here."""
        await self._ask(name, self._note(name, value))

    async def _ask(self, name: str, operation: Operation) -> Any:
        operation.name = name
        return await ask_durably(self._interpreter.loop, operation)
