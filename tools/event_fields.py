"""What `data` of each type of event holds: the one table behind the reference page, and behind the test of it."""

from __future__ import annotations

from typing import NamedTuple

ALWAYS = "always"


class Field(NamedTuple):
    """A key of `data`: its type in JSON, when it is there, and what it says."""

    name: str
    type: str
    when: str
    meaning: str

    @property
    def is_always_there(self) -> bool:
        return self.when == ALWAYS


def _reason(when: str = "where one was given") -> Field:
    return Field("reason", "string", when, "why, as whoever asked for it said")


def _review(when: str = ALWAYS) -> Field:
    return Field("review_id", "string", when, "the review")


def _owner(null: str) -> tuple[Field, Field]:
    kind, when = ("string or null", ALWAYS) if null else ("string", "where one is asked")
    return Field("assignee", kind, when, "the person who is asked"), Field("role", kind, when, "the role that is asked")


def _item(when: str) -> tuple[Field, Field]:
    return (
        Field("cause", "string", when, "what the item is about within its run, like `failed:1`"),
        Field("kind", "string", when, "why it was opened, as in `exception_opened`"),
    )


_VERSION = Field("version", "integer", ALWAYS, "the version that it goes on with")
_WHICH = (
    Field("all_steps", "boolean", "where that is all of them", "true"),
    Field("steps", "array of strings", "where others still count", "which"),
)
_SUPERSEDED = (Field("superseded", "integer", ALWAYS, "how many calls no longer count"), *_WHICH)
_DUE = Field("due_in_ms", "integer or null", "where the wait has an end", "how long it lasts at most")
_ERROR = (
    Field("error_type", "string", ALWAYS, "the class of the error, as `module:name`"),
    Field("message", "string", ALWAYS, "the beginning of its message"),
)
_VERDICT = (
    _review(),
    Field("verdict", "string", ALWAYS, "the answer"),
    Field("digest", "string", ALWAYS, "of what was shown"),
    Field("note", "string", "where one was given", "what the person wrote"),
)

