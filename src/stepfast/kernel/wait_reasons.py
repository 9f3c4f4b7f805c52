"""What each open wait of a run says: what it is for, whether that has come, and who or what can bring it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import assert_never

from stepfast.kernel.decisions import Message, OpenWait
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Look
from stepfast.kernel.generations import ChildView
from stepfast.kernel.outside import CALLBACK, Asking
from stepfast.kernel.replay import INPUT_MISFIT, way_back
from stepfast.kernel.reviews import ANYBODY, ReviewId
from stepfast.kernel.rules import HAND_BACK_WAIT_ID, SHORT_MESSAGE
from stepfast.kernel.seen import Reason, Seen, fields_of, lacking, moment
from stepfast.kernel.states import PENDING_WAITS, RunState, WaitKind
from stepfast.kernel.texts import error_line
from stepfast.kernel.troubles import trouble_of

# Of children that stand still for different reasons, so many are told of.
TOLD_CHILDREN = 5
CODE_MOVES = "The run goes on from there when it has code that fits."


def waits(seen: Seen) -> Iterator[Reason]:
    """A reason for each open wait, and behind them what keeps children from moving."""
    open_waits = _open_waits(seen)
    if not open_waits and _is_left_waiting(seen):
        yield _set_aside(seen)
    come = _come(open_waits, seen)
    for wait in open_waits:
        yield _ready(wait, seen) if wait.wait_id in come else _wait(wait, seen)
    yield from _children_that_stand_still(seen)


def _is_left_waiting(seen: Seen) -> bool:
    """Whether it is nobody's, and not because a person holds it."""
    run, look = seen.run, seen.look
    return run.state is RunState.WAITING and look is not None and look.token == run.token and not look.hold


def _set_aside(seen: Seen) -> Reason:
    """It waits for nothing: nobody could go on with it, and it was not to hold up others."""
    text = "It was set aside: somebody has changed its rows, so that they can neither be counted on from nor be ended."
    return Reason(
        "damaged", text, f"Put a backup of its rows in place; `stepfast runs cancel {seen.run.run_id}` may end it."
    )


def is_put_off(seen: Seen) -> bool:
    """Whether the run is tried again, or begun, at a later moment."""
    return any(wait.kind in PENDING_WAITS and _is_ahead(wait, seen.now) for wait in _open_waits(seen))


def is_timed(seen: Seen) -> bool:
    """Whether time alone brings the end of one of its waits, and has not yet."""
    timed = (*PENDING_WAITS, WaitKind.TIME)
    return any(wait.kind in timed and _is_ahead(wait, seen.now) for wait in _open_waits(seen))


def is_hand_back(wait: OpenWait) -> bool:
    """Whether it is a wait of the whole run; the backoff of a step has the number of its record."""
    return wait.kind is WaitKind.BACKOFF and wait.wait_id == HAND_BACK_WAIT_ID


def is_step_backoff(wait: OpenWait) -> bool:
    """Whether it is the pause before a step's next try."""
    return wait.kind is WaitKind.BACKOFF and not is_hand_back(wait)


def waits_for_people(look: Look | None) -> bool:
    """Whether a run waits for an answer, so that one must ask who is to give it."""
    return look is not None and any(wait.kind is WaitKind.REVIEW for wait in look.waits)


def _lacks_code(seen: Seen) -> bool:
    """Whether nothing else that it waits for moves the run before there is code that fits."""
    return any(wait.kind is WaitKind.CODE for wait in _open_waits(seen))


def _open_waits(seen: Seen) -> Sequence[OpenWait]:
    return seen.look.waits if seen.look is not None else ()


def _come(open_waits: Sequence[OpenWait], seen: Seen) -> set[int]:
    """The waits whose end is there already, and that the code has not taken yet, as it would take them."""
    inbox = list(seen.look.inbox) if seen.look is not None else []
    found: set[int] = set()
    for wait in sorted(open_waits):
        if wait.kind is WaitKind.CHILDREN and wait.is_joined:
            found.add(wait.wait_id)
        message = next((each for each in inbox if _ends(each, wait, seen.run.generation)), None)
        if message is not None:
            # One message ends one wait: two branches that wait for a signal of one name need two.
            inbox.remove(message)
            found.add(wait.wait_id)
    return found


