"""The tables of a store and of the model, side by side."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

from stepfast.kernel.states import ENDED, RunState, TaskState
from tests.stores.model import Model
from tests.stores.model_reviews import answer_rows, item_rows, review_rows, withdraw

Rows = dict[str, list[tuple[Any, ...]]]

QUERIES = {
    "task": "select run_id, state, place, since_at, due_at, worker_id, token, claims, crashes, strikes, wakes,"
    " generation, code, deadline_at, hold, tries from stepfast.task order by run_id",
    "run": "select run_id, state, token, generation, version from stepfast.run_state order by run_id",
    "generation": "select run_id, generation, cause from stepfast.generation order by run_id, generation",
    "outcome": "select run_id, generation, state, seq, token, ended_at, error"
    " from stepfast.outcome order by run_id, generation",
    "event": "select run_id, seq, type, token, generation from stepfast.event order by run_id, seq",
    "step": "select run_id, seq, name, state, token, generation, superseded_by from stepfast.step order by run_id, seq",
    "wait": "select run_id, wait_id, kind, name, opened_at, due_at, need, spare, got, failed"
    " from stepfast.wait order by run_id, wait_id",
    "unjoined": "select run_id, wait_id, tenant from stepfast.unjoined order by run_id, wait_id",
    "inbox": "select run_id, n, kind, name, at, told from stepfast.inbox order by run_id, n",
    "worker": "select worker_id, seen_at, dead_at from stepfast.worker order by worker_id",
    "key": "select tenant, command, key, run_id, at from stepfast.idempotency order by tenant, command, key",
    "dead_letter": "select run_id, generation, error_type, resolution"
    " from stepfast.dead_letter order by run_id, generation",
    "review": "select run_id, wait_id, generation, state, verdict, actor, assignee, role, escalations, due_at"
    " from stepfast.review order by run_id, wait_id",
    "review_answer": "select run_id, wait_id, n, verdict, actor"
    " from stepfast.review_answer order by run_id, wait_id, n",
    "item of a review": "select run_id, cause, kind, assignee, resolved_at is null, resolution"
    " from stepfast.exception_item where cause like 'review:%' order by run_id, cause",
}
POSITIONS = "select run_id, position from stepfast.event order by run_id, seq"
# A wait that is deleted may leave a row in `unjoined`.
TABLES = (
    "run", "task", "generation", "outcome", "event", "step", "wait", "unjoined", "inbox", "worker", "turn",
    "idempotency", "dead_letter", "review", "review_answer", "review_token", "exception_item", "exception_comment",
)  # fmt: skip


def check(rows: Rows) -> None:
    """What holds whatever has happened."""
    open_runs = [row[0] for row in rows["run"] if RunState(row[1]) not in ENDED]
    assert [row[0] for row in rows["task"]] == open_runs
    waited_for = {row[0] for row in rows["wait"]}
    for run_id, state, *rest in rows["task"]:
        assert (state == TaskState.LEASED) == (rest[3] is not None)
        assert state != TaskState.WAITING or run_id in waited_for
    for _, events in groupby(rows["event"], key=lambda row: row[0]):
        numbers = [row[1] for row in events]
        assert numbers == list(range(1, len(numbers) + 1))
    assert max(Counter(row[:2] for row in rows["outcome"]).values(), default=1) == 1
    assert max(Counter(row[:3] for row in rows["key"]).values(), default=1) == 1


def rows_of(model: Model) -> Rows:
    """The model as the tables would have it."""
    lives = sorted(model.lives.items())
    withdraw(model.reviews, model.lives)
    return {
        "task": [
            (
                *(run_id, t.state, t.place, t.since_at, t.due_at, t.worker_id, t.token, t.claims, t.crashes, t.strikes),
                *(t.wakes, t.generation, t.code, t.deadline_at, t.hold, t.tries),
            )
            for run_id, life in lives
            if (t := life.task) is not None
        ],
        "run": [(run_id, life.state, life.token, life.generation, life.version) for run_id, life in lives],
        "generation": [(run_id, *opened) for run_id, life in lives for opened in sorted(life.causes.items())],
        "outcome": [
            (run_id, end.generation, end.state, end.seq, end.token, end.ended_at, end.error)
            for run_id, life in lives
            for end in life.ends
        ],
        "event": [(run_id, seq, *event) for run_id, life in lives for seq, event in enumerate(life.events, start=1)],
        "step": [
            (run_id, seq, kept.record.call.name, kept.record.state, kept.token, kept.generation, kept.superseded_by)
            for run_id, life in lives
            for seq, kept in enumerate(life.records, start=1)
        ],
        "wait": [
            (run_id, n, w.wait.kind, w.wait.name, w.opened_at, w.due_at, w.wait.need, w.wait.spare, w.got, w.failed)
            for run_id, life in lives
            for n, w in sorted(life.waits.items())
        ],
        "unjoined": [(*group, tenant) for group, tenant in sorted(model.unjoined.items())],
        "inbox": [
            (run_id, n, mail.kind, mail.name, mail.at, mail.told)
            for run_id, life in lives
            for n, mail in sorted(life.inbox.items())
        ],
        "worker": [(worker_id, member.seen_at, member.dead_at) for worker_id, member in sorted(model.workers.items())],
        "key": [(*key, run_id, at) for key, (_, run_id, at) in sorted(model.keys.items())],
        "dead_letter": [
            (run_id, generation, letter.error_type, letter.resolution)
            for run_id, life in lives
            for generation, letter in sorted(life.letters.items())
        ],
        "review": review_rows(model.reviews),
        "review_answer": answer_rows(model.reviews),
        "item of a review": item_rows(model.reviews),
    }