FIELDS: dict[str, tuple[Field, ...]] = {
    "template_registered": (
        Field("name", "string", ALWAYS, "the name of the workflow"),
        Field("version", "integer", ALWAYS, "its version"),
        Field("kind", "string", ALWAYS, "`template` or `graph`"),
        Field("digest", "string", ALWAYS, "of what it does"),
    ),
    "retention_changed": (
        Field("tenant", "string or null", ALWAYS, "whose runs it is for; null: of all tenants"),
        Field("workflow", "string or null", ALWAYS, "the workflow that it is for; null: all"),
        Field(
            "keep_ms",
            "integer or null",
            "unless it is removed",
            "how long runs are kept after their end; null: for ever",
        ),
        Field("removed", "boolean", "where it is removed", "true"),
        _reason(),
    ),
    "pruned": (
        Field("count", "integer", ALWAYS, "how many runs went"),
        Field("policy", "array or null", ALWAYS, "tenant, workflow and `keep_ms` of the policy, if there was one"),
        Field("older_than_ms", "integer or null", ALWAYS, "how long ago they must have ended, as somebody asked for"),
        Field("runs", "array", ALWAYS, "the id of each, and the number of its last event"),
        Field("key", "string", "where there are keys for seals", "the name of the key"),
        Field("signature", "string", "where there are keys for seals", "over all the rest"),
    ),
    "sink_removed": (
        Field("sink", "string", ALWAYS, "its name"),
        Field("cursor", "integer", ALWAYS, "the position that it had got to"),
        Field("dead_letters", "integer", ALWAYS, "how many open dead letters of it were forgotten"),
        _reason(),
    ),
    "queued": (
        Field("workflow", "string", ALWAYS, "the name of the workflow"),
        Field("version", "integer", ALWAYS, "its version"),
        Field(
            "correlation_id", "string", "where it belongs to something", "what it belongs to; of a child its parent's"
        ),
    ),
    "claimed": (
        Field("worker", "string", ALWAYS, "the id of the worker"),
        Field("label", "string", "where the worker has one", "the name that people see"),
    ),
    "started": (),
    "waiting": (
        Field("kind", "string", "before another attempt, and where code does not fit", "`backoff` or `code`"),
        _reason("where code does not fit"),
    ),
    "paused": (_reason(),),
    "resumed": (
        Field("state", "string", "unless the run is held by a worker", "what the run is from now on"),
        _reason(),
    ),
    "retry_scheduled": (
        Field("due_at", "integer", ALWAYS, "when the next attempt begins"),
        *(field._replace(when="of a whole run that is tried again") for field in (*_ERROR, _WHICH[1])),
    ),
    "retried": (
        Field("step", "string", "of a retry from a step on", "that step"),
        _VERSION,
        *_SUPERSEDED,
        _reason(),
    ),
    "rerun": (
        Field("from_step", "string", "of a rerun from a step on", "that step"),
        _VERSION,
        *_SUPERSEDED,
        _reason(),
    ),
    "rolled_back": (
        Field("to", "string or integer", ALWAYS, "the step, the number of the event, or the state"),
        Field("event", "integer", "of a rollback to a state", "the event at which the run was last in it"),
        _VERSION._replace(when="of a run that had ended"),
        *_SUPERSEDED,
        _reason(),
    ),
    "signalled": (
        Field("name", "string", ALWAYS, "the name of the signal"),
        Field("n", "integer", ALWAYS, "its number among all that was sent to the run"),
        _reason(),
    ),
    "reaped": (
        Field("worker", "string", ALWAYS, "the worker that was found dead"),
        Field("crashes", "integer", ALWAYS, "how often a worker has died with the run in this generation"),
    ),
    "handed_back": (
        Field("reason", "string", ALWAYS, "why"),
        Field("due_at", "integer", "where it is to be taken up later", "when"),
        Field("worker", "string", "where another than its holder gave it back", "the worker that had held it"),
        Field("troubles", "integer", "for trouble that is not the run's own", "how often in a row"),
        Field("is_lasting", "boolean", "for trouble that does not pass", "true"),
    ),
    "continued": (),
    "completed": (),
    "partial": (),
    "cancelled": (_reason(),),
    "dlq_pending": (),
    "dlq_recorded": (),
    "dlq_discarded": (_reason(),),
    "failed": _ERROR,
    "step_started": (
        Field("recorded", "boolean", "of a step with a limit over all its attempts", "true: its beginning is a record"),
    ),
    "step_progress": (
        Field("done", "number", ALWAYS, "how much is done"),
        Field("total", "number or null", ALWAYS, "of how much"),
        Field("note", "string or null", ALWAYS, "what the code said with it"),
    ),
    "step_waiting": (
        Field("kind", "string", ALWAYS, "what is waited for, as in [wait](schema.md#wait)"),
        Field("name", "string", "unless it is work outside", "its name"),
        Field("started", "integer", "where more children are started", "how many there are by now"),
        Field("handle", "any", "of work outside", "what the step called it by"),
        Field("deadline_at", "integer or null", "of work outside", "when it must have ended"),
        _DUE,
    ),
    "step_completed": (
        Field("kind", "string", "where it has started a child", "`children`: another step may wait for it"),
        Field("name", "string", "where it has started a child", "the code of the child"),
        Field("run_id", "string", "where it has started a child", "the child"),
    ),
    "step_failed": (),
    "step_skipped": (
        _reason("unless a person gave none"),
        Field("by_hand", "boolean", "where a person gave the output", "true"),
        *(field._replace(when="of an open run, where a person gave the output") for field in _SUPERSEDED),
    ),
    "step_cancelled": (_review("where it was a review"),),
    "step_undone": (),
    "review_requested": (
        Field("title", "string", ALWAYS, "the question"),
        Field("digest", "string", ALWAYS, "of what is shown"),
        Field("kind", "string", ALWAYS, "as in `exception_opened`"),
        *_owner("null"),
        _DUE,
    ),
    "review_answered": _VERDICT,
    "review_decided": _VERDICT,
    "review_expired": (
        _review(),
        Field("verdict", "string", "where the author named one", "the verdict that counts now"),
    ),
    "review_escalated": (
        _review(),
        *_owner(""),
        Field("note", "string", "where one was given", "what was said with it"),
    ),
    "review_assigned": (_review(), *_owner(""), _reason()),
    "review_commented": (_review(),),
    "token_issued": (
        _review(),
        Field("bearer", "string", ALWAYS, "the person who can answer with it"),
        Field("expires_at", "integer", ALWAYS, "until when"),
    ),
    "resume_submitted": (
        _review("unless it is of no review"),
        Field("outcome", "string", ALWAYS, "`accepted`, or the code of the error"),
    ),
    "callback_submitted": (Field("outcome", "string", ALWAYS, "`complete`, `fail`, or the code of the error"),),
    "exception_opened": (
        Field(
            *("kind", "string", ALWAYS),
            "`review_required`, `low_confidence`, `policy_conflict`, `failed` or `blocked`",
        ),
        Field("borne_by", "string", "of a failure that its run goes on from", "the call that says so"),
    ),
    "exception_assigned": (
        *_item(ALWAYS),
        Field("assignee", "string", "unless it is nobody's any more", "who is to see to it"),
        _reason(),
    ),
    "exception_commented": (*_item(ALWAYS), _reason()),
    "exception_resolved": (
        *_item("unless it stands for a review"),
        _review("where it stands for one"),
        Field("resolution", "string", ALWAYS, "what became of it, as in [exception_item](schema.md#exception_item)"),
        _reason(),
    ),
    "annotated": (
        Field("key", "string", ALWAYS, "the name of the fact"),
        Field("value", "any", ALWAYS, "the fact"),
        Field("digest", "string", ALWAYS, "of key and value, by which it is found"),
        Field("by_code", "boolean", "where the run's own code noted it", "true; `actor` is whoever asked for the run"),
        Field("scope", "string", "where one was given", "what kind of fact it is"),
        _reason(),
    ),
}


def fields_table(type_: str) -> str:
    """The rows of one type's fields, or that it has none."""
    if type_ not in FIELDS:
        raise SystemExit(f"Nothing says what `data` of event {type_} holds; add it to FIELDS in tools/event_fields.py.")
    if not FIELDS[type_]:
        return "It has no `data`."
    rows = [f"| `{field.name}` | {field.type} | {field.when} | {field.meaning} |" for field in FIELDS[type_]]
    return "\n".join(["| key of `data` | type | there | meaning |", "| --- | --- | --- | --- |", *rows])
