"""The hot commit: fenced decisions of many runs, saved together."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, assert_never

import apsw

from stepfast.kernel.decisions import Continue, Decision, HandBack, Park, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused, RowsRefused
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import TaskState
from stepfast.stores.reviewing import review_row
from stepfast.stores.sqlite.asking import Row, moment, one, statements
from stepfast.stores.sqlite.groups import Groups
from stepfast.stores.sqlite.pending import Pending, write_events, write_rows
from stepfast.stores.sqlite.starting import Newcomers

SQL = statements("saving")

Holder = list[Any]
"""The token, the worker and the wakes of a task row."""


class Prepared(NamedTuple):
    """A decision with the rows of its history, which are made before anybody has to wait for this commit."""

    decision: Decision
    steps: list[Row]
    events: list[Row]


def prepare(decision: Decision) -> Prepared:
    """Make the rows of what a decision records and tells."""
    run_id, token, _ = decision.fence
    identity = (decision.tenant, decision.generation)
    steps: list[Row] = []
    for seq, ((path, name, nth), kind, state, attempt, *rest, due_at, _) in enumerate(
        decision.records, decision.first_seq
    ):
        call = (path, name, nth, kind, state.value, attempt)
        steps.append((run_id, seq, *identity, *call, *rest, due_at, token))
    events: list[Row] = [
        (run_id, seq, *identity, str(event_type), at, step, try_number, token, actor, data)
        for seq, (event_type, at, step, try_number, actor, data) in enumerate(decision.events, decision.first_event)
    ]
    return Prepared(decision, steps, events)


def save(connection: apsw.Connection, prepared: Sequence[Prepared], again: bool) -> list[Saving]:
    """Write the decisions whose fence holds, and answer each."""
    batch = Batch(connection, moment(connection), {each.decision.fence.run_id for each in prepared})
    judge = batch.add_unless_saved if again else batch.add
    try:
        answers = [judge(each) for each in prepared]
        batch.write()
    except KeyReused as refusal:
        # A child whose key is taken is bad data of one decision, and no reason to stop the others for good.
        raise RowsRefused(str(refusal)) from refusal
    return answers


class Batch:
    """The rows of one commit; nothing can change the fences meanwhile, as the transaction holds the write lock."""

    def __init__(self, connection: apsw.Connection, now: Instant, run_ids: Collection[RunId]) -> None:
        self._connection = connection
        self._now = now
        self._holders: dict[RunId, Holder] = json.loads(one(connection, SQL["fences"], (json.dumps([*run_ids]),)))
        self._with_waits = {run_id for run_id, holder in self._holders.items() if holder.pop()}
        self._with_inbox = {run_id for run_id, holder in self._holders.items() if holder.pop()}
        self._steps: list[Row] = []
        self._events: list[Row] = []
        self._pending = Pending(SQL)
        self._children = Newcomers(connection, now)
        self._groups = Groups()

    def add(self, prepared: Prepared) -> Saving:
        """Take a decision into the batch if its fence holds, as the decisions before it have left it."""
        decision, steps, events = prepared
        run_id, token, worker_id = decision.fence
        holder = self._holders.get(run_id)
        if holder is None or holder[0] != token or holder[1] != worker_id:
            return Saving.LOST
        release = decision.release
        if type(release) is Park and release.wakes != holder[2]:
            # What follows in this batch has numbers behind those that its holder takes back now.
            del self._holders[run_id]
            return Saving.WOKEN
        self._steps += steps
        self._events += events
        if decision.opened or decision.closed or decision.taken or decision.children:
            self._add_waits(decision)
        if release is not None:
            self._add_release(decision, release)
        if decision.outcome is not None:
            self._add_outcome(decision)
        return Saving.SAVED

    def add_unless_saved(self, prepared: Prepared) -> Saving:
        """The same for a decision that was sent before without an answer."""
        decision = prepared.decision
        if not decision.events:
            # If it was saved, its run is not held any more, or it took messages, which may be done twice.
            return self.add(prepared)
        mark = (decision.fence.run_id, decision.first_event, decision.fence.token, str(decision.events[0].type))
        return Saving.SAVED if one(self._connection, SQL["saved_before"], mark) else self.add(prepared)

    def write(self) -> None:
        """Write everything; ended children are counted last, when their parents in this batch have parked."""
        write_rows(self._connection, SQL["insert_step"], self._steps)
        write_events(self._connection, self._events)
        self._children.write()
        self._pending.write(self._connection)
        self._groups.write(self._connection, self._now)

    def _add_waits(self, decision: Decision) -> None:
        run_id, rows = decision.fence.run_id, self._pending.rows
        rows["close_wait"].extend((run_id, wait_id) for wait_id in decision.closed)
        rows["take_inbox"].extend((run_id, n) for n in decision.taken)
        if decision.opened:
            self._with_waits.add(run_id)
        for wait in decision.opened:
            due_at = None if wait.due_in_ms is None else self._now + wait.due_in_ms
            row = (run_id, wait.wait_id, decision.tenant, decision.generation, wait.kind.value, wait.name)
            rows["open_wait"].append((*row, wait.call.path, wait.call.nth, self._now, due_at, *_join_of(wait)))
        for review in decision.reviews:
            rows["open_review"].append({**review_row(run_id, decision.generation, review), "now": self._now})
        for child in decision.children:
            self._children.add(child)

    def _add_release(self, decision: Decision, release: Park | HandBack | Continue) -> None:
        run_id, token, _ = decision.fence
        match release:
            case Park():
                self._holders[run_id] = [token, None, release.wakes]
                self._pending.rows["park"].append((self._now, run_id))
            case HandBack():
                del self._holders[run_id]
                self._add_hand_back(decision, release.delay_ms)
            case Continue():
                del self._holders[run_id]
                self._add_continuation(decision, release)
            case _:
                assert_never(release)

    def _add_hand_back(self, decision: Decision, delay_ms: int) -> None:
        run_id, rows = decision.fence.run_id, self._pending.rows
        if delay_ms <= 0:
            rows["hand_back"].append((self._now, run_id))
            return
        due_at = self._now + delay_ms
        rows["put_off"].append((self._now, due_at, run_id))
        rows["insert_backoff"].append((run_id, decision.tenant, decision.generation, self._now, due_at))

    def _add_continuation(self, decision: Decision, then: Continue) -> None:
        """This generation is over, and the next begins without the records that are superseded."""
        run_id, tenant, rows = decision.fence.run_id, decision.tenant, self._pending.rows
        following = decision.generation + 1
        last_event = decision.first_event + len(decision.events) - 1
        end = (then.state.value, None, then.error, last_event, decision.fence.token, self._now)
        rows["insert_outcome"].append((run_id, decision.generation, tenant, *end))
        if then.superseded is None:
            rows["supersede_all"].append((following, run_id))
        else:
            rows["supersede"].append((following, run_id, json.dumps(then.superseded)))
        self._pending.lists["delete_waits"].append(run_id)
        opened = (run_id, following, tenant, then.version, then.code, then.definition, then.input, then.cause)
        rows["open_generation"].append((*opened, None, None, self._now))
        self._begin_generation(run_id, tenant, following, then)

    def _begin_generation(self, run_id: RunId, tenant: str, generation: int, then: Continue) -> None:
        rows = self._pending.rows
        state, due_at = TaskState.READY, None
        if then.delay_ms > 0:
            state, due_at = TaskState.WAITING, self._now + then.delay_ms
            rows["insert_backoff"].append((run_id, tenant, generation, self._now, due_at))
        life = (state.value, generation, then.code, then.is_retry, due_at, self._now, self._now + then.delay_ms)
        rows["begin_generation"].append((*life, run_id))

    def _add_outcome(self, decision: Decision) -> None:
        outcome, letter = decision.outcome, decision.dead_letter
        assert outcome is not None
        run_id, rows = decision.fence.run_id, self._pending.rows
        del self._holders[run_id]
        identity = (run_id, decision.generation, decision.tenant)
        last_event = decision.first_event + len(decision.events) - 1
        end = (outcome.state.value, outcome.value, outcome.error, last_event, decision.fence.token, outcome.ended_at)
        rows["insert_outcome"].append((*identity, *end))
        lists = self._pending.lists
        lists["delete_tasks"].append(run_id)
        if run_id in self._with_waits:
            lists["delete_waits"].append(run_id)
        if run_id in self._with_inbox:
            lists["tell_owed"].append((run_id, decision.generation, decision.fence.token))
            lists["delete_inboxes"].append(run_id)
        if letter is not None:
            cause = (letter.workflow, letter.version, letter.step, letter.error_type, letter.message, letter.shape)
            rows["insert_dead_letter"].append((*identity, *cause, self._now))
        if outcome.joins is not None:
            self._groups.add(outcome.joins, outcome.state)


def _join_of(wait: Wait) -> tuple[int, int, int]:
    return wait.need, wait.spare, wait.total
