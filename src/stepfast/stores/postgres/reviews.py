"""Reviews in the transaction of a command: what it reads of them, and what it writes beside the run's own rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from stepfast.kernel.commands import Change, Request
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.items import LockedItem
from stepfast.kernel.outside import LockedCall
from stepfast.kernel.reviews import LockedReview
from stepfast.stores import items, reviewing
from stepfast.stores.postgres.driver import Connection, Row
from stepfast.stores.statements import Numbered, exception_statements, joined, numbered, review_statements

_TABLE = re.compile(r"\bstepfast\.(\w+)")
_WRITTEN = re.compile(r"^(?:insert into|update|delete from) stepfast\.(\w+)", re.MULTILINE)


@cache
def _texts() -> dict[str, str]:
    return review_statements() | exception_statements()


@cache
def _statements() -> dict[str, Numbered]:
    return {name: numbered(text) for name, text in _texts().items()}


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
            # One that takes a single answer has none while it is open.
            given = await _ask(connection, "given_verdicts", which) if reviewing.takes_several(rows[0]) else []
            tokens = [] if which["hash"] is None else await _ask(connection, "issued_token", which)
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


async def read_calls(connection: Connection, requests: Iterable[Request]) -> dict[RunId, LockedCall]:
    """The calls of steps that commands are about."""
    asked = {run_id: reviewing.call_of(request) for run_id, request in _first_of_each_run(requests)}
    return {
        run_id: reviewing.locked_call((await _ask(connection, "locked_call", which))[0])
        for run_id, which in asked.items()
        if which is not None
    }


def _first_of_each_run(requests: Iterable[Request]) -> Iterable[tuple[RunId, Request]]:
    """In one turn there is one command for a run; what others are about, they see in theirs."""
    first: dict[RunId, Request] = {}
    for request in requests:
        first.setdefault(request.run_id, request)
    return first.items()


async def write_beside(connection: Connection, run_id: RunId, actor: str | None, change: Change, now: Instant) -> None:
    """What a change writes of reviews and into inboxes, in as few round trips as can be."""
    for together in _apart(reviewing.writes_of(run_id, actor, change, now)):
        parameters = {
            f"{name}_{number}": value
            for number, statement in enumerate(together)
            for name, value in statement.parameters.items()
        }
        text, names = _joined(tuple(statement.name for statement in together))
        await connection.fetch(text, *[parameters[name] for name in names])


def _apart(statements: Iterable[reviewing.Statement]) -> Iterable[list[reviewing.Statement]]:
    """Statements in order, those together that neither read nor write what another of them writes."""
    together: list[reviewing.Statement] = []
    written: set[str] = set()
    for statement in statements:
        text = _texts()[statement.name]
        if written.intersection(_TABLE.findall(text)):
            yield together
            together, written = [], set()
        together.append(statement)
        written.update(_WRITTEN.findall(text))
    if together:
        yield together


@cache
def _joined(names: tuple[str, ...]) -> Numbered:
    return joined([_texts()[name] for name in names])


async def _ask(connection: Connection, name: str, parameters: dict[str, Any]) -> list[Row]:
    statement = _statements()[name]
    return await connection.fetch(statement.text, *[parameters[each] for each in statement.names])
