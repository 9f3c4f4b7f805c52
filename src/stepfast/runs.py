"""The handle of a run: asking for its result, its state and its history, and commanding it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from stepfast.control import (
    Asked,
    asked,
    changed_or_raise,
    rerun_command,
    retry_command,
    skip_command,
)
from stepfast.engine.patience import Patience
from stepfast.engine.results import Results
from stepfast.engine.values import Values
from stepfast.kernel.annotations import AnnotationView
from stepfast.kernel.artifacts import ArtifactFilter, ArtifactView
from stepfast.kernel.asset_ports import Contents
from stepfast.kernel.assets import check_name
from stepfast.kernel.blobs import is_reference
from stepfast.kernel.commands import Cancel, Changed, Pause, Request, Resume
from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import (
    AssetNotFound,
    IllegalMove,
    Invalid,
    RunCancelled,
    RunFailed,
    StepfastError,
    WrongCall,
)
from stepfast.kernel.exchange import Delivered, Delivery
from stepfast.kernel.ids import RunId
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.origins import shown as shown_event
from stepfast.kernel.ports import Store
from stepfast.kernel.reasons import Why
from stepfast.kernel.states import RunState, check_move
from stepfast.kernel.texts import MAX_NOTE, check_optional_text, check_text, error_line, shown
from stepfast.kernel.views import EventView, OutcomeView, RunView, StepView
from stepfast.missing import no_run, run_of
from stepfast.noting import annotate_command, of_run
from stepfast.why import why_of
from stepfast.workflows import failures
from stepfast.workflows.codec import digest
from stepfast.workflows.deterministic import refuse_in_workflow
from stepfast.workflows.given import text_given
from stepfast.workflows.registry import Registry
from stepfast.workflows.wait_calls import SIGNAL

if TYPE_CHECKING:
    from stepfast.kernel.reconstruction import Reconstruction
    from stepfast.moments import Moment
    from stepfast.reconstructing import Reader

T = TypeVar("T")

MAX_SEQ = 2**31 - 1


class Home(Protocol):
    """The open app that a handle belongs to."""

    store: Store
    results: Results
    registry: Registry
    values: Values
    contents: Contents

    def delivered(self, run_id: RunId, delivered: Delivered) -> None:
        """Something was brought to a run: tell those whom it concerns."""
        ...

    async def change(self, requests: Sequence[Request]) -> list[Changed | StepfastError]:
        """Carry out commands, and tell those whom they concern."""
        ...

    async def learn(self) -> None:
        """Know by the end what is registered now."""
        ...

    async def execute(self, run_id: RunId) -> bool:
        """Take a run with a worker of its own until it ends or waits; False: it cannot be taken now."""
        ...


class Origin(NamedTuple):
    """What a run was started with, and never changes."""

    thread_id: str | None
    subject: str | None


class Run(Generic[T]):
    """One durable execution of a workflow.

    With `dry_run` a command is judged and refused as ever, answers what it would do, and changes nothing.
    """

    def __init__(self, run_id: RunId, home: Home, known_here: bool, tenant: str | None = None) -> None:
        self.id: str = run_id
        self._run_id = run_id
        self._home = home
        self._tenant = tenant
        self._watch = home.results.watch(run_id)
        self._known_here = known_here
        # Set by the app that started the run, so that its result and these need no further read.
        self._code = ""
        self._origin: Origin | None = None

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    @property
    def thread_id(self) -> str | None:
        """The thread that the run belongs to; known of a run that was started here, or has been asked `info()`."""
        return self._known_origin("thread_id").thread_id

    @property
    def subject(self) -> str | None:
        """What the run is about; known as `thread_id` is."""
        return self._known_origin("subject").subject

    async def result(self, timeout: Duration | None = None) -> T:
        """What the workflow returned; raises RunFailed, RunCancelled, or WaitTimeout after the timeout.

        It is the result of the newest generation: after a retry or a rerun, of the one that this opened. What is stored
        is read before WaitTimeout is raised, so that a timeout of 0 asks whether the run has ended; a store that does
        not answer is given a second more.
        """
        refuse_in_workflow("run.result()")
        patience = Patience(self.id, timeout)
        if not self._known_here:
            await patience.answer(self.info())
        asked = self._home.results.asked
        try:
            async with asyncio.timeout_at(patience.ends_at):
                outcome = await self._home.results.wait(self._watch, look_at_once=not self._known_here)
        except TimeoutError:
            outcome = await self._last_look(patience, asked)
        return await self._value_of(outcome)

    async def _last_look(self, patience: Patience, asked: int) -> OutcomeView:
        """The outcome where the time was too short for the store to answer even once, or for what it has answered."""
        outcome = self._home.results.known(self._watch)
        if outcome is None and not self._home.results.has_answered_since(asked):
            outcome = await patience.answer(self._home.results.look(self._watch))
        if outcome is None:
            raise patience.over()
        return outcome

    async def info(self) -> RunView:
        """The run as it stands now."""
        view = await run_of(self._store, self._tenant, self._run_id)
        self._origin = Origin(view.thread_id, view.subject)
        return view

    async def steps(self) -> list[StepView]:
        """Every record of the run, in order."""
        await self.info()
        return await self._store.steps(self._run_id)

    async def artifacts(self, *, all: bool = False, limit: int = 1_000) -> list[ArtifactView]:
        """What the steps of the run have kept for people, by step and name.

        With `all` also what they have kept for themselves, and what a later attempt or a rerun has taken the place of.
        """
        number = check_whole("limit", limit, 1)
        where = ArtifactFilter((await self.info()).tenant, self._run_id, all, limit=number)
        return await self._store.artifacts(where)

    async def artifact(self, name: str | ArtifactView, step: str | None = None) -> bytes:
        """The content of an artifact: of one that `artifacts` has listed, or by its name and, if need be, its step."""
        found = name if isinstance(name, ArtifactView) else await self._named_artifact(name, step)
        what = f"Artifact {found.name!r} of step {found.step}"
        tenant = (await self.info()).tenant
        return await self._home.contents.get(tenant, self._run_id, found.reference, what)

    async def _named_artifact(self, name: str, step: str | None) -> ArtifactView:
        named = check_name("The artifact's name", name)
        listed = await self._store.artifacts(ArtifactFilter((await self.info()).tenant, self._run_id, name=named))
        found = [each for each in listed if step in (None, each.step, each.step.partition("#")[0])]
        if not found:
            raise AssetNotFound(f"Run {self.id} has no artifact {shown(name)}. `await run.artifacts()` lists them.")
        if len(found) > 1:
            raise Invalid(
                f"Run {self.id} has {len(found)} artifacts {shown(name)}, of {found[0].step} and {found[1].step}. "
                f"Say of which step: artifact({shown(name)}, step={found[0].step!r})."
            )
        return found[0]

    async def history(self, after: int = 0, limit: int = 1_000) -> list[EventView]:
        """The first `limit` of the run's events after number `after`; ask on with the `seq` of the last one."""
        after, limit = check_whole("after", after, 0, MAX_SEQ), check_whole("limit", limit, 1)
        run = await self.info()
        return [
            shown_event(event, run.correlation_id) for event in await self._store.events(self._run_id, after, limit)
        ]

    async def annotate(
        self,
        name: str,
        value: Any,
        *,
        step: str | int | None = None,
        scope: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Changed:
        """Note a fact of the run, or of one of its steps; of a run that has ended, too."""
        return await self._change(annotate_command(name, value, scope, step, key, reason, actor))

    async def annotations(
        self, name: str | None = None, step: str | None = None, *, limit: int = 1_000
    ) -> list[AnnotationView]:
        """What was noted of the run, by its code and from outside, in order; the newest ones if there are more."""
        await self.info()
        return await of_run(self._store, self._run_id, name, step, limit)

    async def read(self, text: str) -> str:
        """The JSON behind a text of `info` or `steps`: itself, or, when it refers to a large value, that."""
        if not is_reference(text):
            return text
        (whole,) = await self._home.values.resolve((await self.info()).tenant, self._run_id, [text])
        return whole or "null"

    async def why(self) -> Why:
        """What the run waits for, and who or what can move it; `str()` makes sentences of it."""
        return await why_of(self._store, await self.info())

    async def signal(
        self,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Send something to the run; it is on disk when this returns, and kept until the run's code takes it."""
        check_text("The signal's name", name)
        text = text_given(value, f"The value of signal {name!r}")
        delivery = Delivery(
            run_id=self._run_id,
            tenant=self._tenant,
            kind=SIGNAL,
            name=name,
            value=await self._kept(text),
            actor=check_optional_text("actor", actor),
            key=check_optional_text("key", key),
            digest=digest(f"{self.id}:{name}:{text}"),
            reason=check_optional_text("reason", reason, MAX_NOTE),
        )
        delivered = await self._store.deliver(delivery)
        if delivered.state is None:
            raise await no_run(self._store, self._tenant, self._run_id)
        check_move(self.id, delivered.state, "signal")
        self._home.delivered(self._run_id, delivered)

    async def cancel(
        self,
        *,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """End the run now: steps under way are cut short, its children are cancelled."""
        return await self._change(asked(Cancel(), key, reason, actor, dry_run))

    async def pause(
        self,
        *,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Let no further step begin; those under way are recorded first, and until then the run is `running`."""
        return await self._change(asked(Pause(), key, reason, actor, dry_run))

    async def resume(
        self,
        *,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Let a paused run go on."""
        return await self._change(asked(Resume(), key, reason, actor, dry_run))

    async def retry(
        self,
        step: str | int | None = None,
        *,
        version: int | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Let a failed run go on, as a new generation, without the failure that ended it or from a failed step on.

        One that waits for code that fits looks at the code again, in the generation it has.
        """
        return await self._change(asked(retry_command(step, version), key, reason, actor, dry_run))

    async def rerun(
        self,
        from_step: str | int | None = None,
        *,
        version: int | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Start an ended run over, as a new generation, from a step (its name or number) or from the beginning."""
        return await self._change(asked(rerun_command(from_step, version), key, reason, actor, dry_run))

    async def skip(
        self,
        step: str | int,
        output: Any = None,
        *,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Changed:
        """Let a step of a plan count as done with this output; a run that failed, waits or is paused goes on from it.

        A step is named by its id; one of many items by the address or number of its record.
        """
        text = text_given(output, f"The output of step {step!r}")
        return await self._change(asked(skip_command(step, await self._kept(text)), key, reason, actor))

    async def rollback(
        self,
        to: str | int,
        *,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Take a run back to the end of a step, to an event by its number, or to where it was last in a state before.

        It is held there until it is resumed. What ended later is superseded. Outside effects stay as they are.
        """
        # Only those who look back need it.
        from stepfast.moments import rollback_to

        return await self._change(asked(await rollback_to(self._reader(), to), key, reason, actor, dry_run))

    async def at(self, event: int | None = None, *, time: datetime | None = None) -> Moment:
        """The run as of one of its events, by its number, or as of a moment: its state and its steps as of then."""
        from stepfast.moments import moment_at

        return await moment_at(self._reader(), event, time)

    async def reconstruct(self) -> Reconstruction:
        """All that is known of the run in one answer: history, steps with values, reviews, lineage and the rest."""
        from stepfast.reconstructing import reconstruct

        return await reconstruct(self._reader())

    def _reader(self) -> Reader:
        from stepfast.reconstructing import Reader

        return Reader(self._store, self._home.values, self._tenant, self._run_id)

    async def execute(self) -> RunState:
        """Run it here and now with a worker of its own, until it ends or waits; the state that it came to."""
        run = await self.info()
        # Of a run that waits the time may have come: only the store, by its own clock, can say.
        if run.state is not RunState.WAITING:
            check_move(self.id, run.state, "claim")
        await self._home.learn()
        if self._home.registry.by_code(_code(run)) is None:
            raise Invalid(
                f"Run {self.id} is of {_code(run)}, which this app does not have. Import the module that has it."
            )
        if not await self._home.execute(self._run_id):
            check_move(self.id, (await self.info()).state, "claim")
            raise IllegalMove(f"Run {self.id} cannot be taken now. {await self.why()}")
        return (await self.info()).state

    async def _change(self, command: Asked) -> Changed:
        refuse_in_workflow(f"A command for run {self.id}")
        return changed_or_raise(await self._home.change([command.of(self._run_id, self._tenant)]))

    @property
    def _store(self) -> Store:
        refuse_in_workflow(f"A call for run {self.id}")
        return self._home.store

    async def _kept(self, text: str) -> str:
        """The text as its row will hold it."""
        if len(text) <= self._home.values.threshold:
            return text
        return await self._home.values.keep((await self.info()).tenant, self._run_id, text)

    def _known_origin(self, name: str) -> Origin:
        if self._origin is None:
            raise WrongCall(
                f"The {name} of run {self.id} is not known before the run is read: `await run.info()` first."
            )
        return self._origin

    async def _value_of(self, outcome: OutcomeView) -> T:
        if outcome.state is RunState.CANCELLED:
            raise self._cancelled(outcome)
        if outcome.state is RunState.FAILED:
            raise self._failed(outcome)
        workflow = self._home.registry.by_code(await self._code_of(outcome))
        text = await self.read(outcome.value or "null")
        value: T = workflow.result.decode(text) if workflow else json.loads(text)
        return value

    async def _code_of(self, outcome: OutcomeView) -> str:
        # A later generation may be of another version.
        if self._code and outcome.generation == 1:
            return self._code
        return _code(await self.info())

    def _cancelled(self, outcome: OutcomeView) -> RunCancelled:
        reason = failures.from_text(outcome.error or "{}").message
        because = f" ({reason})" if reason else ""
        return RunCancelled(f"Run {self.id} was cancelled{because}. `stepfast runs rerun {self.id}` starts it again.")

    def _failed(self, outcome: OutcomeView) -> RunFailed:
        failure = failures.from_text(outcome.error or "{}")
        error = RunFailed(f"Run {self.id} failed with {error_line(failure.type, failure.message)}")
        error.__cause__ = failures.revive(failure)
        return error


def _code(run: RunView) -> str:
    """What a worker must have to execute the run."""
    return run.workflow if run.kind == "step" else run.code