def _ends(message: Message, wait: OpenWait, generation: int) -> bool:
    match wait.kind:
        case WaitKind.SIGNAL:
            is_in_time = wait.due_at is None or message.at <= wait.due_at
            return is_in_time and (message.kind, message.name) == (WaitKind.SIGNAL, wait.name)
        case WaitKind.REVIEW:
            return (message.kind, message.name) == (WaitKind.REVIEW, str(wait.wait_id))
        case WaitKind.OUTSIDE:
            return (message.kind, message.name) == (CALLBACK, f"{generation}:{Asking.read(wait.name).step}")
    return False


def _ready(wait: OpenWait, seen: Seen) -> Reason:
    match wait.kind:
        case WaitKind.SIGNAL:
            text = f"Signal {wait.name!r} has come."
        case WaitKind.REVIEW:
            text = f"Review {wait.name!r} ({ReviewId(seen.run.run_id, wait.wait_id)}) has its answer."
        case WaitKind.OUTSIDE:
            text = f"The outside work of step {Asking.read(wait.name).step} has called back."
        case _:
            text = f"Enough of its children of {wait.name} have ended."
    # A child that was started to be awaited later may end while the code waits for something else.
    return Reason(wait.kind, text, _when_held(seen) or "Its code has not taken it yet.", wait.due_at)


def _when_held(seen: Seen) -> str | None:
    """When a run goes on that is held by a person, lacks code, or is tried again later; None: it is none of these."""
    if seen.run.state is RunState.PAUSED:
        return "The run goes on from there when it is resumed."
    if _lacks_code(seen):
        return CODE_MOVES
    return "The run goes on from there when it is tried again." if is_put_off(seen) else None


def _taken_up(seen: Seen) -> str:
    """Who takes a run up that is due, or what is missing for that, in sentences that need none before them."""
    lack = lacking(seen, seen.run.workflow, seen.run.code, seen.run.queue)
    return "The next worker with a free slot takes it up." if lack is None else str(lack)


def _wait(wait: OpenWait, seen: Seen) -> Reason:
    run_id, until = seen.run.run_id, _until(wait)
    match wait.kind:
        case WaitKind.DELAY:
            text, mover = f"It is put off{until}.", "Time moves it."
        case WaitKind.BACKOFF:
            text, mover = _backoff(wait, seen)
        case WaitKind.TIME:
            text, mover = f"It sleeps{until}.", CODE_MOVES if _lacks_code(seen) else "Time moves it."
        case WaitKind.SIGNAL:
            text = f"It waits for signal {wait.name!r}{until}."
            # Without a value it would send null, which ends a run that wants a text.
            name = f"-- {quote(wait.name)}" if wait.name.startswith("-") else quote(wait.name)
            mover = f"`stepfast runs signal {run_id} {name} JSON` sends it."
        case WaitKind.REVIEW:
            text, mover = _review(wait, seen)
        case WaitKind.CHILDREN:
            text, mover = f"It waits for {_children(wait)}{until}.", "Their ends move it."
        case WaitKind.OUTSIDE:
            text, mover = _outside(wait)
        case WaitKind.CODE:
            text, mover = _code_wait(wait, seen)
        case _:
            assert_never(wait.kind)
    if wait.due_at is not None and not _is_ahead(wait, seen.now):
        mover = f"Its time has come: {_when_held(seen) or _taken_up(seen)}"
    return Reason(wait.kind, text, mover, wait.due_at)


def _review(wait: OpenWait, seen: Seen) -> tuple[str, str]:
    review_id = ReviewId(seen.run.run_id, wait.wait_id)
    assignee, role = seen.owners.get(wait.wait_id, ANYBODY)
    asked = f", for {assignee}" if assignee else f", for role {role}" if role else ""
    until = f",{_until(wait)}" if asked and wait.due_at is not None else _until(wait)
    text = f"It waits for review {wait.name!r} ({review_id}){asked}{until}."
    return text, f"`stepfast reviews decide {review_id} VERDICT` answers it."


def _children(wait: OpenWait) -> str:
    still_open = wait.total - wait.got - wait.failed
    failed = f" ({wait.failed} failed)" if wait.failed else ""
    return f"{still_open} of {wait.total} children of {wait.name}{failed}"


