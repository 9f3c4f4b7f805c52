"""What a run tells while it runs: events of its own, and how far it has got."""

from __future__ import annotations

from asyncio import events
from typing import Any

from stepfast.kernel import rules
from stepfast.kernel.decisions import Decision, HeldRun, Record
from stepfast.kernel.errors import Invalid, Unstorable, WrongCall
from stepfast.kernel.events import EventType
from stepfast.kernel.texts import check_text
from stepfast.workflows.bodies import current_step
from stepfast.workflows.branches import thread_branch
from stepfast.workflows.given import text_given
from stepfast.workflows.loop import RunLoop, current_branch_of
from stepfast.workflows.once_calls import WrittenCall
from stepfast.workflows.progress import progress_data
from stepfast.workflows.waiting import ask

# Events stay in their rows, whatever their size, for whoever reads the history reads them all.
MAX_EVENT_DATA = 1_000_000
RESERVED = frozenset(map(str, EventType))


class EmitCall(WrittenCall):
    """An event of the workflow's own, written once."""

    kind = "emit"

    def __init__(self, event: str, data: str) -> None:
        super().__init__(f"emit:{event}", data)
        self._event = event

    def decided(self, run: HeldRun, record: Record) -> Decision:
        return rules.emit(run, record, self._event, self.input)


def emit(event: str, data: Any = None) -> Any:
    """Write an event of your own into the run's history, once: `await emit("contract.published", {"id": 7})`."""
    return ask("emit", emit_call(event, data))


def emit_call(event: str, data: Any) -> EmitCall:
    """The call that writes an event; one that cannot be stored is refused here."""
    if check_text("The event's type", event) in RESERVED:
        raise Invalid(
            f"The event's type is {event!r}, which the engine uses itself. Choose another, like 'order.{event}'."
        )
    text = text_given(data, f"The data of event {event!r}")
    if len(text) > MAX_EVENT_DATA:
        size = f"as JSON it has {len(text):,} characters, and the limit is {MAX_EVENT_DATA:,}"
        raise Unstorable(f"The data of event {event!r} cannot be stored: {size}. Emit the address of it instead.")
    return EmitCall(event, text)


def progress(done: float, total: float | None = None, note: str | None = None) -> None:
    """Say how far the run has got; goes along with its next commit, and is silent while its code is replayed."""
    data = progress_data(done, total, note)
    loop = events._get_running_loop()
    branch = current_branch_of(loop) if isinstance(loop, RunLoop) else thread_branch()
    # The branch first: a run that was started inside a step's body inherits the context of that step.
    if branch is not None:
        if not branch.context.is_replaying:
            branch.context.tell(rules.progress(None, branch.context.host.clock.now(), data))
        return
    info = current_step.get(None)
    if info is None:
        raise WrongCall("progress() was called outside a run.")
    info.tell(rules.progress(info.call, info.now(), data))
