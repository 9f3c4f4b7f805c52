"""Reviews in the transaction of a command: what it reads of them, and what it writes beside the run's own rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from stepfast.kernel.commands import Change, Request
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.items import LockedItem
from stepfast.kernel.reviews import LockedReview
from stepfast.stores import items, reviewing
from stepfast.stores.postgres.driver import Connection, Row
from stepfast.stores.statements import Numbered, exception_statements, numbered, review_statements


@cache
def _statements() -> dict[str, Numbered]:
    return {name: numbered(text) for name, text in (review_statements() | exception_statements()).items()}


async def read_reviews(connection: Connection, requests: Iterable[Request]) -> dict[RunId, LockedReview]:
    """The reviews that commands are about."""
    found: dict[RunId, LockedReview] = {}
    for run_id, request in _first_of_each_run(requests):
        wait_id = reviewing.wait_of(request)
        if wait_id is None:
            continue
        which = {"run_id": run_id, "wait_id": wait_id, "hash": reviewing.token_of(request)}
        rows = await _ask(connection, "locked_review", which)
        if rows:
            given, tokens = [await _ask(connection, name, which) for name in ("given_verdicts", "issued_token")]
            found[run_id] = reviewing.locked_review(rows[0], given, tokens[0] if tokens else None)
    return found


async def read_items(connection: Connection, requests: Iterable[Request]) -> dict[RunId, LockedItem]:
    """The exception items that commands are about."""
    found: dict[RunId, LockedItem] = {}
    for run_id, request in _first_of_each_run(requests):
        cause = items.cause_of(request)
        rows = [] if cause is None else await _ask(connection, "locked_item", {"run_id": run_id, "cause": cause})
        if rows:
            found[run_id] = items.locked_item(rows[0])
    return found


def _first_of_each_run(requests: Iterable[Request]) -> Iterable[tuple[RunId, Request]]:
    """In one turn there is one command for a run; what others are about, they see in theirs."""
    first: dict[RunId, Request] = {}
    for request in requests:
        first.setdefault(request.run_id, request)
    return first.items()


async def write_beside(connection: Connection, run_id: RunId, actor: str | None, change: Change, now: Instant) -> None:
    """What a change writes of reviews and into inboxes."""
    for name, parameters in reviewing.writes_of(run_id, actor, change, now):
        await _ask(connection, name, parameters)


async def _ask(connection: Connection, name: str, parameters: dict[str, Any]) -> list[Row]:
    statement = _statements()[name]
    return await connection.fetch(statement.text, *[parameters[each] for each in statement.names])
