"""What is read back: by the cold statements that both stores share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, TypeVar

from stepfast.kernel.ids import RunId
from stepfast.kernel.views import Backlog, Family, Findings, OutcomeView
from stepfast.stores import rows
from stepfast.stores.postgres.driver import Row
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.statements import Numbered, exception_statements, narrowed, numbered, shared_statements

T = TypeVar("T")

# `get_outcome` for many runs at once.
OUTCOMES = """
select distinct on (o.run_id) o.run_id, o.generation, o.state, o.value, o.error, o.ended_at
  from stepfast.outcome o
 where o.run_id = any ($1::uuid[])
   and not exists (select 1 from stepfast.task t where t.run_id = o.run_id)
 order by o.run_id, o.generation desc
"""


async def read(pool: Pool, name: str, parameters: dict[str, Any], view: Callable[[Row], T]) -> list[T]:
    """The rows of a shared statement, each as its view."""
    given = frozenset(parameter for parameter, value in parameters.items() if value is not None)
    statement = _statement(name, given)
    found = await pool.fetch(statement.text, [parameters[parameter] for parameter in statement.names])
    return [view(row) for row in found]


async def get_family(pool: Pool, run_id: RunId, limit: int) -> Family:
    """What may be taken of a run and its open descendants."""
    return rows.family(await read(pool, "list_family", {"run_id": run_id, "limit": limit}, tuple))


async def get_backlog(pool: Pool, limit: int) -> Backlog:
    """How much is ready, by queue and code."""
    lines = await read(pool, "list_lines", {"limit": limit}, rows.line_view)
    (counted,) = await read(pool, "count_suspects", {"limit": limit}, tuple)
    return rows.backlog(lines, counted)


async def find_all(pool: Pool, limit: int) -> Findings:
    """What breaks the invariant of unended runs, clause by clause."""
    runs_after, tasks_after = await _reached(pool, "reach_of_runs"), await _reached(pool, "reach_of_tasks")
    parameters = rows.finding_parameters(limit, runs_after, tasks_after)
    found = [await read(pool, f"find_{clause}", parameters, partial(rows.finding, clause)) for clause in rows.FINDINGS]
    return Findings(chain.from_iterable(found), is_whole=not (runs_after or tasks_after))


async def _reached(pool: Pool, name: str) -> RunId | None:
    return next(iter(await read(pool, name, {"reach": rows.REACH}, rows.run_id_alone)), None)


def outcomes_by_run(answer: Sequence[Row]) -> dict[RunId, OutcomeView]:
    """The outcome of each run that has one."""
    views = [rows.outcome_view(row) for row in answer]
    return {view.run_id: view for view in views}


@cache
def _statement(name: str, given: frozenset[str]) -> Numbered:
    return numbered(narrowed((shared_statements() | exception_statements())[name], given))