def _children_that_stand_still(seen: Seen) -> Iterator[Reason]:
    """Equal reasons once, with the child that comes first and how many more were seen."""
    found = [(child, reason) for child in seen.children if (reason := _standstill(child, seen)) is not None]
    sizes = Counter(reason.text for _, reason in found)
    first = {reason.text: (child, reason) for child, reason in reversed(found)}
    for text, size in sizes.most_common(TOLD_CHILDREN):
        child, reason = first[text]
        others = f", and at least {size - 1:,} more like it," if size > 1 else ""
        yield reason._replace(text=f"Child {child.run_id} of {child.code}{others} cannot move: {text}")


def _standstill(child: ChildView, seen: Seen) -> Reason | None:
    """What keeps a child from moving, where that takes more than time and what it waits for; None: nothing does."""
    run_id = child.run_id
    if child.state is RunState.PAUSED:
        return Reason("paused", "It is paused.", f"`stepfast runs resume {run_id}` lets it go on.")
    if child.waits_for_code:
        return Reason("code", "Its records do not fit the code.", f"`stepfast runs why {run_id}` says where.")
    # One whose worker died is given back by any other that lives.
    if child.state is RunState.WAITING or (child.worker_id is not None and seen.live):
        return None
    return lacking(seen, child.workflow, child.code, child.queue)


def _backoff(wait: OpenWait, seen: Seen) -> tuple[str, str]:
    at = "" if wait.due_at is None else f" at {moment(wait.due_at)}"
    failed = seen.tries.get(wait.wait_id)
    if failed is not None:
        error = fields_of(failed.error)
        text = f"Step {failed.call.address} is tried again{at}: attempt {failed.attempt} failed with "
        return f"{text}{_error(error.get('type'), error.get('message'))}", "Time moves it."
    told = seen.put_off if is_hand_back(wait) else None
    if told is not None and told.type == EventType.RETRY_SCHEDULED:
        why = fields_of(told.data)
        text = f"It failed and is tried again{at}: {_error(why.get('error_type'), why.get('message'))}"
        return text, "Time moves it."
    trouble = trouble_of(told) if told is not None else None
    if trouble is None:
        return f"It is backing off{_until(wait)}.", "Time moves it."
    times = "once" if trouble.number == 1 else f"{trouble.number} times in a row"
    text = f"It was handed back {times} and is tried again{at}: {trouble.reason}"
    return text, "Put that right, and time moves it."


def _error(error_type: object, message: object) -> str:
    return error_line(str(error_type or ""), str(message or "")[:SHORT_MESSAGE]).rstrip(" :.") + "."


def _outside(wait: OpenWait) -> tuple[str, str]:
    asking = Asking.read(wait.name)
    text = f"Step {asking.step} waits for outside work (handle {asking.shown_handle})"
    if not asking.polled:
        return f"{text}{_until(wait)}.", "Its call back moves it."
    again = "" if wait.due_at is None else f", asked again at {moment(wait.due_at)}"
    last = f" The last question failed: {asking.error.rstrip('.')}." if asking.error else ""
    return f"{text}{again}.{last}", "An answer, or its call back, moves it."


def _code_wait(wait: OpenWait, seen: Seen) -> tuple[str, str]:
    told, run_id = seen.told, seen.run.run_id
    if seen.run.state is RunState.PAUSED:
        return f"Its records did not fit the code of {wait.name}.", "It is tried again when it is resumed."
    reason = fields_of(told.data).get("reason") if told is not None and told.type == EventType.WAITING else None
    lacks = f"It waits for code of {wait.name} that fits: {reason}"
    text = lacks if reason else f"Its records do not fit the code of {wait.name}."
    moves = f"A worker with other code that announces itself moves it, or `stepfast runs retry {run_id}`."
    if str(reason).startswith(INPUT_MISFIT):
        mend = "Only code can mend it: let a parameter keep its name and type, or have a default."
        other = f"`stepfast runs cancel {run_id}`, then `stepfast runs rerun {run_id} --version VERSION`"
        return text, f"{moves} {mend} Where a version of it fits, {other} starts it anew under that."
    # Code that did other steps in place of recorded ones has left records that the earlier code does not fit either.
    return text, f"{moves} If no code fits any more, {way_back(run_id)}."


def _is_ahead(wait: OpenWait, now: Instant) -> bool:
    return wait.due_at is not None and wait.due_at > now


def _until(wait: OpenWait) -> str:
    return "" if wait.due_at is None else f" until {moment(wait.due_at)}"
