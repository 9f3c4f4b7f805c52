"""Whether what a run's events come to is what its rows say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepfast.kernel.decisions import Message
from stepfast.kernel.exchange import Look
from stepfast.kernel.items import ItemView
from stepfast.kernel.rebuilt import Rebuilt, RebuiltStep
from stepfast.kernel.review_views import ReviewView
from stepfast.kernel.reviews import ReviewState
from stepfast.kernel.rules import COMMAND_KINDS
from stepfast.kernel.states import ENDED, StepState, WaitKind
from stepfast.kernel.texts import counted
from stepfast.kernel.views import EventView, RunView, StepView

MAX_DIFFERENCES = 20
# A fact that code notes of the whole run is told as that, and names no step.
SILENT_KINDS = frozenset({"annotate"})


def owed_events(run: RunView, look: Look | None, last: int) -> list[EventView]:
    """What has happened to a run and its holder has yet to tell, as the events that will follow number `last`."""
    owed = [] if look is None else [each for each in look.inbox if each.kind in COMMAND_KINDS and not each.told]
    return [_event(run, message, last + number) for number, message in enumerate(owed, 1)]


def _event(run: RunView, message: Message, seq: int) -> EventView:
    who = (run.generation, message.kind, message.at, message.name or None, None, run.token, message.actor)
    return EventView(0, seq, run.run_id, run.tenant, *who, message.value)


def missing_events(events: Sequence[EventView]) -> tuple[str, ...]:
    """The first gap in the numbers of a run's events, in words: nothing but other means takes one out."""
    for number, event in enumerate(events, 1):
        if event.seq != number:
            return (f"event {number} is missing, and event {event.seq} is there",)
    return ()


def differences(
    rebuilt: Rebuilt,
    run: RunView,
    steps: Sequence[StepView],
    reviews: Sequence[ReviewView],
    items: Sequence[ItemView],
) -> tuple[str, ...]:
    """Every respect in which rows say something that the events rule out, in words, up to a number."""
    found: list[str] = []
    for difference in _differences(rebuilt, run, steps, reviews, items):
        found.append(difference)
        if len(found) == MAX_DIFFERENCES:
            break
    return tuple(found)


def _differences(
    rebuilt: Rebuilt,
    run: RunView,
    steps: Sequence[StepView],
    reviews: Sequence[ReviewView],
    items: Sequence[ItemView],
) -> Iterator[str]:
    if run.state not in rebuilt.possible:
        yield f"the run is {run.state}, and its events say {rebuilt.state}"
    if run.generation != rebuilt.generation:
        yield f"the run is in generation {run.generation}, and its events say {rebuilt.generation}"
    is_asking = any(wait.kind == WaitKind.OUTSIDE for wait in rebuilt.waits)
    if run.crashes != rebuilt.crashes and not is_asking:
        yield f"its workers died {counted(run.crashes, 'time')}, and its events say {rebuilt.crashes}"
    if run.state in ENDED and run.ended_at != rebuilt.ended_at:
        yield f"it ended at {run.ended_at}, and its events say {rebuilt.ended_at}"
    yield from _of_steps(rebuilt, steps)
    yield from _of_reviews(rebuilt, reviews)
    yield from _of_items(rebuilt, items)


def _of_steps(rebuilt: Rebuilt, steps: Sequence[StepView]) -> Iterator[str]:
    stored = {step.call.address: step for step in steps if step.superseded_by is None}
    told = {step.address: step for step in rebuilt.steps if step.recorded is not None}
    for address, step in stored.items():
        known = told.get(address)
        if known is None:
            if step.kind not in SILENT_KINDS:
                yield f"step {address} is {step.state}, and no event tells of it"
        elif _is_other(step, known):
            told_of = f"{known.recorded} (attempt {known.attempt})"
            yield f"step {address} is {step.state} (attempt {step.attempt}), and its events say {told_of}"
    for address in sorted(told.keys() - stored.keys()):
        yield f"step {address} has no record, and its events say {told[address].recorded}"
    gone = {(step.address, step.superseded_by) for step in rebuilt.superseded}
    stored_gone = {
        (step.call.address, step.superseded_by)
        for step in steps
        if step.superseded_by is not None and step.kind not in SILENT_KINDS
    }
    for address, _ in sorted(gone ^ stored_gone):
        yield f"what is superseded of step {address} is not what the events say"


def _is_other(step: StepView, known: RebuiltStep) -> bool:
    # An attempt that is under way has a higher number than the record of the one before.
    is_same_try = step.attempt == known.attempt or known.state is StepState.RUNNING
    return step.state is not known.recorded or not is_same_try or step.generation != known.generation


def _of_reviews(rebuilt: Rebuilt, reviews: Sequence[ReviewView]) -> Iterator[str]:
    stored = {review.step for review in reviews if review.state is ReviewState.OPEN}
    for address in sorted(stored.symmetric_difference(rebuilt.reviews)):
        is_open = "open" if address in stored else "not open"
        yield f"the review of step {address} is {is_open}, and the events say otherwise"


def _of_items(rebuilt: Rebuilt, items: Sequence[ItemView]) -> Iterator[str]:
    stored = sorted(_place_of(item) for item in items if item.resolved_at is None)
    told = sorted((item.cause, _where(item.cause, item.step, item.generation)) for item in rebuilt.items)
    if stored != told:
        yield f"the open exception items are {_named(stored)}, and the events say {_named(told)}"


def _place_of(item: ItemView) -> tuple[str, str]:
    cause = item.cause.partition(":")[0]
    return cause, _where(cause, item.step, item.generation)


def _where(cause: str, step: str | None, generation: int) -> str:
    return str(step) if cause in ("review", "step") else str(generation)


def _named(places: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{cause} of {where}" for cause, where in places) or "none"
