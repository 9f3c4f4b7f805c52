"""Asking a store all that the answer to `why()` rests on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from stepfast.kernel.agreeing import owed_events
from stepfast.kernel.errors import StoreUnusable
from stepfast.kernel.exchange import Look
from stepfast.kernel.generations import ChildView
from stepfast.kernel.ids import RunId
from stepfast.kernel.marks import caught_calls
from stepfast.kernel.ports import Store
from stepfast.kernel.reasons import Why, explain, putting_off_events, telling_events
from stepfast.kernel.review_views import ReviewFilter
from stepfast.kernel.reviews import Owner, ReviewState, parse_review_id
from stepfast.kernel.seen import Reason, Seen
from stepfast.kernel.states import RunState, WaitKind
from stepfast.kernel.views import EventView, RunView, StepView
from stepfast.kernel.wait_reasons import is_step_backoff, waits_for_people

EVENTS_A_PAGE = 1_000
# So much is looked at of what a run waits for, however many children it and these have.
CHILDREN_OF_A_WAIT = 100
WAITS_LOOKED_INTO = 10
CHILDREN_LOOKED_INTO = 10

Group = tuple[RunId, int]
"""A run, and the number of the wait that stands for some of its children."""


async def why_of(store: Store, run: RunView) -> Why:
    """Why a run stands where it stands."""
    try:
        look = await store.look(run.run_id)
    except (StoreUnusable, ValueError) as error:
        # A row of a kind that does not exist is told of by what made nothing of it.
        lost = f"What it waits for cannot be read. {error}"
        return Why(run.run_id, run.state, (Reason("damaged", lost, f"`stepfast runs cancel {run.run_id}` ends it."),))
    telling = telling_events(run, look)
    told, put_off = await _newest_events(store, run.run_id, telling, putting_off_events(look))
    # A holder that died before it had told of a pause has left that to whoever moves the run next.
    told = _newest(owed_events(run, look, 0), telling) or told
    owners = await _asked_owners(store, run.run_id) if waits_for_people(look) else {}
    children = await _open_children(store, run.run_id, look) if run.worker_id is None else []
    tries, caught = await _failed_tries(store, run, look), await _caught(store, run)
    seen = Seen(run, look, await store.workers(), told, await store.now(), owners, children, tries, caught, put_off)
    return explain(seen)


async def _failed_tries(store: Store, run: RunView, look: Look | None) -> dict[int, StepView]:
    """The failed attempts of steps that are tried again later: such a wait has the number of its record."""
    put_off = {wait.wait_id for wait in look.waits if is_step_backoff(wait)} if look is not None else set()
    return {each.seq: each for each in await store.steps(run.run_id) if each.seq in put_off} if put_off else {}


async def _caught(store: Store, run: RunView) -> list[str]:
    """The steps whose failures a retry of the run would keep; only functions catch any by themselves."""
    if run.state is not RunState.FAILED or run.definition is not None:
        return []
    return [call.address for call in caught_calls(run.error, await store.steps(run.run_id))]


async def _newest_events(store: Store, run_id: RunId, *wanted: frozenset[str]) -> list[EventView | None]:
    """Of each set of types the newest event that has one of them."""
    newest: list[EventView | None] = [None for _ in wanted]
    after = 0
    while any(wanted) and (page := await store.events(run_id, after, EVENTS_A_PAGE)):
        newest = [_newest(page, types) or before for types, before in zip(wanted, newest, strict=True)]
        after = page[-1].seq
    return newest


def _newest(page: Sequence[EventView], types: frozenset[str]) -> EventView | None:
    return next((event for event in reversed(page) if event.type in types), None)


async def _asked_owners(store: Store, run_id: RunId) -> dict[int, Owner]:
    views = await store.reviews(ReviewFilter(run_id=run_id, state=ReviewState.OPEN))
    return {parse_review_id(view.review_id).wait_id: Owner(view.assignee, view.role) for view in views}


async def _open_children(store: Store, run_id: RunId, look: Look | None) -> list[ChildView]:
    """Open runs that the run waits for, and behind them those that these wait for; of many, only some."""
    found: list[ChildView] = []
    groups, looks = deque(_groups(run_id, look)), CHILDREN_LOOKED_INTO
    for _ in range(WAITS_LOOKED_INTO):
        if not groups:
            break
        children = await store.open_children(*groups.popleft(), CHILDREN_OF_A_WAIT)
        found += children
        waiting = [child.run_id for child in children if child.state is RunState.WAITING][:looks]
        looks -= len(waiting)
        for child_id in waiting:
            groups.extend(_groups(child_id, await store.look(child_id)))
    return found


def _groups(run_id: RunId, look: Look | None) -> Iterator[Group]:
    waits = look.waits if look is not None else ()
    return ((run_id, wait.wait_id) for wait in waits if wait.kind is WaitKind.CHILDREN)
