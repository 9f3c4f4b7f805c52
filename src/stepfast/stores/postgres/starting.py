"""New runs as columns, and the call that stores them."""

from __future__ import annotations

from collections.abc import Sequence

from stepfast.kernel.decisions import NewRun, Started
from stepfast.kernel.ids import WorkerId
from stepfast.stores.postgres.columns import Column, call_with
from stepfast.stores.postgres.driver import Row

# The columns of new runs, in the order of `run_columns`.
RUN_COLUMNS = (
    ("n_id", "uuid[]"),
    ("n_tenant", "text[]"),
    ("n_workflow", "text[]"),
    ("n_version", "integer[]"),
    ("n_kind", "text[]"),
    ("n_queue", "text[]"),
    ("n_code", "text[]"),
    ("n_priority", "integer[]"),
    ("n_input", "text[]"),
    ("n_digest", "text[]"),
    ("n_key", "text[]"),
    ("n_delay", "bigint[]"),
    ("n_timeout", "bigint[]"),
    ("n_parent", "uuid[]"),
    ("n_parent_wait", "integer[]"),
    ("n_leave", "boolean[]"),
    ("n_lane", "text[]"),
    ("n_actor", "text[]"),
    ("n_correlation", "text[]"),
    ("n_causation", "text[]"),
    ("n_thread", "text[]"),
    ("n_subject", "text[]"),
    ("n_metadata", "text[]"),
    ("n_definition", "text[]"),
    ("t_of", "integer[]"),
    ("t_tag", "text[]"),
)


def run_columns(runs: Sequence[NewRun]) -> list[Column]:
    """Runs turned on their side."""
    *columns, joins, leave, lane, actor, correlation, causation, thread, subject, tags, metadata, definition = zip(
        *runs, strict=True
    )
    # The group that a run counts toward is two columns, its tags are rows of their own.
    parents = [join and join.parent_id for join in joins]
    waits = [join and join.wait_id for join in joins]
    origin = (leave, lane, actor, correlation, causation, thread, subject, metadata, definition)
    tagged = [(of, tag) for of, own in enumerate(tags, start=1) for tag in own]
    return [*columns, parents, waits, *origin, [of for of, _ in tagged], [tag for _, tag in tagged]]


def started(answer: Sequence[Row]) -> list[Started]:
    """The answer to each run."""
    return [Started(*row) for row in zip(*answer[0], strict=True)]


def start_call(runs: Sequence[NewRun], holder: WorkerId | None, again: bool) -> tuple[str, list[object]]:
    """The statement that stores new runs, and its arguments."""
    columns, values = call_with(RUN_COLUMNS, run_columns(runs))
    last = len(RUN_COLUMNS)
    return (
        f"select stands::text[], own, tokens, moments from stepfast.start_runs({columns}, "
        f"n_holder => ${last + 1}::uuid, n_again => ${last + 2}::boolean, n_wanted => null)"
    ), [*values, holder, again]
