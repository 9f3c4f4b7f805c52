"""Decisions as columns, and the call that saves them: a statement names only the parts that its batch has."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain

from stepfast.kernel.decisions import Continue, Decision, Fence, HandBack, Park, Record
from stepfast.kernel.events import Event
from stepfast.kernel.exchange import Saving
from stepfast.stores.postgres.columns import Column, Columns, call_with
from stepfast.stores.postgres.driver import Row
from stepfast.stores.postgres.starting import RUN_COLUMNS, run_columns
from stepfast.stores.reviewing import review_row

# By the numbers that `stepfast.save` answers with; what an earlier call has saved is saved.
_ANSWERS = (Saving.LOST, Saving.SAVED, Saving.WOKEN, Saving.SAVED)

# A token that was never handed out.
_NO_TOKEN = -1


def save_call(decisions: Sequence[Decision], again: bool) -> tuple[str, list[object]]:
    """The statement that saves a batch, and its arguments."""
    parts = parts_of(decisions)
    arguments, values = call_with(_columns_of(tuple(parts)), list(chain.from_iterable(parts.values())))
    return f"select stepfast.save({arguments}{', d_again => true' if again else ''})", values


def parts_of(decisions: Sequence[Decision]) -> dict[str, list[Column]]:
    """The parts that a batch has, each turned on its side."""
    parts = _PARTS if any(map(_has_more, decisions)) else _EVERYDAY_PARTS
    return {name: columns for name, turn in parts.items() if (columns := turn(decisions))}


def _has_more(decision: Decision) -> bool:
    """Whether a decision has other parts than those that nearly all consist of."""
    return bool(
        decision.release
        or decision.closed
        or decision.opened
        or decision.taken
        or decision.children
        or decision.dead_letter
        or decision.reviews
    )


def savings(rows: Sequence[Row]) -> list[Saving]:
    """The answer to each decision."""
    return [_ANSWERS[number] for number in rows[0][0]]


def _fences(decisions: Sequence[Decision]) -> list[Column]:
    run_ids, tokens, workers = zip(*[decision.fence for decision in decisions], strict=True)
    if len(set(run_ids)) < len(run_ids):
        tokens = _without_late(decisions)
    tenants = [decision.tenant for decision in decisions]
    return [run_ids, tokens, workers, tenants, [decision.generation for decision in decisions]]


def _without_late(decisions: Sequence[Decision]) -> tuple[int, ...]:
    """The tokens, except of decisions that follow one by which their own holder ended or gave away the run."""
    given_away: set[Fence] = set()
    tokens = []
    for decision in decisions:
        tokens.append(_NO_TOKEN if decision.fence in given_away else decision.fence.token)
        if decision.outcome is not None or decision.release is not None:
            given_away.add(decision.fence)
    return tuple(tokens)


def _events(decisions: Sequence[Decision]) -> list[Column]:
    events: list[Event] = []
    owners: list[int] = []
    numbers: list[int] = []
    for of, decision in enumerate(decisions, start=1):
        own = decision.events
        events += own
        owners += [of] * len(own)
        numbers += range(decision.first_event, decision.first_event + len(own))
    if not events:
        return []
    return [owners, numbers, *zip(*events, strict=True)]


def _records(decisions: Sequence[Decision]) -> list[Column]:
    records: list[Record] = []
    owners: list[int] = []
    numbers: list[int] = []
    for of, decision in enumerate(decisions, start=1):
        if own := decision.records:
            records += own
            owners += [of] * len(own)
            numbers += range(decision.first_seq, decision.first_seq + len(own))
    if not records:
        return []
    calls, *columns, _ = zip(*records, strict=True)
    return [owners, numbers, *zip(*calls, strict=True), *columns]


def _outcomes(decisions: Sequence[Decision]) -> list[Column]:
    ends = [(of, decision, end) for of, decision in enumerate(decisions, start=1) if (end := decision.outcome)]
    if not ends:
        return []
    numbers = [decision.first_event + len(decision.events) - 1 for _, decision, _ in ends]
    states, values, errors, moments, joins = zip(*[end for _, _, end in ends], strict=True)
    parents = [join and join.parent_id for join in joins]
    waits = [join and join.wait_id for join in joins]
    return [[of for of, _, _ in ends], numbers, states, values, errors, moments, parents, waits]


def _dead_letters(decisions: Sequence[Decision]) -> list[Column]:
    letters = [
        json.dumps({"owner": of, **letter._asdict(), "shape": letter.shape})
        for of, decision in enumerate(decisions, start=1)
        if (letter := decision.dead_letter)
    ]
    return [letters] if letters else []


def _reviews(decisions: Sequence[Decision]) -> list[Column]:
    reviews = [
        json.dumps({**review_row(decision.fence.run_id, decision.generation, review), "decision": of})
        for of, decision in enumerate(decisions, start=1)
        for review in decision.reviews
    ]
    return [reviews] if reviews else []


def _opened(decisions: Sequence[Decision]) -> list[Column]:
    waits = [(of, wait) for of, decision in enumerate(decisions, start=1) for wait in decision.opened]
    rows = [
        (
            *(of, wait.wait_id, wait.kind, wait.name, wait.call.path, wait.call.nth),
            *(wait.due_in_ms, wait.need, wait.spare, wait.total),
        )
        for of, wait in waits
    ]
    return list(zip(*rows, strict=True))


def _closed(decisions: Sequence[Decision]) -> list[Column]:
    rows = [(of, wait_id) for of, decision in enumerate(decisions, start=1) for wait_id in decision.closed]
    return list(zip(*rows, strict=True))


def _taken(decisions: Sequence[Decision]) -> list[Column]:
    rows = [(of, n) for of, decision in enumerate(decisions, start=1) for n in decision.taken]
    return list(zip(*rows, strict=True))


def _releases(decisions: Sequence[Decision]) -> list[Column]:
    rows = [
        (of, *_release(how)) for of, decision in enumerate(decisions, start=1) if (how := decision.release) is not None
    ]
    return list(zip(*rows, strict=True))


def _continuations(decisions: Sequence[Decision]) -> list[Column]:
    rows = [
        (
            *(of, decision.first_event + len(decision.events) - 1, then.version, then.code, then.definition),
            *(then.input, then.cause, then.state, then.error, then.superseded is None),
        )
        for of, decision in enumerate(decisions, start=1)
        if isinstance(then := decision.release, Continue)
    ]
    return list(zip(*rows, strict=True))


def _superseded(decisions: Sequence[Decision]) -> list[Column]:
    rows = [
        (of, *call)
        for of, decision in enumerate(decisions, start=1)
        if isinstance(then := decision.release, Continue)
        for call in then.superseded or ()
    ]
    return list(zip(*rows, strict=True))


def _release(how: Park | HandBack | Continue) -> tuple[int | None, int]:
    return (how.wakes, 0) if isinstance(how, Park) else (None, how.delay_ms)


def _children(decisions: Sequence[Decision]) -> list[Column]:
    children = [(of, child) for of, decision in enumerate(decisions, start=1) for child in decision.children]
    if not children:
        return []
    return [[of for of, _ in children], *run_columns([child for _, child in children])]


_PARTS: dict[str, Callable[[Sequence[Decision]], list[Column]]] = {
    "fences": _fences,
    "events": _events,
    "records": _records,
    "outcomes": _outcomes,
    "dead letters": _dead_letters,
    "opened": _opened,
    "reviews": _reviews,
    "closed": _closed,
    "taken": _taken,
    "releases": _releases,
    "continuations": _continuations,
    "superseded": _superseded,
    "children": _children,
}

_EVERYDAY_PARTS = {name: _PARTS[name] for name in ("fences", "events", "records", "outcomes")}

SUPERSEDED_COLUMNS = (("y_of", "integer[]"), ("y_path", "text[]"), ("y_name", "text[]"), ("y_count", "integer[]"))

PART_COLUMNS: dict[str, Columns] = {
    "fences": (
        ("d_run", "uuid[]"),
        ("d_token", "integer[]"),
        ("d_worker", "uuid[]"),
        ("d_tenant", "text[]"),
        ("d_generation", "integer[]"),
    ),
    "events": (
        ("e_of", "integer[]"),
        ("e_seq", "integer[]"),
        ("e_type", "text[]"),
        ("e_at", "bigint[]"),
        ("e_step", "text[]"),
        ("e_attempt", "integer[]"),
        ("e_actor", "text[]"),
        ("e_data", "text[]"),
    ),
    "records": (
        ("r_of", "integer[]"),
        ("r_seq", "integer[]"),
        ("r_path", "text[]"),
        ("r_name", "text[]"),
        ("r_count", "integer[]"),
        ("r_kind", "text[]"),
        ("r_state", "text[]"),
        ("r_attempt", "integer[]"),
        ("r_digest", "text[]"),
        ("r_input", "text[]"),
        ("r_value", "text[]"),
        ("r_error", "text[]"),
        ("r_started", "bigint[]"),
        ("r_ended", "bigint[]"),
        ("r_due", "bigint[]"),
    ),
    "outcomes": (
        ("o_of", "integer[]"),
        ("o_seq", "integer[]"),
        ("o_state", "text[]"),
        ("o_value", "text[]"),
        ("o_error", "text[]"),
        ("o_ended", "bigint[]"),
        ("o_parent", "uuid[]"),
        ("o_wait", "integer[]"),
    ),
    "dead letters": (("l_row", "text[]"),),
    "reviews": (("v_row", "text[]"),),
    "opened": (
        ("w_of", "integer[]"),
        ("w_id", "integer[]"),
        ("w_kind", "text[]"),
        ("w_name", "text[]"),
        ("w_path", "text[]"),
        ("w_count", "integer[]"),
        ("w_due_in", "bigint[]"),
        ("w_need", "integer[]"),
        ("w_spare", "integer[]"),
        ("w_total", "integer[]"),
    ),
    "closed": (("c_of", "integer[]"), ("c_id", "integer[]")),
    "taken": (("i_of", "integer[]"), ("i_n", "integer[]")),
    "releases": (("p_of", "integer[]"), ("p_wakes", "integer[]"), ("p_delay", "bigint[]")),
    "continuations": (
        ("x_of", "integer[]"),
        ("x_seq", "integer[]"),
        ("x_version", "integer[]"),
        ("x_code", "text[]"),
        ("x_definition", "text[]"),
        ("x_input", "text[]"),
        ("x_cause", "text[]"),
        ("x_state", "text[]"),
        ("x_error", "text[]"),
        ("x_whole", "boolean[]"),
    ),
    "superseded": SUPERSEDED_COLUMNS,
    "children": (("n_of", "integer[]"), *RUN_COLUMNS),
}


@cache
def _columns_of(parts: tuple[str, ...]) -> Columns:
    return tuple(chain.from_iterable(PART_COLUMNS[name] for name in parts))
